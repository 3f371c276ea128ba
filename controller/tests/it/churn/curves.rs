//! The controller's own figures over the time of a drill, and whether any of them grows.

use std::{
    env,
    fmt::Write as _,
    fs::{self, File},
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::caller::{Caller, Port};

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(5);

/// Fewer samples than these of a quarter of an hour say nothing about growth.
const ENOUGH: usize = 180;

/// How a figure may change from the second third of the samples to the last one. The first third fills caches.
enum Bound {
    /// The median grows by a twentieth at most, and by so much.
    Level(f64),
    /// The sum of what was added grows by a half at most, and by so much.
    Total(f64),
    /// The highest value doubles at most, and grows by so much.
    Peak(f64),
}

/// Each figure: its name, the metric it is the sum or the maximum of, and its bound.
const FIGURES: [(&str, Source, Bound); 9] = [
    (
        "memory_bytes",
        Source::Sum("process_resident_memory_bytes"),
        Bound::Level(1e6),
    ),
    (
        "open_files",
        Source::Sum("process_open_fds"),
        Bound::Level(2.0),
    ),
    (
        "objects_in_memory",
        Source::Sum("outrigger_store_objects"),
        Bound::Level(3.0),
    ),
    (
        "waiting_keys",
        Source::Sum("workqueue_depth"),
        Bound::Peak(20.0),
    ),
    (
        "oldest_waiting_key_seconds",
        Source::Max("outrigger_workqueue_oldest_seconds"),
        Bound::Peak(10.0),
    ),
    (
        "provider_calls",
        Source::Sum("outrigger_provider_rpc_duration_seconds_count"),
        Bound::Total(200.0),
    ),
    (
        "api_requests",
        Source::Sum("rest_client_requests_total"),
        Bound::Total(200.0),
    ),
    (
        "events_written",
        Source::Sum("outrigger_events_written_total"),
        Bound::Total(100.0),
    ),
    ("log_lines", Source::Log, Bound::Total(100.0)),
];

#[derive(Clone, Copy)]
enum Source {
    /// The sum of all series of a metric.
    Sum(&'static str),
    Max(&'static str),
    /// Lines of the log so far.
    Log,
}

struct Sample {
    seconds: f64,
    values: [f64; FIGURES.len()],
}

/// Samples of one controller.
pub(super) struct Curves {
    caller: Caller,
    log: PathBuf,
    /// Bytes and lines of the log that were counted.
    counted: (u64, usize),
    /// When the controller's process started, as it says.
    process: Option<f64>,
    samples: Vec<Sample>,
}

impl Curves {
    pub(super) fn new(port: &Port, log: &Path) -> Self {
        Self {
            caller: port.anonymous(),
            log: log.to_owned(),
            counted: (0, 0),
            process: None,
            samples: Vec::new(),
        }
    }

    /// Takes samples until the churn is over. `OUTRIGGER_TEST_CURVES` names the file that gets them, as CSV.
    pub(super) async fn record(&mut self, over: &CancellationToken) {
        let began = Instant::now();
        let file = env::var_os("OUTRIGGER_TEST_CURVES").filter(|path| !path.is_empty());
        while !over.is_cancelled() {
            let seconds = began.elapsed().as_secs_f64();
            let scrape = self.caller.gets("/metrics", 200).await.body;
            let process = total(&scrape, "process_start_time_seconds").next().unwrap();
            let first = *self.process.get_or_insert(process);
            assert!(
                (first - process).abs() < f64::EPSILON,
                "the controller was started again"
            );
            self.count_lines();
            let values = FIGURES.map(|(_, source, _)| match source {
                Source::Sum(metric) => total(&scrape, metric).fold(0.0, |sum, value| sum + value),
                Source::Max(metric) => total(&scrape, metric).fold(0.0, f64::max),
                Source::Log => self.counted.1 as f64,
            });
            self.samples.push(Sample { seconds, values });
            if let Some(file) = &file {
                fs::write(file, self.csv()).unwrap();
            }
            tokio::select! {
                () = sleep(EVERY) => {}
                () = over.cancelled() => {}
            }
        }
    }

    fn count_lines(&mut self) {
        let mut file = File::open(&self.log).unwrap();
        file.seek(SeekFrom::Start(self.counted.0)).unwrap();
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).unwrap() > 0 && line.ends_with(b"\n") {
            self.counted.0 += line.len() as u64;
            self.counted.1 += 1;
            line.clear();
        }
    }

    fn csv(&self) -> String {
        let names = FIGURES.map(|(name, ..)| name);
        let mut text = format!("seconds,{}\n", names.join(","));
        for Sample { seconds, values } in &self.samples {
            let values: Vec<_> = values.iter().map(|value| format!("{value}")).collect();
            writeln!(text, "{seconds:.1},{}", values.join(",")).unwrap();
        }
        text
    }

    /// Prints each figure's second and last third, and fails the test if one grew.
    pub(super) fn judge(&self) {
        let (mut grown, third) = (Vec::new(), self.samples.len() / 3);
        let [_, second, last] = [0, 1, 2].map(|n| &self.samples[n * third..(n + 1) * third]);
        println!("{} samples in {:?}", self.samples.len(), EVERY);
        for (number, (name, _, bound)) in FIGURES.iter().enumerate() {
            let of = |samples: &[Sample]| {
                let values: Vec<_> = samples.iter().map(|sample| sample.values[number]).collect();
                bound.of(&values)
            };
            let (before, after) = (of(second), of(last));
            println!("{name:28} {before:14.1} {after:14.1}");
            if !bound.allows(before, after) {
                grown.push(*name);
            }
        }
        assert!(
            self.samples.len() < ENOUGH || grown.is_empty(),
            "these grow: {grown:?}"
        );
    }
}

impl Bound {
    /// The number that stands for the values of a third.
    fn of(&self, values: &[f64]) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else {
            return 0.0;
        };
        match self {
            Self::Level(_) => sorted[sorted.len() / 2],
            Self::Total(_) => most - least,
            Self::Peak(_) => *most,
        }
    }

    fn allows(&self, before: f64, after: f64) -> bool {
        let most = match self {
            Self::Level(slack) => before * 1.05 + slack,
            Self::Total(slack) => before * 1.5 + slack,
            Self::Peak(slack) => before * 2.0 + slack,
        };
        after <= most
    }
}

/// The values of all series of a metric.
fn total(scrape: &str, metric: &str) -> impl Iterator<Item = f64> {
    scrape.lines().filter_map(move |line| {
        let rest = line.strip_prefix(metric)?;
        let is_named = rest.starts_with(['{', ' ']);
        let (_, value) = rest.rsplit_once(' ')?;
        is_named.then(|| value.parse().ok()).flatten()
    })
}

#[test]
fn a_level_a_total_and_a_peak_may_grow_so_far() {
    let rising: Vec<_> = (0..=100).map(f64::from).collect();
    for (bound, value, most) in [
        (Bound::Level(3.0), 50.0, 55.5),
        (Bound::Total(3.0), 100.0, 153.0),
        (Bound::Peak(3.0), 100.0, 203.0),
    ] {
        let before = bound.of(&rising);
        assert!((before - value).abs() < 1e-9, "{before}");
        assert!(bound.allows(before, most));
        assert!(!bound.allows(before, most + 0.1));
    }
}

#[test]
fn a_metric_is_the_sum_of_its_series_and_of_no_other_metric() {
    let scrape = "# TYPE a counter\na{x=\"1 2\"} 3\na 4.5\nab 9\n";
    assert!(total(scrape, "a").eq([3.0, 4.5]));
}
