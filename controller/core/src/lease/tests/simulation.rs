//! Replicas over one lease, with clocks that show what they like and run at different rates, a
//! network that delays and loses, processes that freeze, crash and give up: never two leaders at
//! one instant, and when the trouble is over, one leads and goes on leading.

use proptest::prelude::*;

mod plan;
mod world;

use plan::{Plan, plans};
use world::World;

/// Time passes in steps of so many milliseconds.
const STEP: u64 = 100;
/// When the trouble ends.
const TROUBLE: u64 = 150_000;
/// Enough for the last frozen to wake, and an expiry.
const SETTLED: u64 = TROUBLE + 90_000;
const END: u64 = SETTLED + 20_000;

fn simulate(plan: &Plan, deletes: bool) -> Result<(), TestCaseError> {
    let mut world = World::new(plan, deletes);
    let mut settled: Option<String> = None;
    while world.millis < END {
        for (at, index, trouble) in &plan.troubles {
            if (world.millis..world.millis + STEP).contains(at) {
                let index = index.index(world.replicas.len());
                world.suffer(index, *trouble);
            }
        }
        if world.millis == TROUBLE {
            for index in 0..world.replicas.len() {
                world.replicas[index].may_contend = true;
            }
        }
        world.deliver();
        for index in 0..world.replicas.len() {
            world.run(index);
            let leaders = world.leaders();
            prop_assert!(
                leaders.len() <= 1,
                "{leaders:?} lead at {} ms",
                world.millis
            );
        }
        if world.millis >= SETTLED {
            let leaders = world.leaders();
            prop_assert_eq!(leaders.len(), 1, "no replica leads at {} ms", world.millis);
            let leader = settled.get_or_insert_with(|| leaders[0].to_owned());
            prop_assert_eq!(
                &*leader,
                leaders[0],
                "it changes without need at {} ms",
                world.millis
            );
        }
        world.millis += STEP;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn never_two_leaders_and_one_in_the_end(plan in plans()) {
        simulate(&plan, false)?;
    }

    #[test]
    fn never_two_leaders_when_the_lease_is_deleted(plan in plans()) {
        simulate(&plan, true)?;
    }
}
