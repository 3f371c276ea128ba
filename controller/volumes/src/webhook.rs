//! Admission webhooks: requests of the API server about objects that are being created (W-1 to W-9).
//!
//! ```text
//!  API server ─► serving::Server ─► WebhookServer ─► review ─► Reviewer ─► AdmissionVerdict ─► answer
//!                     ▲                                 └─ VolumeReviewer ─► the provider
//!                     └── Certificates: of the flags, or kept by SharedCertificate in a Secret
//! ```
//!
//! A standby serves too, and calls its own provider. Every error is HTTP 500, so that `failurePolicy` decides.
//! The error is sent before the API server stops waiting.

mod body;
mod certificate;
mod configuration;
mod deadline;
mod handler;
mod metrics;
mod review;
mod secret;
mod shared;
mod volumes;

use futures::future::BoxFuture;
use serde_json::value::RawValue;

pub use self::{
    configuration::Registration,
    handler::WebhookServer,
    metrics::WebhookMetrics,
    shared::{SharedCertificate, SharedParts},
    volumes::VolumeReviewer,
};
use outrigger_kubernetes::patch::Operation;

/// A webhook that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhook {
    /// Labels and node affinity of each new `PersistentVolume`.
    PersistentVolumeLabels,
}

impl Webhook {
    /// All webhooks that exist.
    pub const ALL: [Self; 1] = [Self::PersistentVolumeLabels];

    /// The name in `--webhooks`, in metrics, and behind a slash in the path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PersistentVolumeLabels => "persistentvolume-labels",
        }
    }

    fn of_path(path: &str) -> Option<Self> {
        let name = path.strip_prefix('/')?;
        Self::ALL.into_iter().find(|webhook| webhook.name() == name)
    }

    /// True if requests about objects of this kind belong to this webhook.
    fn concerns(self, group: &str, resource: &str) -> bool {
        match self {
            Self::PersistentVolumeLabels => (group, resource) == ("", "persistentvolumes"),
        }
    }
}

/// Where the API server reaches the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookAddress {
    /// Namespace of the Service, and of the Secret.
    pub namespace: String,
    /// Name of the Service, of the Secret and of the `MutatingWebhookConfiguration`.
    pub name: String,
    /// `--webhook-url`, without a path, and its host.
    pub url: Option<(String, String)>,
}

/// The decision about one object.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionVerdict {
    /// The object is admitted with these changes, or unchanged if there are none.
    Admit(Vec<Operation>),
    /// The object is refused, with a sentence for the user.
    Refuse(String),
}

/// Decides about objects of one kind that are being created.
pub trait Reviewer: Send + Sync + 'static {
    /// `object` is the whole object as JSON. The future is dropped when the API server stops waiting.
    ///
    /// # Errors
    /// A sentence for the API server's log, if nothing can be decided now.
    fn review(&self, object: Box<RawValue>) -> BoxFuture<'_, Result<AdmissionVerdict, String>>;
}

#[cfg(test)]
mod tests;
