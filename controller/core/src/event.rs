//! An event about an object of the API server, before it is written.
//!
//! Decisions return [`EventContent`]; the caller adds the [`ObjectRef`] and hands both to the recorder of `outrigger-kube`,
//! which folds equal events and writes them. An event is for people: it never carries state, and a lost one harms nothing.

use std::sync::Arc;

use crate::service::ServiceView;

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// For example `v1`.
    pub api_version: &'static str,
    /// For example `Node`.
    pub kind: &'static str,
    /// Empty for objects that are in no namespace.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`, by which `kubectl describe` finds the events of an object.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, empty where upstream leaves it out.
    pub resource_version: Arc<str>,
}

impl ObjectRef {
    /// A `v1.Node`.
    pub fn node(name: impl Into<Arc<str>>, uid: impl Into<Arc<str>>) -> Self {
        Self {
            api_version: "v1",
            kind: "Node",
            namespace: Arc::default(),
            name: name.into(),
            uid: uid.into(),
            resource_version: Arc::default(),
        }
    }

    /// A `PersistentVolume`.
    pub fn volume(name: impl Into<Arc<str>>, uid: impl Into<Arc<str>>) -> Self {
        Self {
            kind: "PersistentVolume",
            ..Self::node(name, uid)
        }
    }

    /// A `CertificateSigningRequest`.
    pub fn csr(name: impl Into<Arc<str>>, uid: impl Into<Arc<str>>) -> Self {
        Self {
            api_version: "certificates.k8s.io/v1",
            kind: "CertificateSigningRequest",
            ..Self::node(name, uid)
        }
    }

    /// A `v1.Service`.
    pub fn service(service: &ServiceView) -> Self {
        Self {
            kind: "Service",
            namespace: service.namespace().into(),
            resource_version: (&*service.resource_version).into(),
            ..Self::node(service.name(), &*service.uid)
        }
    }

    /// A `Lease`; its UID is empty if it was never seen.
    pub fn lease(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            api_version: "coordination.k8s.io/v1",
            kind: "Lease",
            namespace: namespace.into(),
            ..Self::node(name, uid)
        }
    }
}

/// The event's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// All is well.
    Normal,
    /// Something may need an operator.
    Warning,
}

impl EventType {
    /// The value of the field `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The content of an event: the object and the component come with its recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventContent {
    /// `type`.
    pub kind: EventType,
    /// CamelCase, of a small set.
    pub reason: Box<str>,
    /// For people.
    pub message: Box<str>,
}

impl EventContent {
    /// A normal event.
    pub fn normal(reason: &str, message: &str) -> Self {
        Self {
            kind: EventType::Normal,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// A warning.
    pub fn warning(reason: &str, message: &str) -> Self {
        Self {
            kind: EventType::Warning,
            ..Self::normal(reason, message)
        }
    }
}
