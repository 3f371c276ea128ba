//! The objects that a store can hold.
//!
//! A [`View`] names its resource and its key; the watch, the store and the writer are the same for all of them. The views
//! themselves are `outrigger-core`'s.

use std::sync::Arc;

use outrigger_core::{
    annotations::ReadAnnotations,
    csr::{CsrView, SIGNER},
    node::NodeView,
    service::ServiceView,
    volume::VolumeView,
};
use serde::de::DeserializeOwned;

/// The resource that is watched.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// Plural name, for logs and metrics: `nodes`.
    pub name: &'static str,
    /// Path of the collection: `/api/v1/nodes`.
    pub path: &'static str,
    /// Field and value of the objects that are watched; none: all.
    pub selector: Option<(&'static str, &'static str)>,
}

/// The content of a store: a small immutable view of one object.
pub trait View: DeserializeOwned + Clone + PartialEq + Send + Sync + 'static {
    /// All such objects of the cluster.
    const RESOURCE: Resource;

    /// Name, or namespace/name: unique in the store.
    fn key(&self) -> &Arc<str>;
    /// Path of the object.
    fn path(&self) -> String {
        format!("{}/{}", Self::RESOURCE.path, self.key())
    }
    /// `metadata.uid`.
    fn uid(&self) -> &str;
    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str;

    /// This view, just read, where [`super::Store::protect`] is on: with the fields of `held`, the view before, that another
    /// client may not change.
    #[must_use]
    fn protected(self, held: Option<&Self>) -> Self {
        let _ = held;
        self
    }

    /// Forgets the annotations that are not read, and most of a view that is too large.
    fn keep(&mut self, _read: &ReadAnnotations) {}

    /// Returns true if it may concern a loop; the store keeps no other.
    fn is_needed(&self) -> bool {
        true
    }

    /// Returns true if most of it is forgotten, since it is too large.
    fn is_too_large(&self) -> bool {
        false
    }

    /// The client that made the object, where the store keeps few of one; none: it is kept.
    fn requester(&self) -> Option<&str> {
        None
    }
}

/// Identity and version of a view that has them in fields, with its key in this one.
macro_rules! identified_by {
    ($key:ident) => {
        fn key(&self) -> &Arc<str> {
            &self.$key
        }

        fn uid(&self) -> &str {
            &self.uid
        }

        fn resource_version(&self) -> &str {
            &self.resource_version
        }
    };
}

impl View for NodeView {
    const RESOURCE: Resource = Resource {
        name: "nodes",
        path: crate::nodes::COLLECTION,
        selector: None,
    };

    identified_by!(name);

    fn protected(self, held: Option<&Self>) -> Self {
        self.protecting_addresses(held)
    }

    fn keep(&mut self, read: &ReadAnnotations) {
        read.keep(&mut self.annotations);
    }
}

impl View for ServiceView {
    const RESOURCE: Resource = Resource {
        name: "services",
        path: "/api/v1/services",
        selector: None,
    };

    identified_by!(key);

    fn path(&self) -> String {
        let (namespace, name) = (self.namespace(), self.name());
        format!("/api/v1/namespaces/{namespace}/services/{name}")
    }

    fn keep(&mut self, read: &ReadAnnotations) {
        read.keep(&mut self.annotations);
        self.forget_if_too_large();
    }

    fn is_too_large(&self) -> bool {
        self.is_too_large
    }
}

impl View for VolumeView {
    const RESOURCE: Resource = Resource {
        name: "persistentvolumes",
        path: "/api/v1/persistentvolumes",
        selector: None,
    };

    identified_by!(name);
}

impl View for CsrView {
    const RESOURCE: Resource = Resource {
        name: "certificatesigningrequests",
        path: "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        selector: Some(("spec.signerName", SIGNER)),
    };

    identified_by!(name);

    fn is_needed(&self) -> bool {
        self.pending.is_some()
    }

    fn requester(&self) -> Option<&str> {
        Some(&self.requester)
    }
}
