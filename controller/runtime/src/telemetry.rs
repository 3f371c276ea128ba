//! Log lines, and the metrics that every component of Kubernetes has.

mod logs;
mod metric_families;
mod process;
mod repeats;

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::{VERSION, metric_families};

pub use self::{
    logs::{Format, InstallError, Logging, Telemetry},
    metric_families::{Labels, TextLabels},
    repeats::Repeats,
};

/// Registers `process_*` and `kubernetes_build_info` (M-62), which are read at each scrape.
pub fn register(registry: &mut Registry) {
    process::register(registry);
    register_build(registry);
}

/// The build that runs. `go_version` is left out. In a build that does not know its origin the three labels about it are empty,
/// which to Prometheus is the same as no labels.
fn register_build(registry: &mut Registry) {
    let info = Family::<Labels<8>, Gauge>::default();
    let labels = [
        ("major", env!("CARGO_PKG_VERSION_MAJOR")),
        ("minor", env!("CARGO_PKG_VERSION_MINOR")),
        ("git_version", VERSION),
        ("git_commit", GIT_COMMIT),
        ("git_tree_state", GIT_TREE_STATE),
        ("build_date", BUILD_DATE),
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

/// Variables of the build's environment, as release builds set them.
const GIT_COMMIT: &str = or_empty(option_env!("OUTRIGGER_GIT_COMMIT"));
const GIT_TREE_STATE: &str = or_empty(option_env!("OUTRIGGER_GIT_TREE_STATE"));
const BUILD_DATE: &str = or_empty(option_env!("OUTRIGGER_BUILD_DATE"));

const fn or_empty(text: Option<&'static str>) -> &'static str {
    match text {
        Some(text) => text,
        None => "",
    }
}

/// The platform as Go names it.
const PLATFORM: &str = if cfg!(target_arch = "aarch64") {
    "linux/arm64"
} else if cfg!(target_arch = "x86_64") {
    "linux/amd64"
} else {
    std::env::consts::ARCH
};

metric_families! {
    /// The loops that run in this process (M-50). A loop that was never started has no series.
    pub struct RunningControllers {
        running: Family<Labels<2>, Gauge>,
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
        let labels = [("name", name), ("manager", "cloud-controller-manager")];
        let gauge = self.running.get_or_create_owned(&labels);
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
