//! The admission webhook `persistentvolume-labels`: requests of the API server about volumes that are being created
//! (W-1 to W-9).
//!
//! ```text
//!  API server ─► crate::server::Server ─► WebhookServer ─► review ─► Reviewer ─► AdmissionVerdict ─► answer
//!                                                                └─ VolumeReviewer ─► the provider
//! ```
//!
//! A standby serves too, and calls its own provider. Every error is HTTP 500, so that `failurePolicy` decides.
//! The error is sent before the API server stops waiting.

mod handler;
mod metrics;
mod review;
mod volumes;

use futures::future::BoxFuture;
use serde_json::value::RawValue;

pub use self::{handler::WebhookServer, metrics::WebhookMetrics, volumes::VolumeReviewer};
use outrigger_kube::patch::Operation;

/// The name in `--webhooks`, in metrics, and behind a slash in the path.
pub const WEBHOOK: &str = "persistentvolume-labels";

/// The decision about one object.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionVerdict {
    /// The object is admitted with these changes, or unchanged if there are none.
    Admit(Vec<Operation>),
    /// The object is refused, with a sentence for the user.
    Refuse(String),
}

/// Decides about volumes that are being created.
pub trait Reviewer: Send + Sync + 'static {
    /// `object` is the whole object as JSON. The future is dropped when the API server stops waiting.
    ///
    /// # Errors
    /// A sentence for the API server's log, if nothing can be decided now.
    fn review(&self, object: Box<RawValue>) -> BoxFuture<'_, Result<AdmissionVerdict, String>>;
}

#[cfg(test)]
mod tests;
