//! [`Provider`]: the identity and health that every provider declares, whatever its cloud has.
//!
//! The server asks [`Provider::info`] once, when it starts, and answers each `Handshake` from it; it asks
//! [`Provider::status`] for each `GetStatus`, each health check and each probe. Neither may call the cloud: a provider
//! whose cloud hangs must still say so.

use outrigger_api::v1;

/// The part that every provider has. Both methods are called often, from any thread, and must not
/// block or call the cloud: a provider whose cloud is away answers all the same.
///
/// # Example
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use outrigger_provider_sdk::{Provider, ProviderInfo, v1};
///
/// struct Cloud {
///     /// Set by the calls of the cloud: the last one was answered.
///     is_reached: AtomicBool,
/// }
///
/// impl Provider for Cloud {
///     fn info(&self) -> ProviderInfo {
///         ProviderInfo::new("example", "1.0.0")
///     }
///
///     fn status(&self) -> v1::GetStatusResponse {
///         let is_reached = self.is_reached.load(Ordering::Relaxed);
///         let readiness = if is_reached { v1::Readiness::Ready } else { v1::Readiness::Degraded };
///         v1::GetStatusResponse { readiness: readiness.into(), ..Default::default() }
///     }
/// }
///
/// let cloud = Cloud { is_reached: AtomicBool::new(false) };
/// assert_eq!(cloud.status().readiness(), v1::Readiness::Degraded);
/// ```
pub trait Provider: Send + Sync + 'static {
    /// The provider's identity. Asked once, when the server starts.
    fn info(&self) -> ProviderInfo;

    /// How the provider and its cloud are, from what it already knows. Asked every 10 s and by each
    /// probe; answered within 100 ms even while the cloud hangs. The server fills in the boot ID.
    ///
    /// Everything that a restart cannot fix is degraded, bad credentials and an unreachable cloud included; broken has
    /// the kubelet restart the container.
    fn status(&self) -> v1::GetStatusResponse {
        v1::GetStatusResponse {
            readiness: v1::Readiness::Ready.into(),
            ..v1::GetStatusResponse::default()
        }
    }
}

/// Facts of a provider that do not change as long as its process runs. The controller refuses a declaration that is
/// not legal, and says why.
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub rate_limits: Vec<v1::RateLimit>,
    /// The effects that answers may have in Kubernetes; `None` has them ignored.
    pub effects: Option<v1::EffectsCapability>,
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
