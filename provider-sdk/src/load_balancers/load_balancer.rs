use outrigger_api::v1;

use crate::Ingress;
use crate::setters::setters;

/// A load balancer as its cloud and its users see it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LoadBalancer {
    /// Id in the cloud, for logs and reports.
    pub id: String,
    /// Name in the cloud, likewise.
    pub name: String,
    /// Where it is reached, in a stable order, at most 64.
    pub ingress: Vec<Ingress>,
}

/// Something in the cloud that carries this cluster's tag.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OwnedLoadBalancer {
    /// The load balancer.
    pub load_balancer: LoadBalancer,
    /// Its Service, by its tag; `None` where that is missing.
    pub service: Option<ServiceName>,
}

/// Name and key of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceName {
    /// Its namespace, for people.
    pub namespace: String,
    /// Its name, for people.
    pub name: String,
    /// Its UID: the key.
    pub uid: String,
}

setters! { LoadBalancer {
    with_name => name: String,
    with_ingress => ingress: Vec<Ingress>,
} }

impl LoadBalancer {
    /// A load balancer with this id and nothing else.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            ..Self::default()
        }
    }

    pub(super) fn into_wire(self) -> (v1::LoadBalancerIdentity, v1::LoadBalancerStatus) {
        let Self { id, name, ingress } = self;
        (v1::LoadBalancerIdentity { id, name }, status(ingress))
    }
}

pub(super) fn status(ingress: Vec<Ingress>) -> v1::LoadBalancerStatus {
    let ingress = ingress.into_iter().map(Ingress::into_wire).collect();
    v1::LoadBalancerStatus { ingress }
}

setters! { OwnedLoadBalancer {
    with_service => service: Option<ServiceName>,
} }

impl OwnedLoadBalancer {
    /// A load balancer without the tag of a Service.
    pub fn new(load_balancer: LoadBalancer) -> Self {
        Self {
            load_balancer,
            service: None,
        }
    }

    pub(super) fn into_wire(self) -> v1::OwnedLoadBalancer {
        let (identity, status) = self.load_balancer.into_wire();
        v1::OwnedLoadBalancer {
            identity: Some(identity),
            service: self.service.map(ServiceName::into_wire),
            status: Some(status),
        }
    }
}

impl ServiceName {
    /// The name of a Service, and its key.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        uid: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
        }
    }

    fn into_wire(self) -> v1::ServiceRef {
        v1::ServiceRef {
            namespace: self.namespace,
            name: self.name,
            uid: self.uid,
        }
    }
}
