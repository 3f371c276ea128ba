//! Which build runs: `kubernetes_build_info` (M-62).

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::VERSION;

type Labels = [(&'static str, &'static str); 8];

/// `go_version` is left out. In a build that does not know its origin the three labels about it are empty,
/// which to Prometheus is the same as no labels.
pub(super) fn register(registry: &mut Registry) {
    let info = Family::<Labels, Gauge>::default();
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
