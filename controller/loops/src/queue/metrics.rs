//! client-go's metrics under client-go's names (M-61), and two of our own.
//!
//! Counters and histograms are written by the state of each queue; the gauges are read from the queues with each scrape.

use std::{
    collections::BTreeMap,
    fmt,
    iter::successors,
    sync::{Arc, Weak},
    time::Duration,
};

use outrigger_runtime::{metric_families, telemetry::Labelled};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{TypedMetric, counter::Counter, gauge::ConstGauge, histogram::Histogram},
    registry::Registry,
};

// Multiplied one by one as Go does: powers would give bounds that differ in the last digit.
fn histogram() -> Histogram {
    Histogram::new(successors(Some(1e-8), |bound| Some(bound * 10.0)).take(10))
}

/// The label of each.
const QUEUE: [&str; 1] = ["name"];

metric_families! {
    /// The metrics of all queues; registered once, handed to each queue. Series appear with the first queue of a name.
    pub struct QueueMetrics {
        adds: Labelled<1, Counter> = Labelled::by(QUEUE),
            "workqueue_adds", "Total number of adds handled by workqueue";
        retries: Labelled<1, Counter> = Labelled::by(QUEUE),
            "workqueue_retries", "Total number of retries handled by workqueue";
        waited: Labelled<1, Histogram> = Labelled::made_by(QUEUE, histogram),
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested";
        worked: Labelled<1, Histogram> = Labelled::made_by(QUEUE, histogram),
            "workqueue_work_duration_seconds", "How long in seconds processing an item from workqueue takes";
        panics: Labelled<1, Counter> = Labelled::by(QUEUE),
            "outrigger_workqueue_panics", "Handlers that panicked; their keys were retried";
        + queues: Queues;
    }
}

impl QueueMetrics {
    /// The keys of all queues with their ages, delays and failures, for people.
    pub fn dump(&self) -> String {
        let queues = self.queues.alive();
        queues.iter().map(|(_, queue)| queue.dump()).collect()
    }

    pub(super) fn counters(&self, name: &'static str) -> Counters {
        Counters {
            adds: self.adds.of([name]),
            retries: self.retries.of([name]),
            panics: self.panics.of([name]),
            waited: self.waited.of([name]),
            worked: self.worked.of([name]),
        }
    }

    /// Reads the gauges of a queue from now on, for as long as it exists.
    pub(super) fn observe(&self, name: &'static str, queue: &Arc<dyn Observed>) {
        self.queues.0.lock().insert(name, Arc::downgrade(queue));
    }
}

/// The series of one queue.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    pub(super) adds: Counter,
    pub(super) retries: Counter,
    pub(super) panics: Counter,
    pub(super) waited: Histogram,
    pub(super) worked: Histogram,
}

/// A queue that can be asked how it is.
pub(super) trait Observed: fmt::Debug + Send + Sync {
    fn snapshot(&self) -> Snapshot;

    /// Its keys, for people.
    fn dump(&self) -> String;
}

/// Values of the gauges.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    pub(super) depth: usize,
    /// Sum over the running handlers.
    pub(super) unfinished: Duration,
    pub(super) longest_running: Duration,
    /// How long the first of the waiting keys has waited, without those of bulk work.
    pub(super) oldest: Duration,
}

/// Computes the gauges when they are asked for, instead of every 500 ms as client-go does.
#[derive(Clone, Debug, Default)]
struct Queues(Arc<Mutex<BTreeMap<&'static str, Weak<dyn Observed>>>>);

impl Queues {
    fn register_in(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    fn alive(&self) -> Vec<(&'static str, Arc<dyn Observed>)> {
        let mut queues = self.0.lock();
        queues.retain(|_, queue| queue.strong_count() > 0);
        let alive = queues
            .iter()
            .filter_map(|(name, queue)| Some((*name, queue.upgrade()?)));
        alive.collect()
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let queues: Vec<_> = self
            .alive()
            .into_iter()
            .map(|(name, queue)| (name, queue.snapshot()))
            .collect();
        if queues.is_empty() {
            return Ok(());
        }
        for (family, help, value) in GAUGES {
            let kind = ConstGauge::<f64>::TYPE;
            let mut family = encoder.encode_descriptor(family, help, None, kind)?;
            for (name, snapshot) in &queues {
                let labels = [("name", *name)];
                let metric = family.encode_family(&labels)?;
                ConstGauge::new(value(snapshot)).encode(metric)?;
            }
        }
        Ok(())
    }
}

type Gauge = (&'static str, &'static str, fn(&Snapshot) -> f64);

const GAUGES: [Gauge; 4] = [
    ("workqueue_depth", "Current depth of workqueue", |s| {
        s.depth as f64
    }),
    (
        "workqueue_unfinished_work_seconds",
        "How many seconds of work has been done that is in progress and hasn't been observed by work_duration",
        |s| s.unfinished.as_secs_f64(),
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "How many seconds has the longest running processor for workqueue been running",
        |s| s.longest_running.as_secs_f64(),
    ),
    (
        "outrigger_workqueue_oldest_seconds",
        "How long the oldest of the waiting keys has waited for a worker, without those of bulk work",
        |s| s.oldest.as_secs_f64(),
    ),
];
