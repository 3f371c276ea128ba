//! The kernel's counters of this process: `process_*`, as all of Prometheus' clients name it; and the memory that it
//! may use.

use std::{fmt, fs, sync::OnceLock};

use procfs::{
    ProcResult,
    process::{LimitValue, Process},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

pub(super) fn register(registry: &mut Registry) {
    registry.register_collector(Box::new(FromProc::default()));
}

/// Reads `/proc/self` with each scrape.
#[derive(Debug, Default)]
struct FromProc {
    /// The start as of the first scrape: a correction of the clock moves the time of boot from which the kernel counts starts, and
    /// another start would look like another process.
    started: OnceLock<f64>,
}

/// In seconds and bytes.
struct Usage {
    cpu: f64,
    started: f64,
    virtual_memory: f64,
    virtual_memory_max: f64,
    resident_memory: f64,
    open_fds: f64,
    max_fds: f64,
    memory_limit: f64,
}

impl Usage {
    fn read() -> ProcResult<Self> {
        let myself = Process::myself()?;
        let stat = myself.stat()?;
        let limits = myself.limits()?;
        let ticks = procfs::ticks_per_second() as f64;
        Ok(Self {
            cpu: (stat.utime + stat.stime) as f64 / ticks,
            started: procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks,
            virtual_memory: stat.vsize as f64,
            virtual_memory_max: limit(limits.max_address_space.soft_limit),
            resident_memory: (stat.rss * procfs::page_size()) as f64,
            open_fds: myself.fd_count()? as f64,
            max_fds: limit(limits.max_open_files.soft_limit),
            memory_limit: limit(cgroup_limit()),
        })
    }
}

/// No limit is the largest number, as in Go's client.
fn limit(value: LimitValue) -> f64 {
    match value {
        LimitValue::Value(value) => value as f64,
        LimitValue::Unlimited => u64::MAX as f64,
    }
}

/// The files of both kinds of cgroup, as a container sees its own.
const MEMORY_LIMITS: [&str; 2] = [
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
];

/// More than any machine has: how the older kind of cgroup says that there is no limit.
const NO_LIMIT: u64 = 1 << 60;

fn cgroup_limit() -> LimitValue {
    let mut files = MEMORY_LIMITS.iter().map(fs::read_to_string);
    files
        .find_map(|text| memory_limit(&text.ok()?))
        .unwrap_or(LimitValue::Unlimited)
}

/// The limit of memory in a cgroup's file; none for `max`.
fn memory_limit(text: &str) -> Option<LimitValue> {
    let limit = text.trim().parse().ok()?;
    (limit < NO_LIMIT).then_some(LimitValue::Value(limit))
}

type Gauge = (&'static str, &'static str, fn(&Usage) -> f64);

const GAUGES: [Gauge; 7] = [
    (
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds",
        |usage| usage.started,
    ),
    (
        "process_virtual_memory_bytes",
        "Virtual memory size in bytes",
        |usage| usage.virtual_memory,
    ),
    (
        "process_virtual_memory_max_bytes",
        "Maximum amount of virtual memory available in bytes",
        |usage| usage.virtual_memory_max,
    ),
    (
        "process_resident_memory_bytes",
        "Resident memory size in bytes",
        |usage| usage.resident_memory,
    ),
    (
        "process_open_fds",
        "Number of open file descriptors",
        |usage| usage.open_fds,
    ),
    (
        "process_max_fds",
        "Maximum number of open file descriptors",
        |usage| usage.max_fds,
    ),
    (
        "outrigger_memory_limit_bytes",
        "Memory that the cgroup of the process may use in bytes",
        |usage| usage.memory_limit,
    ),
];

impl Collector for FromProc {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        // Without /proc these are missing, and all others are there.
        let Ok(mut usage) = Usage::read() else {
            return Ok(());
        };
        usage.started = *self.started.get_or_init(|| usage.started);
        let cpu = encoder.encode_descriptor(
            "process_cpu_seconds",
            "Total user and system CPU time spent in seconds",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(usage.cpu).encode(cpu)?;
        for (name, help, value) in GAUGES {
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value(&usage)).encode(gauge)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn a_limit_of_memory_is_that_of_either_cgroup() {
        let read = |text: &str| memory_limit(text).map(limit);
        assert_eq!(read("268435456\n"), Some(268_435_456.0));
        assert_eq!(read("max\n"), None);
        assert_eq!(read("9223372036854771712\n"), None);
    }

    #[test]
    fn the_start_stays_as_it_was_first_read() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(FromProc {
            started: OnceLock::from(7.5),
        }));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert!(text.contains("process_start_time_seconds 7.5\n"), "{text}");
    }

    #[test]
    fn the_kernel_counts_this_process() {
        let first = Usage::read().unwrap();
        // The kernel counts starts by ticks from a time of boot that it has in seconds.
        let age = Timestamp::now().as_second() as f64 - first.started;
        assert!((-2.0..86_400.0).contains(&age), "{age}");
        assert!(first.resident_memory > 1e6 && first.virtual_memory > first.resident_memory);
        assert!(first.virtual_memory_max >= first.virtual_memory);
        assert!(first.max_fds > first.open_fds);

        // 40 MB that are used are resident, and take more CPU than a tick.
        let (mut hoard, mut now) = (Vec::new(), Usage::read().unwrap());
        while now.cpu <= first.cpu || now.resident_memory < first.resident_memory + 4e7 {
            hoard.push(vec![1_u8; 1_000_000]);
            now = Usage::read().unwrap();
        }
        drop(hoard);

        let files: Vec<_> = (0..100)
            .map(|_| fs::File::open("/dev/null").unwrap())
            .collect();
        assert!(Usage::read().unwrap().open_fds >= first.open_fds + 50.0);
        drop(files);
        assert!((limit(LimitValue::Unlimited) - 18_446_744_073_709_551_615.0).abs() < 1.0);
    }
}
