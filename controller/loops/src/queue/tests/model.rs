//! Random histories: the state against a plain model, and the running queue against its promises.

use proptest::{collection::vec, prelude::*};
use tokio::runtime::Builder;

use super::*;
use crate::queue::state::State;

/// Bulk keys in flight.
const BULK: usize = 2;

const CONCURRENCY: Concurrency = Concurrency {
    all: usize::MAX,
    bulk: BULK,
};

#[derive(Clone, Debug)]
enum Step {
    Add(u8, Priority),
    AddAfter(u8, Priority, u64),
    /// The key of the next turn.
    Take,
    Finish(usize, Outcome),
    Abandon(usize),
    Wait(u64),
}

fn priority() -> impl Strategy<Value = Priority> {
    proptest::sample::select(Priority::ALL.to_vec())
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        2 => Just(Outcome::Done),
        2 => Just(Outcome::Retry),
        1 => (0..20_u64).prop_map(|ms| Outcome::RetryWithin(Duration::from_millis(ms))),
        // Below the first slow delay, so that the limit is what counts.
        1 => (0..20_u64).prop_map(|ms| Outcome::RetrySlowly(Duration::from_millis(ms))),
        1 => (0..20_u64).prop_map(|ms| Outcome::RetryAfter(Duration::from_millis(ms))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..12_u8;
    prop_oneof![
        4 => (key.clone(), priority()).prop_map(|(k, p)| Step::Add(k, p)),
        2 => (key, priority(), 0..30_u64).prop_map(|(k, p, ms)| Step::AddAfter(k, p, ms)),
        5 => Just(Step::Take),
        4 => (any::<usize>(), outcome()).prop_map(|(n, o)| Step::Finish(n, o)),
        1 => any::<usize>().prop_map(Step::Abandon),
        3 => (0..15_u64).prop_map(Step::Wait),
    ]
}

/// Lists and linear searches instead of maps; milliseconds instead of instants.
#[derive(Default)]
struct Model {
    now: u64,
    /// Key, priority, and the turn in which it came.
    ready: Vec<(u8, Priority, u32)>,
    /// Key, priority, whether its back-off was still pending.
    running: Vec<(u8, Priority, bool)>,
    again: Vec<(u8, Priority)>,
    /// Key, priority, when, and the turn among those of the same time.
    later: Vec<(u8, Priority, u64, u32)>,
    /// The same; the flag says that a failure caused the delay.
    retries: Vec<(u8, Priority, u64, u32, bool)>,
    turn: u32,
    failures: HashMap<u8, u32>,
    slow: HashMap<u8, bool>,
    /// Turns in a row while less urgent keys waited.
    in_row: HashMap<Priority, u32>,
}

impl Model {
    fn add(&mut self, key: u8, priority: Priority) {
        if self.running.iter().any(|r| r.0 == key) {
            match self.again.iter_mut().find(|a| a.0 == key) {
                Some(again) => again.1 = again.1.min(priority),
                None => self.again.push((key, priority)),
            }
            return;
        }
        if let Some(at) = self.ready.iter().position(|r| r.0 == key) {
            if priority >= self.ready[at].1 {
                return;
            }
            self.ready.remove(at);
        }
        self.make_ready(key, priority);
    }

    fn make_ready(&mut self, key: u8, priority: Priority) {
        self.turn += 1;
        self.ready.push((key, priority, self.turn));
    }

    fn add_after(&mut self, key: u8, priority: Priority, ms: u64) {
        if ms == 0 {
            return self.add(key, priority);
        }
        self.turn += 1;
        let mut new = (key, priority, self.now + ms, self.turn);
        if let Some(at) = self.later.iter().position(|l| l.0 == key) {
            let old = self.later.remove(at);
            new = (key, priority.min(old.1), new.2.min(old.2), self.turn);
        }
        self.later.push(new);
    }

    fn fire(&mut self) {
        loop {
            let later = self.later.iter().map(|l| (l.2, l.3, l.0, l.1));
            let retries = self.retries.iter().map(|r| (r.2, r.3, r.0, r.1));
            let due = later.chain(retries).filter(|d| d.0 <= self.now).min();
            let Some((_, turn, key, priority)) = due else {
                return;
            };
            self.later.retain(|l| l.3 != turn);
            self.retries.retain(|r| r.3 != turn);
            self.add(key, priority);
        }
    }

    fn take(&mut self) -> Option<(u8, Priority)> {
        let bulk = self.running.iter().filter(|r| r.1 == Priority::Bulk);
        let has_room = bulk.count() < BULK;
        let waits = |priority: Priority| self.ready.iter().any(|r| r.1 == priority);
        let all = Priority::ALL.into_iter();
        let may_go = |p: &Priority| waits(*p) && (has_room || *p != Priority::Bulk);
        let waiting: Vec<_> = all.clone().filter(may_go).collect();
        let in_row = |priority| self.in_row.get(&priority).copied().unwrap_or(0);
        let next = waiting.iter().position(|p| in_row(*p) < 7);
        let next = next.or(waiting.len().checked_sub(1))?;
        let priority = waiting[next];
        let mut less_urgent = false;
        for other in all {
            if other < priority {
                self.in_row.insert(other, 0);
            }
            less_urgent |= other > priority && waits(other);
        }
        if less_urgent {
            *self.in_row.entry(priority).or_default() += 1;
        }
        self.ready.sort_by_key(|r| r.2);
        let key = self.ready.iter().find(|r| r.1 == priority)?.0;
        self.ready.retain(|r| r.0 != key);
        let early = self.retries.iter().any(|r| r.0 == key && r.4);
        self.running.push((key, priority, early));
        Some((key, priority))
    }

    fn finish(&mut self, nth: usize, outcome: Outcome) -> u8 {
        let (key, priority, early) = self.running.remove(nth);
        self.turn += 1;
        let failures = self.failures.entry(key).or_default();
        let retry = match outcome {
            Outcome::Done => {
                *failures = 0;
                None
            }
            Outcome::Retry | Outcome::RetryWithin(_) | Outcome::RetrySlowly(_) if early => {
                self.retries.iter().copied().find(|r| r.0 == key)
            }
            Outcome::Retry | Outcome::RetryWithin(_) | Outcome::RetrySlowly(_) => {
                let is_slow = matches!(outcome, Outcome::RetrySlowly(_));
                if self.slow.insert(key, is_slow).unwrap_or_default() != is_slow {
                    *failures = 0;
                }
                *failures += 1;
                let mut delay = (5 << (*failures - 1).min(3)).min(40);
                match outcome {
                    Outcome::RetryWithin(limit) => delay = delay.min(limit.as_millis() as u64),
                    Outcome::RetrySlowly(limit) => delay = limit.as_millis() as u64,
                    _ => {}
                }
                Some((key, priority, self.now + delay, self.turn, true))
            }
            Outcome::RetryAfter(d) => {
                let at = self.now + d.as_millis() as u64;
                Some((key, priority, at, self.turn, false))
            }
        };
        self.retries.retain(|r| r.0 != key);
        self.retries.extend(retry);
        self.ready_again(key);
        key
    }

    fn abandon(&mut self, nth: usize) -> u8 {
        let (key, priority, _) = self.running.remove(nth);
        self.ready_again(key);
        self.add(key, priority);
        key
    }

    fn ready_again(&mut self, key: u8) {
        if let Some(at) = self.again.iter().position(|a| a.0 == key) {
            let (key, priority) = self.again.remove(at);
            self.make_ready(key, priority);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn the_state_does_what_the_model_does(steps in vec(step(), 0..200)) {
        let backoff = Backoff::new(5 * MS, 40 * MS);
        let counters = QueueMetrics::default().counters("test");
        let mut state = State::new(backoff, counters);
        let mut model = Model::default();
        let start = Instant::now();
        for step in steps {
            let now = start + Duration::from_millis(model.now);
            match step {
                Step::Add(key, priority) => {
                    state.add(now, key, priority);
                    model.add(key, priority);
                }
                Step::AddAfter(key, priority, ms) => {
                    state.add_after(now, key, priority, Duration::from_millis(ms));
                    model.add_after(key, priority, ms);
                }
                Step::Take => {
                    let before: Vec<_> = model.running.iter().map(|r| r.0).collect();
                    let taken = state.take(now, CONCURRENCY);
                    prop_assert!(taken.is_none_or(|(key, _)| !before.contains(&key)));
                    prop_assert_eq!(taken, model.take());
                }
                Step::Finish(nth, outcome) if !model.running.is_empty() => {
                    let key = model.finish(nth % model.running.len(), outcome);
                    state.finish(now, &key, outcome);
                }
                Step::Abandon(nth) if !model.running.is_empty() => {
                    let key = model.abandon(nth % model.running.len());
                    state.abandon(now, &key);
                }
                Step::Wait(ms) => model.now += ms,
                Step::Finish(..) | Step::Abandon(_) => {}
            }
            // The run loop does the same in each round.
            state.fire(start + Duration::from_millis(model.now));
            model.fire();
            prop_assert_eq!(state.depth(), model.ready.len());
        }
    }

    #[test]
    fn never_two_at_once_and_nothing_is_lost(
        workers in 1..5_usize,
        adds in vec((0..8_u8, priority(), 0..10_u64, 0..10_u64), 1..100),
        runs in vec((0..8_u64, outcome()), 1..50),
    ) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let queue = Queue::new("test", Backoff::new(MS, 8 * MS), &QueueMetrics::default());
            let world = Arc::<Mutex<World>>::default();
            let shutdown = CancellationToken::new();
            let mut tasks = JoinSet::new();
            tasks.spawn({
                let (queue, world, stop) = (queue.clone(), Arc::clone(&world), shutdown.clone());
                let handler = move |key, priority| work(Arc::clone(&world), (key, priority), runs.clone());
                async move {
                    let concurrency = || Concurrency { all: workers, bulk: BULK };
                    let run = queue.run(concurrency, no_slot, always_open(), stop, each(handler));
                    run.await;
                }
            });
            for (key, priority, delay, pause) in adds {
                world.lock().added_at.insert(key, Instant::now());
                queue.add_after(key, priority, Duration::from_millis(delay));
                sleep(Duration::from_millis(pause)).await;
            }
            sleep(60 * SECOND).await;
            let world = world.lock();
            let [all, bulk] = world.most;
            assert!(all <= workers, "{all} handlers at once");
            assert!(bulk <= BULK, "{bulk} bulk keys");
            for (key, added) in &world.added_at {
                assert!(world.done[key] >= *added, "key {key} was lost");
            }
            assert!(queue.shared.state.lock().is_empty());
        });
    }
}

#[derive(Default)]
struct World {
    running: HashMap<u8, Priority>,
    /// Handlers at once, and those of bulk keys.
    most: [usize; 2],
    runs: usize,
    added_at: HashMap<u8, Instant>,
    /// Start of the last run that ended well.
    done: HashMap<u8, Instant>,
}

async fn work(
    world: Arc<Mutex<World>>,
    (key, priority): (u8, Priority),
    script: Vec<(u64, Outcome)>,
) -> Outcome {
    let start = Instant::now();
    let run = {
        let mut world = world.lock();
        let other = world.running.insert(key, priority);
        assert!(other.is_none(), "key {key} is worked on twice");
        let bulk = world.running.values().filter(|p| **p == Priority::Bulk);
        let now = [world.running.len(), bulk.count()];
        for (most, now) in world.most.iter_mut().zip(now) {
            *most = now.max(*most);
        }
        world.runs += 1;
        world.runs - 1
    };
    // After the script every run ends well.
    let (length, outcome) = *script.get(run).unwrap_or(&(0, Outcome::Done));
    sleep(Duration::from_millis(length)).await;
    let mut world = world.lock();
    world.running.remove(&key);
    if outcome == Outcome::Done {
        world.done.insert(key, start);
    }
    outcome
}
