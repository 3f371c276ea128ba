//! Which build runs: `kubernetes_build_info` (M-62).

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::options::VERSION;

type Labels = [(&'static str, &'static str); 5];

/// Labels of upstream's that nobody could fill here (`git_commit`, `build_date`, `go_version` …)
/// are left out: to Prometheus an empty label and none are the same.
pub(super) fn register(registry: &mut Registry) {
    let info = Family::<Labels, Gauge>::default();
    let labels = [
        ("major", env!("CARGO_PKG_VERSION_MAJOR")),
        ("minor", env!("CARGO_PKG_VERSION_MINOR")),
        ("git_version", VERSION),
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

/// As Go names it.
const PLATFORM: &str = if cfg!(target_arch = "aarch64") {
    "linux/arm64"
} else if cfg!(target_arch = "x86_64") {
    "linux/amd64"
} else {
    std::env::consts::ARCH
};
