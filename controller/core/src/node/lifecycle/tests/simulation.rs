//! A cloud whose machines come, go, stop and come again, kubelets that fall silent, providers that
//! err, doubt, guess and answer late, people who hold and delete nodes: no node whose instance
//! exists is ever deleted, none is taken out of service whose instance was not stopped for so long, and when the trouble is
//! over, each node whose instance is gone is deleted.

use proptest::prelude::*;

mod controller;
mod plan;
mod world;

use controller::{Controller, REFRESH, SNAPSHOT};
use plan::{Event, Ids, Plan, SMOOTH, plans};
use world::{World, shut_down};

use crate::node::{NodeView, Ready, deletion_limit::Release};

/// Seconds of trouble.
const TROUBLE: u64 = 900;
/// Enough for an operator to confirm everything that the rate limit withholds, and for the limit to end.
const CLEARED: u64 = TROUBLE + 200;
const OPEN: u64 = CLEARED + 700;

struct Run {
    world: World,
    controller: Controller,
}

impl Run {
    fn new(plan: &Plan) -> Self {
        Self {
            world: World::new(plan.nodes, plan.ids),
            controller: Controller::new(plan),
        }
    }

    fn second(&mut self) {
        self.world.live();
        self.controller.run(&mut self.world);
        self.world.now += 1;
    }

    fn until(&mut self, second: u64) {
        while self.world.now < second {
            self.second();
        }
    }

    /// Runs until `holds`, for so many seconds at most; how many it took.
    fn wait(&mut self, limit: u64, what: &str, holds: impl Fn(&World) -> bool) -> u64 {
        let start = self.world.now;
        while !holds(&self.world) {
            assert!(self.world.now < start + limit, "{what}: not in {limit} s");
            self.second();
        }
        self.world.now - start
    }

    fn node(&self, index: usize) -> Option<&NodeView> {
        self.world.nodes.get(&self.world.slots[index].name)
    }
}

fn is_ready(world: &World, index: usize) -> bool {
    let node = world.nodes.get(&world.slots[index].name);
    node.is_some_and(|node| node.ready == Ready::True)
}

/// Trouble, and then what must come of it.
fn simulate(plan: &Plan) {
    let mut run = Run::new(plan);
    while run.world.now < TROUBLE {
        for (at, index, event) in &plan.events {
            if *at == run.world.now {
                run.world.suffer(index.index(plan.nodes), *event);
            }
        }
        run.second();
    }
    run.controller.calm(TROUBLE);
    run.world.calm();
    run.until(TROUBLE + 90);
    run.world.confirm_all(true);
    run.until(CLEARED);
    run.world.confirm_all(false);
    run.until(OPEN);
    assert_eq!(run.controller.counts(&run.world).absent, 0);
    let is_unowned = |node: &NodeView| plan.foreign_prefix_seen && node.provider_id.is_empty();
    for index in 0..plan.nodes {
        let exists = run.world.slots[index].machine().exists(OPEN);
        let node = run.node(index);
        let unowned = node.is_some_and(is_unowned);
        assert!(exists == node.is_some() || unowned, "{exists}: {node:?}");
    }
    // A node whose machine exists, by its own ID.
    let lives = |index: &usize| {
        let machine = run.world.slots[*index].machine();
        run.node(*index)
            .is_some_and(|node| node.ready == Ready::True && *node.provider_id == *machine.id)
    };
    let Some(index) = (0..plan.nodes).find(lives) else {
        return;
    };
    let expected = run.world.slots[index].machine().instance().addresses;
    assert!(run.node(index).unwrap().addresses.starts_with(&expected));

    run.world.suffer(index, Event::Stop);
    run.wait(60, "not ready", |world| !is_ready(world, index));
    let name = run.world.slots[index].name.clone();
    run.wait(10, "tainted", |world| {
        world.nodes[&name].taints == shut_down()
    });
    // Perhaps it is taken out of service, too.
    run.until(run.world.now + 90);
    run.world.suffer(index, Event::Start);
    run.wait(5, "untainted", |world| {
        is_ready(world, index) && world.nodes[&name].taints.is_empty()
    });

    if is_unowned(run.node(index).unwrap()) {
        return;
    }
    // Nodes that were taken over by machines with other ids are ready and absent for good.
    let counts = run.controller.counts(&run.world);
    let total = counts.total() + 1;
    // A snapshot from before the end of the machine contradicts its absence.
    let soon = 30 + SNAPSHOT;
    let limit = if total as f64 <= counts.limit {
        soon
    } else if 2 * total <= counts.nodes {
        // The next snapshot shows that the provider finds something.
        300 + REFRESH + 60
    } else {
        run.world.confirm_all(true);
        soon
    };
    run.world.suffer(index, Event::Vanish);
    run.wait(60, "not ready", |world| !is_ready(world, index));
    run.wait(limit, "deleted", |world| !world.nodes.contains_key(&name));
}

/// A calm cloud that loses so many machines at once.
fn lose(nodes: usize, lost: usize, ids: Ids) -> Run {
    let mut run = Run::new(&Plan {
        nodes,
        ids,
        confirm: 2,
        visible: 60,
        refresh: REFRESH,
        foreign_prefix_seen: false,
        out_of_service_after: 0,
        fates: vec![SMOOTH],
        events: Vec::new(),
    });
    run.until(400);
    for index in 0..lost {
        run.world.suffer(index, Event::Vanish);
    }
    run.wait(60, "not ready", |world| !is_ready(world, lost - 1));
    run
}

fn ids() -> impl Strategy<Value = Ids> {
    prop_oneof![
        Just(Ids::OfKubelets),
        Just(Ids::OfInitialisation),
        Just(Ids::None)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn no_node_is_deleted_whose_instance_exists(plan in plans()) {
        simulate(&plan);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(6) })]

    #[test]
    fn a_loss_of_thirty_per_cent_is_exceeded_and_then_completed(nodes in 20..50_usize, ids in ids()) {
        let lost = nodes * 3 / 10;
        let mut run = lose(nodes, lost, ids);
        let start = run.world.now;
        run.until(start + 290);
        prop_assert_eq!(&run.controller.deletions, &[]);
        prop_assert!(run.controller.counts(&run.world).is_exceeded());
        run.until(start + 330);
        prop_assert_eq!(run.controller.deletions.len(), lost);
        let releases = run.controller.deletions.iter();
        prop_assert!(releases.into_iter().all(|(_, _, release)| *release == Release::SecondLook));
        prop_assert_eq!(run.world.nodes.len(), nodes - lost);
    }

    #[test]
    fn a_loss_of_more_than_half_waits_for_a_person(nodes in 8..30_usize, ids in ids()) {
        let lost = nodes / 2 + 1;
        let mut run = lose(nodes, lost, ids);
        let start = run.world.now;
        run.until(start + 900);
        prop_assert_eq!(&run.controller.deletions, &[]);
        run.world.confirm_all(true);
        run.until(start + 900 + 65);
        prop_assert_eq!(run.controller.deletions.len(), lost);
    }
}

/// The limit, and no more than upstream's time for it.
#[test]
fn a_few_are_deleted_at_once() {
    for (nodes, lost) in [(1, 1), (3, 3), (10, 3), (50, 5)] {
        let mut run = lose(nodes, lost, Ids::OfKubelets);
        let took = run.wait(30, "deleted", |world| world.nodes.len() == nodes - lost);
        assert!(took <= 10, "{took} s for {lost} of {nodes}");
    }
}
