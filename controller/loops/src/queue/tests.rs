//! The queue from outside, on a paused clock.

mod metrics;
mod model;
mod run;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{Backoff, Concurrency, Gate, Key, Outcome, Priority, Queue, QueueMetrics};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn queue() -> Queue<&'static str> {
    Queue::new("test", Backoff::default(), &QueueMetrics::default())
}

/// For a loop without a provider.
fn always_open() -> Gate<bool> {
    Gate::new(watch::channel(true).1, |open| *open)
}

fn no_slot() -> BoxFuture<'static, ()> {
    Box::pin(ready(()))
}

/// A handler of keys that are taken with nothing.
fn each<K: Key, Fut: Future<Output = Outcome> + Send + 'static>(
    handler: impl Fn(K, Priority) -> Fut,
) -> impl Fn(K, Priority, ()) -> Fut {
    move |key, priority, ()| handler(key, priority)
}

/// A queue at work, with a record of every run.
struct Rig {
    queue: Queue<&'static str>,
    start: Instant,
    runs: Arc<Mutex<Vec<(&'static str, Duration)>>>,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
}

/// The handler's script for the n-th run of a key: its duration and its outcome.
type Script = fn(&'static str, usize) -> (Duration, Outcome);

impl Rig {
    fn start(
        queue: Queue<&'static str>,
        concurrency: usize,
        gate: Gate<bool>,
        script: Script,
    ) -> Self {
        let start = Instant::now();
        let runs = Arc::<Mutex<Vec<_>>>::default();
        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let counts = Arc::<Mutex<HashMap<_, usize>>>::default();
        let handler = {
            let runs = Arc::clone(&runs);
            move |key, _| {
                let nth = {
                    let mut counts = counts.lock();
                    let nth = counts.entry(key).or_default();
                    *nth += 1;
                    *nth - 1
                };
                runs.lock().push((key, start.elapsed()));
                let (length, outcome) = script(key, nth);
                async move {
                    sleep(length).await;
                    outcome
                }
            }
        };
        let stop = shutdown.clone();
        let at_work = queue.clone();
        tasks.spawn(async move {
            let concurrency = || Concurrency::of(concurrency);
            at_work
                .run(concurrency, no_slot, gate, stop, each(handler))
                .await;
        });
        Self {
            queue,
            start,
            runs,
            shutdown,
            tasks,
        }
    }

    fn one_worker(script: Script) -> Self {
        Self::start(queue(), 1, always_open(), script)
    }

    /// Sleeps until this long after the start.
    async fn at(&self, offset: Duration) {
        tokio::time::sleep_until(self.start + offset).await;
    }

    fn add(&self, key: &'static str) {
        self.queue.add(key, Priority::Fresh);
    }

    /// All runs so far: key and milliseconds since the start.
    fn runs(&self) -> Vec<(&'static str, u128)> {
        let runs = self.runs.lock();
        runs.iter()
            .map(|(key, at)| (*key, at.as_millis()))
            .collect()
    }

    fn keys(&self) -> Vec<&'static str> {
        self.runs.lock().iter().map(|(key, _)| *key).collect()
    }

    fn times(&self) -> Vec<u128> {
        self.runs().into_iter().map(|(_, at)| at).collect()
    }

    async fn stop(&mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

fn done(_: &'static str, _: usize) -> (Duration, Outcome) {
    (Duration::ZERO, Outcome::Done)
}
