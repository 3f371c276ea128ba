use std::net::IpAddr;

use outrigger_api::v1;

use crate::PortStatus;

/// A load balancer as its cloud and its users see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadBalancer {
    /// Id in the cloud, for logs and reports.
    pub id: String,
    /// Name in the cloud, likewise.
    pub name: String,
    /// Where it is reached, in a stable order, at most 64.
    pub ingress: Vec<Ingress>,
}

/// One address under which a load balancer is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Ingress {
    /// The address.
    pub point: IngressPoint,
    /// State of single ports, where the cloud tells it.
    pub ports: Vec<PortStatus>,
}

/// An IP address or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IngressPoint {
    /// An IP address.
    Ip {
        /// The address.
        ip: IpAddr,
        /// How traffic arrives at a node; `None` leaves it to Kubernetes, which takes
        /// [`IpMode::Vip`].
        mode: Option<IpMode>,
    },
    /// A DNS name, lower case.
    Hostname(String),
}

/// `ipMode` of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpMode {
    /// Traffic arrives with the load balancer's address as its destination: nodes may answer for it
    /// themselves.
    Vip,
    /// Traffic arrives with the node's address as its destination: nodes must send traffic for the
    /// load balancer to it.
    Proxy,
}

impl Ingress {
    /// An IP address, its mode left to Kubernetes.
    pub fn ip(ip: IpAddr) -> Self {
        IngressPoint::Ip { ip, mode: None }.into()
    }

    /// An IP address of a load balancer that works as a proxy.
    pub fn proxy(ip: IpAddr) -> Self {
        let mode = Some(IpMode::Proxy);
        IngressPoint::Ip { ip, mode }.into()
    }

    /// A DNS name.
    pub fn hostname(name: impl Into<String>) -> Self {
        IngressPoint::Hostname(name.into()).into()
    }
}

impl From<IngressPoint> for Ingress {
    fn from(point: IngressPoint) -> Self {
        Self {
            point,
            ports: Vec::new(),
        }
    }
}

/// Something in the cloud that carries this cluster's tag.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedLoadBalancer {
    /// What it is.
    pub load_balancer: LoadBalancer,
    /// Whose it is, by its tag; `None` where that is missing.
    pub service: Option<ServiceName>,
}

/// Name and key of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceName {
    /// Its namespace, for people.
    pub namespace: String,
    /// Its name, for people.
    pub name: String,
    /// Its UID: the key.
    pub uid: String,
}

impl From<ServiceName> for v1::ServiceRef {
    fn from(service: ServiceName) -> Self {
        let ServiceName {
            namespace,
            name,
            uid,
        } = service;
        Self {
            namespace,
            name,
            uid,
        }
    }
}

impl LoadBalancer {
    pub(super) fn into_wire(self) -> (v1::LoadBalancerIdentity, v1::LoadBalancerStatus) {
        let Self { id, name, ingress } = self;
        (v1::LoadBalancerIdentity { id, name }, status(ingress))
    }
}

pub(super) fn status(ingress: Vec<Ingress>) -> v1::LoadBalancerStatus {
    let ingress = ingress.into_iter().map(Into::into).collect();
    v1::LoadBalancerStatus { ingress }
}

impl From<Ingress> for v1::LoadBalancerIngress {
    fn from(ingress: Ingress) -> Self {
        let (ip, hostname, mode) = match ingress.point {
            IngressPoint::Ip { ip, mode } => (ip.to_string(), String::new(), mode),
            IngressPoint::Hostname(name) => (String::new(), name, None),
        };
        let ip_mode = mode.map(|mode| match mode {
            IpMode::Vip => "VIP".to_owned(),
            IpMode::Proxy => "Proxy".to_owned(),
        });
        Self {
            ip,
            hostname,
            ip_mode,
            ports: ingress.ports,
        }
    }
}

impl From<OwnedLoadBalancer> for v1::OwnedLoadBalancer {
    fn from(owned: OwnedLoadBalancer) -> Self {
        let (identity, status) = owned.load_balancer.into_wire();
        Self {
            identity: Some(identity),
            service: owned.service.map(Into::into),
            status: Some(status),
        }
    }
}
