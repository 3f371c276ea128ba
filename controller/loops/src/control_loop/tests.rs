//! The runtime with a loop that only counts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{ControlLoop, LoopInputs, Task, run};
use crate::{
    fixture::{Fixture, Setup},
    queue::{Outcome, Priority, Queue},
};
use outrigger_runtime::backoff::Backoff;

const A_WHILE: Duration = Duration::from_mins(1);

/// The test's observations of all lease terms.
#[derive(Default)]
struct Observations {
    is_ready: Notify,
    may_end: Notify,
    reconciled: AtomicUsize,
    gave_up: AtomicBool,
    task_ends: Notify,
}

struct Counting {
    queue: Queue<&'static str>,
    memory: Arc<AtomicUsize>,
    permits: Semaphore,
    observations: Arc<Observations>,
}

impl ControlLoop for Counting {
    type Key = &'static str;
    type State = AtomicUsize;
    type Slot = ();

    const NAME: &'static str = "counting-controller";

    fn state(&self) -> &Arc<AtomicUsize> {
        &self.memory
    }

    async fn ready(&self) {
        self.observations.is_ready.notified().await;
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        self.queue.add("first", Priority::Bulk);
        let observations = Arc::clone(&self.observations);
        let task = async move { observations.task_ends.notified().await };
        vec![("a task", task.boxed())]
    }

    async fn reconcile(self: Arc<Self>, key: &'static str, _: Priority, (): ()) -> Outcome {
        self.memory.fetch_add(1, Ordering::Relaxed);
        if key == "waits" && self.permits.acquire().await.is_err() {
            self.observations.gave_up.store(true, Ordering::Relaxed);
            return Outcome::Retry;
        }
        if key == "slow" {
            self.observations.may_end.notified().await;
        }
        self.observations.reconciled.fetch_add(1, Ordering::Relaxed);
        Outcome::Done
    }

    fn stopping(&self) {
        self.permits.close();
    }
}

/// A loop that can be started for several lease terms.
struct Rig {
    fixture: Fixture,
    inputs: LoopInputs<&'static str, AtomicUsize>,
    observations: Arc<Observations>,
}

impl Rig {
    async fn new() -> Self {
        let fixture = Fixture::new(Setup::default());
        fixture.provider.wait_until_serving().await;
        Self {
            inputs: LoopInputs::new("counting", Backoff::default(), &fixture.queues),
            fixture,
            observations: Arc::default(),
        }
    }

    /// A lease term until `stop`.
    fn spawn(&self, stop: &CancellationToken) -> JoinSet<()> {
        let counting = Counting {
            queue: self.inputs.queue.clone(),
            memory: Arc::default(),
            permits: Semaphore::new(0),
            observations: Arc::clone(&self.observations),
        };
        let provider = self.fixture.provider.clone();
        let mut running = JoinSet::new();
        running.spawn(run(counting, self.inputs.clone(), provider, stop.clone()));
        running
    }

    /// The number of keys that this lease term has taken.
    fn taken(&self) -> Option<usize> {
        let memory = self.inputs.state.current();
        memory.map(|memory| memory.load(Ordering::Relaxed))
    }

    fn reconciled(&self) -> usize {
        self.observations.reconciled.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_term_has_state_from_ready_to_the_stop() {
    let rig = Rig::new().await;
    for _ in 0..2 {
        let stop = CancellationToken::new();
        let mut running = rig.spawn(&stop);
        sleep(A_WHILE).await;
        assert_eq!(rig.taken(), None, "before it is ready");
        rig.observations.is_ready.notify_one();
        sleep(A_WHILE).await;
        assert_eq!(rig.taken(), Some(1), "a state of its own");
        stop.cancel();
        timeout(A_WHILE, running.join_next()).await.unwrap();
        assert_eq!(rig.taken(), None, "after the stop");
    }
    assert_eq!(rig.reconciled(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_awaits_keys_in_flight_except_those_without_a_permit() {
    let rig = Rig::new().await;
    let stop = CancellationToken::new();
    let mut running = rig.spawn(&stop);
    rig.observations.is_ready.notify_one();
    rig.inputs.queue.add("slow", Priority::Fresh);
    rig.inputs.queue.add("waits", Priority::Fresh);
    sleep(A_WHILE).await;
    stop.cancel();
    rig.inputs.queue.add("late", Priority::Fresh);
    sleep(A_WHILE).await;
    assert!(rig.observations.gave_up.load(Ordering::Relaxed));
    assert!(running.try_join_next().is_none(), "a key is in flight");
    assert_eq!(rig.taken(), Some(3), "its state is still there");
    rig.observations.may_end.notify_one();
    timeout(A_WHILE, running.join_next()).await.unwrap();
    assert_eq!(rig.reconciled(), 2, "first and slow, not late");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_returns_ends_the_loop() {
    let rig = Rig::new().await;
    let mut running = rig.spawn(&CancellationToken::new());
    rig.observations.is_ready.notify_one();
    sleep(A_WHILE).await;
    assert!(running.try_join_next().is_none());
    rig.observations.task_ends.notify_one();
    timeout(A_WHILE, running.join_next()).await.unwrap();
    assert_eq!(rig.taken(), None);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_loop_withdraws_its_state() {
    let rig = Rig::new().await;
    let mut running = rig.spawn(&CancellationToken::new());
    rig.observations.is_ready.notify_one();
    sleep(A_WHILE).await;
    assert!(rig.taken().is_some());
    running.shutdown().await;
    assert_eq!(rig.taken(), None);
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_it_is_ready_ends_it() {
    let rig = Rig::new().await;
    let stop = CancellationToken::new();
    let mut running = rig.spawn(&stop);
    stop.cancel();
    timeout(A_WHILE, running.join_next()).await.unwrap();
    assert_eq!(rig.reconciled(), 0);
}
