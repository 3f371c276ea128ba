//! The kernel's counters of this process: `process_*`, as all of Prometheus' clients name it; and the memory that it may
//! use. Read with each scrape.

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
    /// The start as of the first scrape: a correction of the clock moves the time of boot from which the kernel counts starts,
    /// and another start would look like another process.
    started: OnceLock<f64>,
}

/// No limit is the largest number, as in Go's client.
fn limit(value: LimitValue) -> f64 {
    match value {
        LimitValue::Value(value) => value as f64,
        LimitValue::Unlimited => u64::MAX as f64,
    }
}

/// The limit of the container's own cgroup.
fn cgroup_limit() -> LimitValue {
    let text = fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    let limit = text.trim().parse();
    limit.map_or(LimitValue::Unlimited, LimitValue::Value)
}

type Gauge = (&'static str, &'static str, f64);

impl FromProc {
    /// The seconds of CPU, and the gauges with their help.
    fn read(&self) -> ProcResult<(f64, [Gauge; 7])> {
        let myself = Process::myself()?;
        let stat = myself.stat()?;
        let limits = myself.limits()?;
        let ticks = procfs::ticks_per_second() as f64;
        let started = procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks;
        let gauges = [
            (
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds",
                *self.started.get_or_init(|| started),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes",
                stat.vsize as f64,
            ),
            (
                "process_virtual_memory_max_bytes",
                "Maximum amount of virtual memory available in bytes",
                limit(limits.max_address_space.soft_limit),
            ),
            (
                "process_resident_memory_bytes",
                "Resident memory size in bytes",
                (stat.rss * procfs::page_size()) as f64,
            ),
            (
                "process_open_fds",
                "Number of open file descriptors",
                myself.fd_count()? as f64,
            ),
            (
                "process_max_fds",
                "Maximum number of open file descriptors",
                limit(limits.max_open_files.soft_limit),
            ),
            (
                "outrigger_memory_limit_bytes",
                "Memory that the cgroup of the process may use in bytes",
                limit(cgroup_limit()),
            ),
        ];
        Ok(((stat.utime + stat.stime) as f64 / ticks, gauges))
    }
}

impl Collector for FromProc {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        // Without /proc these are missing, and all others are there.
        let Ok((seconds, gauges)) = self.read() else {
            return Ok(());
        };
        let cpu = encoder.encode_descriptor(
            "process_cpu_seconds",
            "Total user and system CPU time spent in seconds",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(seconds).encode(cpu)?;
        for (name, help, value) in gauges {
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(gauge)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use prometheus_client::encoding::text::encode;

    use super::*;

    /// The value of a metric as a scrape shows it.
    fn value(name: &str) -> f64 {
        let mut registry = Registry::default();
        register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap().parse().unwrap()
    }

    #[test]
    fn the_start_stays_as_it_was_first_read() {
        let process = FromProc {
            started: OnceLock::from(7.5),
        };
        let (_, [(_, _, started), ..]) = process.read().unwrap();
        assert!((started - 7.5).abs() < 0.1, "{started}");
    }

    #[test]
    fn the_kernel_counts_this_process() {
        let (cpu, resident) = ("process_cpu_seconds_total", "process_resident_memory_bytes");
        let (first_cpu, first_resident) = (value(cpu), value(resident));
        // The kernel counts starts by ticks from a time of boot that it has in seconds.
        let age = Timestamp::now().as_second() as f64 - value("process_start_time_seconds");
        assert!((-2.0..86_400.0).contains(&age), "{age}");
        let memory = value("process_virtual_memory_bytes");
        assert!(first_resident > 1e6 && memory > first_resident);
        assert!(value("process_virtual_memory_max_bytes") >= memory);
        let open = value("process_open_fds");
        assert!(value("process_max_fds") > open);

        // 40 MB that are used are resident, and take more CPU than a tick.
        let mut hoard = Vec::new();
        while value(cpu) <= first_cpu || value(resident) < first_resident + 4e7 {
            hoard.push(vec![1_u8; 1_000_000]);
        }
        drop(hoard);

        let files: Vec<_> = (0..100)
            .map(|_| fs::File::open("/dev/null").unwrap())
            .collect();
        assert!(value("process_open_fds") >= open + 50.0);
        drop(files);
        assert!((limit(LimitValue::Unlimited) - 18_446_744_073_709_551_615.0).abs() < 1.0);
    }
}
