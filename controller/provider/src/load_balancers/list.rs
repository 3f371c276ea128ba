//! The list of load balancers that this cluster owns in the cloud, where a provider serves it.

use outrigger_api::v1;
use outrigger_core::text;

use crate::gather::Collector;

/// Names, ids and keys, in bytes.
const NAME: usize = 253;

/// A load balancer that carries this cluster's tag, in texts fit for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedLoadBalancer {
    /// Id in the cloud.
    pub id: Box<str>,
    /// Name in the cloud.
    pub name: Box<str>,
    /// Its owner; none where the tag is missing.
    pub service: Option<Owner>,
}

/// The Service that a load balancer was made for, by its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `metadata.namespace`, for people.
    pub namespace: Box<str>,
    /// `metadata.name`, for people.
    pub name: Box<str>,
    /// `metadata.uid`: the key. Empty if the provider does not name it, or names what cannot be one.
    pub uid: Box<str>,
}

impl Collector for Vec<OwnedLoadBalancer> {
    type Entry = v1::OwnedLoadBalancer;

    fn take(&mut self, entry: v1::OwnedLoadBalancer) {
        self.push(entry.into());
    }
}

impl From<v1::OwnedLoadBalancer> for OwnedLoadBalancer {
    fn from(owned: v1::OwnedLoadBalancer) -> Self {
        let shown = |raw: &str| text::cut(raw, NAME).into();
        let identity = owned.identity.unwrap_or_default();
        Self {
            id: shown(&identity.id),
            name: shown(&identity.name),
            service: owned.service.map(|service| Owner {
                namespace: shown(&service.namespace),
                name: shown(&service.name),
                uid: if *text::cut(&service.uid, NAME) == *service.uid {
                    service.uid.into()
                } else {
                    Box::default()
                },
            }),
        }
    }
}
