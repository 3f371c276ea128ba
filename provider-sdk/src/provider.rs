//! The provider's identity and health.

use std::time::SystemTime;

use crate::EffectsCapability;
use crate::setters::setters;

/// The part that every provider has. Both methods are called often, from any thread, and must not
/// block or call the cloud: a provider whose cloud is away answers all the same.
pub trait Provider: Send + Sync + 'static {
    /// The provider's identity. Asked once, when the server starts.
    fn info(&self) -> ProviderInfo;

    /// How the provider and its cloud are, from what it already knows. Asked every 10 s and by each
    /// probe; answered within 100 ms even while the cloud hangs.
    fn status(&self) -> ProviderStatus {
        ProviderStatus::ready()
    }
}

/// Facts of a provider that do not change as long as its process runs.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ProviderInfo {
    /// `[a-z0-9-]{1,63}`, the same for ever: the controller refuses another one.
    pub name: String,
    /// For logs and metrics.
    pub version: String,
    /// The cloud has no cluster id that separates the resources of two clusters. The controller
    /// then refuses to run unless `--allow-untagged-cloud` is set.
    pub without_cluster_id: bool,
    /// Prefixes of the Service annotations that the provider reads; they alone are sent, and they
    /// alone cause a call by changing. Empty: all.
    pub service_annotation_prefixes: Vec<String>,
    /// Prefixes of the Node annotations that the provider reads. Empty: none.
    pub node_annotation_prefixes: Vec<String>,
    /// Rate limits of the cloud; the controller stays below. At most one for each class.
    pub rate_limits: Vec<RateLimit>,
    /// The effects that [`Effects`](crate::Effects) may have in Kubernetes; `None` has them
    /// ignored.
    pub effects: Option<EffectsCapability>,
}

impl ProviderInfo {
    /// A provider that needs nothing special.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            ..Self::default()
        }
    }
}

/// A token bucket over calls to the provider; a batch is one call.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateLimit {
    /// The limited class.
    pub class: CallClass,
    /// Calls per second, above 0.
    pub qps: f64,
    /// Calls at once, at least 1.
    pub burst: u32,
}

impl RateLimit {
    /// `qps` calls per second, and `burst` at once.
    pub fn new(class: CallClass, qps: f64, burst: u32) -> Self {
        Self { class, qps, burst }
    }
}

/// Calls that are limited and paused together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallClass {
    /// All calls that reach the cloud.
    All,
    /// Lookups and lists of instances.
    Instances,
    /// Everything about load balancers.
    LoadBalancers,
    /// Everything about routes.
    Routes,
    /// Lookups of volumes.
    Volumes,
}

/// How the provider and its cloud are.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProviderStatus {
    /// The whole.
    pub readiness: Readiness,
    /// The parts that it is made of; the first 32 are sent.
    pub dependencies: Vec<Dependency>,
    /// Quotas of the cloud; the first 32 are sent.
    pub quotas: Vec<Quota>,
}

impl ProviderStatus {
    /// Serving, without a message.
    pub fn ready() -> Self {
        Self::new(Readiness::Ready)
    }

    /// `readiness`, without a message.
    pub fn new(readiness: Readiness) -> Self {
        Self {
            readiness,
            dependencies: Vec::new(),
            quotas: Vec::new(),
        }
    }
}

impl Default for ProviderStatus {
    fn default() -> Self {
        Self::ready()
    }
}

/// How ready something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readiness {
    /// Serves soon; the controller waits.
    Starting,
    /// Serves.
    Ready,
    /// Serves, but expect errors. Everything that a restart cannot fix is this, bad credentials and
    /// an unreachable cloud included.
    Degraded,
    /// A restart would help: the probe fails, so that the kubelet restarts the container.
    Broken,
}

impl Readiness {
    /// The states that `grpc.health.v1` calls `SERVING`.
    pub fn is_serving(self) -> bool {
        matches!(self, Self::Ready | Self::Degraded)
    }
}

/// One thing the provider depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dependency {
    /// Short and stable, for example `compute-api`; cut to 63 bytes.
    pub name: String,
    /// How it is.
    pub readiness: Readiness,
    /// Why, for people. No secrets. Cut to 1,024 bytes.
    pub message: String,
    /// When it last worked; `None`: never since the start.
    pub last_success: Option<SystemTime>,
}

impl Dependency {
    /// A dependency, without a message.
    pub fn new(name: impl Into<String>, readiness: Readiness) -> Self {
        Self {
            name: name.into(),
            readiness,
            message: String::new(),
            last_success: None,
        }
    }
}

/// One budget that the cloud grants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quota {
    /// Short and stable: it becomes a metric label. Cut to 63 bytes.
    pub name: String,
    /// Calls or objects granted.
    pub limit: u64,
    /// The remaining part of it.
    pub remaining: u64,
    /// When it is full again; `None` for a budget that does not refill.
    pub resets_at: Option<SystemTime>,
}

impl Quota {
    /// `remaining` of `limit` calls or objects, without a time at which it is full again.
    pub fn new(name: impl Into<String>, limit: u64, remaining: u64) -> Self {
        Self {
            name: name.into(),
            limit,
            remaining,
            resets_at: None,
        }
    }
}

setters! { ProviderInfo {
    with_service_annotation_prefixes => service_annotation_prefixes: Vec<String>,
    with_node_annotation_prefixes => node_annotation_prefixes: Vec<String>,
    with_rate_limits => rate_limits: Vec<RateLimit>,
    with_effects => effects: Option<EffectsCapability>,
} }

setters! { plain ProviderInfo {
    with_no_cluster_id => without_cluster_id: bool,
} }

setters! { ProviderStatus {
    with_dependencies => dependencies: Vec<Dependency>,
    with_quotas => quotas: Vec<Quota>,
} }

setters! { Dependency {
    with_message => message: String,
    with_last_success => last_success: Option<SystemTime>,
} }

setters! { Quota {
    with_resets_at => resets_at: Option<SystemTime>,
} }
