//! Why a request is left alone.

use std::sync::Arc;

use crate::fault::Excerpt;

/// The check that a request does not pass, in a sentence for its event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsrProblem {
    /// Not a kubelet.
    #[error(
        "its requester {0} is not system:node:<name> in the groups system:nodes and system:authenticated"
    )]
    Requester(Excerpt),
    /// Usages of another certificate.
    #[error(
        "its usages are not exactly \"digital signature\" and \"server auth\", with or without \"key encipherment\""
    )]
    Usages,
    /// `spec.expirationSeconds`.
    #[error("its expirationSeconds are not between 600 and those of a year")]
    Lifetime,
    /// PEM, DER or their size.
    #[error("spec.request is longer than 16 KiB or not the canonical PEM of one PKCS #10 request")]
    Encoding,
    /// More or less than a kubelet has.
    #[error(
        "its subject is not exactly the organisation system:nodes and the requester as common name"
    )]
    Subject,
    /// More than subject alternative names.
    #[error("it asks for other extensions or attributes than subject alternative names")]
    Extensions,
    /// Mail addresses, URIs and others.
    #[error("a subject alternative name is neither a DNS name nor an IP address")]
    OtherNames,
    /// The API server would match none.
    #[error("it has no subject alternative name")]
    NoNames,
    /// More than an instance has addresses.
    #[error("it has more than 64 subject alternative names")]
    TooManyNames,
    /// No such Node, or not any more.
    #[error("there is no Node {0}, or it is being deleted")]
    NoNode(Arc<str>),
    /// Only the cloud-node loop, or an operator, says which machine a Node is.
    #[error("Node {0} has no provider ID yet")]
    NoProviderId(Arc<str>),
    /// One of them is not the machine.
    #[error("Node {other} has the provider ID of Node {node}, too; delete the wrong one")]
    Shared {
        /// The requester's Node.
        node: Arc<str>,
        /// The other one.
        other: Arc<str>,
    },
    /// Once for a mistake, or always.
    #[error("the provider answers that it does not manage Node {0}")]
    NotManaged(Arc<str>),
    /// Confirmed or not.
    #[error("the cloud has no instance for Node {0}")]
    Absent(Arc<str>),
    /// Its provider ID names another one.
    #[error("the provider finds another instance for Node {0} than its provider ID names")]
    OtherInstance(Arc<str>),
    /// It cannot have asked just now.
    #[error("the instance of Node {0} is stopped or being deleted")]
    Stopped(Arc<str>),
    /// Another Node's kubelet could name the machine in its provider ID.
    #[error(
        "the cloud does not report {0} as a name of the Node's instance, neither as its node name nor as an address of \
         the type Hostname, InternalDNS or ExternalDNS"
    )]
    NodeName(Arc<str>),
    /// Names that are not the machine's.
    #[error("the cloud does not report {names} for the instance of Node {node}")]
    NotReported {
        /// The Node.
        node: Arc<str>,
        /// The names.
        names: Excerpt,
    },
}

impl CsrProblem {
    /// The value of the metric's label `reason`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Requester(_) => "requester",
            Self::Usages => "usages",
            Self::Lifetime => "lifetime",
            Self::Encoding => "encoding",
            Self::Subject => "subject",
            Self::Extensions => "extensions",
            Self::OtherNames => "other_names",
            Self::NoNames => "no_names",
            Self::TooManyNames => "too_many_names",
            Self::NoNode(_) => "no_node",
            Self::NoProviderId(_) => "no_provider_id",
            Self::Shared { .. } => "shared_provider_id",
            Self::NotManaged(_) => "not_managed",
            Self::Absent(_) => "absent",
            Self::OtherInstance(_) => "other_instance",
            Self::Stopped(_) => "stopped",
            Self::NodeName(_) => "node_name",
            Self::NotReported { .. } => "not_reported",
        }
    }
}
