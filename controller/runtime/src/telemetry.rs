//! Log lines, and the metrics that every component of Kubernetes has.
//!
//! The binary installs [`Telemetry`] once and registers its metrics; each crate declares a group of its own with
//! [`metric_families!`](crate::metric_families).

mod labelled;
mod logs;
mod process;
mod repeats;

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::VERSION;

pub use self::{
    labelled::Labelled,
    logs::{Format, Logging, Telemetry},
    repeats::Repeats,
};

/// Declares a struct of metrics with a `register` for all of them; its default is not registered.
///
/// An entry is a field with its type, what it begins as unless that is the default, its name at `/metrics` (that of a
/// counter without `_total`) and its help. At the end stand groups that register metrics of their own.
///
/// ```
/// use outrigger_runtime::{metric_families, telemetry::Labelled};
/// use prometheus_client::{
///     metrics::{counter::Counter, histogram::Histogram},
///     registry::Registry,
/// };
///
/// metric_families! {
///     /// `outrigger_example_cache_*`.
///     pub struct CacheMetrics {
///         hits: Counter,
///             "outrigger_example_cache_hits", "Answers out of the cache";
///     }
/// }
/// metric_families! {
///     /// `outrigger_example_*`.
///     pub struct ExampleMetrics {
///         calls: Labelled<1, Counter> = Labelled::by(["result"]),
///             "outrigger_example_calls", "Calls, by result";
///         durations: Histogram = Histogram::new([0.1, 1.0, 10.0]),
///             "outrigger_example_duration_seconds", "How long calls took";
///         + cache: CacheMetrics;
///     }
/// }
///
/// let metrics = ExampleMetrics::register(&mut Registry::default());
/// metrics.calls.of(["success"]).inc();
/// metrics.durations.observe(0.2);
/// metrics.cache.hits.inc();
/// ```
#[macro_export]
macro_rules! metric_families {
    ($(#[$meta:meta])* $vis:vis struct $group:ident {
        $($field_vis:vis $field:ident: $metric:ty $(= $first:expr)?, $name:literal, $help:literal;)*
        $(+ $inner_vis:vis $inner:ident: $inner_group:ty;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $group {
            $($field_vis $field: $metric,)*
            $($inner_vis $inner: $inner_group,)*
        }

        impl Default for $group {
            fn default() -> Self {
                Self {
                    $($field: $crate::metric_families!(@first $metric $(, $first)?),)*
                    $($inner: <$inner_group>::default(),)*
                }
            }
        }

        impl $group {
            /// Registers the families.
            $vis fn register(registry: &mut ::prometheus_client::registry::Registry) -> Self {
                let group = Self::default();
                group.register_in(registry);
                group
            }

            /// Registers these.
            $vis fn register_in(&self, registry: &mut ::prometheus_client::registry::Registry) {
                $(registry.register($name, $help, self.$field.clone());)*
                $(self.$inner.register_in(registry);)*
            }
        }
    };
    (@first $metric:ty) => { <$metric>::default() };
    (@first $metric:ty, $first:expr) => { $first };
}

/// Registers `process_*` and `kubernetes_build_info` (M-62), which are read at each scrape.
pub fn register(registry: &mut Registry) {
    process::register(registry);
    register_build(registry);
}

/// The build that runs. `go_version` is left out. In a build that does not know its origin the three labels about it are
/// empty, which to Prometheus is the same as no labels.
fn register_build(registry: &mut Registry) {
    let info = Family::<[(&str, &str); 8], Gauge>::default();
    // Release builds set these.
    let of_build = Option::<&'static str>::unwrap_or_default;
    let labels = [
        ("major", env!("CARGO_PKG_VERSION_MAJOR")),
        ("minor", env!("CARGO_PKG_VERSION_MINOR")),
        ("git_version", VERSION),
        ("git_commit", of_build(option_env!("OUTRIGGER_GIT_COMMIT"))),
        (
            "git_tree_state",
            of_build(option_env!("OUTRIGGER_GIT_TREE_STATE")),
        ),
        ("build_date", of_build(option_env!("OUTRIGGER_BUILD_DATE"))),
        ("compiler", "rustc"),
        ("platform", PLATFORM),
    ];
    info.get_or_create(&labels).set(1);
    registry.register(
        "kubernetes_build_info",
        "A metric with a constant '1' value labeled by the version, compiler and platform of this program",
        info,
    );
}

/// The platform as Go names it.
pub const PLATFORM: &str = if cfg!(target_arch = "aarch64") {
    "linux/arm64"
} else if cfg!(target_arch = "x86_64") {
    "linux/amd64"
} else {
    std::env::consts::ARCH
};

metric_families! {
    /// The loops that run in this process (M-50). A loop that was never started has no series.
    pub struct RunningControllers {
        running: Labelled<2, Gauge> = Labelled::by(["name", "manager"]),
            "running_managed_controllers", "Indicates where instances of a controller are currently running";
    }
}

/// A loop that runs. Dropped, it runs no more.
#[derive(Debug)]
#[must_use]
pub struct Running(Gauge);

impl RunningControllers {
    /// Shows that `name` runs for as long as the answer lives. Names are the short ones of before
    /// the canonical ones, as upstream's.
    pub fn started(&self, name: &'static str) -> Running {
        let gauge = self.running.of([name, "cloud-controller-manager"]);
        gauge.set(1);
        Running(gauge)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn a_loop_is_absent_then_runs_then_is_stopped() {
        let mut registry = Registry::default();
        let controllers = RunningControllers::register(&mut registry);
        let series = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            let mut lines = text.lines().map(ToOwned::to_owned);
            lines.find(|line| line.starts_with("running"))
        };
        let value = |value| {
            let labels = r#"{name="cloud-node",manager="cloud-controller-manager"}"#;
            Some(format!("running_managed_controllers{labels} {value}"))
        };
        assert_eq!(series(), None);
        let running = controllers.started("cloud-node");
        assert_eq!(series(), value(1));
        drop(running);
        assert_eq!(series(), value(0));
        let _again = controllers.started("cloud-node");
        assert_eq!(series(), value(1));
    }
}
