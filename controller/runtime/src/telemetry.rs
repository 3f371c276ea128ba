//! Log lines, and the metrics that every component of Kubernetes has.

mod build;
mod controllers;
mod logs;
mod metric_families;
mod process;
mod repeats;

use prometheus_client::registry::Registry;

pub use self::{
    controllers::{Running, RunningControllers},
    logs::{Format, InstallError, Logging, Telemetry},
    metric_families::{Labels, TextLabels},
    repeats::Repeats,
};

/// Registers `process_*` and `kubernetes_build_info` (M-62), which are read at each scrape.
pub fn register(registry: &mut Registry) {
    process::register(registry);
    build::register(registry);
}
