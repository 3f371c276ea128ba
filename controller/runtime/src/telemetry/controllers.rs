//! Which loops run in this process: `running_managed_controllers` (M-50).

use crate::metric_families;
use prometheus_client::metrics::{family::Family, gauge::Gauge};

type Labels = [(&'static str, &'static str); 2];

metric_families! {
    /// The loops of this process. A loop that was never started has no series.
    pub struct RunningControllers {
        running: Family<Labels, Gauge>,
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
    use prometheus_client::{encoding::text::encode, registry::Registry};

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
