//! Admission webhooks: requests of the API server about objects that are being made (W-1 to W-9).
//!
//! ```text
//!  API server ─► serving::Server ─► WebhookServer ─► review ─► Reviewer ─► AdmissionVerdict ─► answer
//!                     ▲                                 └─ VolumeReviewer ─► the provider
//!                     └── Certificates: of the flags, or kept by SharedCertificate in a Secret
//! ```
//!
//! A standby serves too, and asks its own provider. Every error is HTTP 500, so that `failurePolicy`
//! decides, and comes before the API server stops waiting.

mod address;
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

use std::net::IpAddr;

use futures::future::BoxFuture;
use serde_json::value::RawValue;

pub use self::{
    address::WebhookAddress, handler::WebhookServer, metrics::WebhookMetrics,
    volumes::VolumeReviewer,
};
pub use self::{
    configuration::Registration,
    shared::{SharedCertificate, SharedParts},
};
use outrigger_kubernetes::patch::Operation;

/// A webhook that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhook {
    /// Labels and node affinity of each new `PersistentVolume`.
    PersistentVolumeLabels,
}

impl Webhook {
    /// All that exist.
    pub const ALL: [Self; 1] = [Self::PersistentVolumeLabels];

    /// In `--webhooks`, in metrics, and behind a slash in the path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PersistentVolumeLabels => "persistentvolume-labels",
        }
    }

    fn of_path(path: &str) -> Option<Self> {
        let name = path.strip_prefix('/')?;
        Self::ALL.into_iter().find(|webhook| webhook.name() == name)
    }

    /// Whether requests about objects of this kind are its.
    fn concerns(self, group: &str, resource: &str) -> bool {
        match self {
            Self::PersistentVolumeLabels => (group, resource) == ("", "persistentvolumes"),
        }
    }
}

/// The decision about one object.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionVerdict {
    /// Admitted with these changes; none: as it is.
    Admit(Vec<Operation>),
    /// Refused for good, with a sentence for the user.
    Refuse(String),
}

/// Decides about objects of one kind that are being made.
pub trait Reviewer: Send + Sync + 'static {
    /// `object` is the whole object as JSON, from the client at `peer`. The future is dropped when the API server
    /// would wait no longer.
    ///
    /// # Errors
    /// A sentence for the API server's log, if nothing can be decided now.
    fn review(
        &self,
        object: Box<RawValue>,
        peer: IpAddr,
    ) -> BoxFuture<'_, Result<AdmissionVerdict, String>>;
}

#[cfg(test)]
mod tests;
