//! Where a load balancer is reached.

use std::net::IpAddr;

use outrigger_api::v1;

use crate::setters::setters;

/// One address under which a load balancer is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ingress {
    /// The address.
    pub point: IngressPoint,
    /// State of single ports, where the cloud reports it.
    pub ports: Vec<PortStatus>,
}

/// An IP address or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IngressPoint {
    /// An IP address.
    Ip {
        /// The address.
        ip: IpAddr,
        /// How traffic arrives at a node; `None` leaves it to Kubernetes, which chooses
        /// [`IpMode::Vip`].
        mode: Option<IpMode>,
    },
    /// A DNS name, lower case.
    Hostname(String),
}

/// `ipMode` of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IpMode {
    /// Traffic arrives with the load balancer's address as its destination: nodes may answer for it
    /// themselves.
    Vip,
    /// Traffic arrives with the node's address as its destination: nodes must send traffic for the
    /// load balancer to it.
    Proxy,
}

/// State of one port of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortStatus {
    /// Port of the Service, 1 to 65535.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Why it does not work: CamelCase, with an optional domain prefix. `None`: it works.
    pub error: Option<String>,
}

impl PortStatus {
    /// A port that works.
    pub fn new(port: i32, protocol: impl Into<String>) -> Self {
        let protocol = protocol.into();
        Self {
            port,
            protocol,
            error: None,
        }
    }
}

setters! { PortStatus {
    with_error => error: Option<String>,
} }

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

    /// An entry of a status may name an IP address and a name: two points.
    pub(crate) fn from_wire(wire: v1::LoadBalancerIngress) -> impl Iterator<Item = Self> {
        let ports: Vec<_> = wire.ports.into_iter().map(PortStatus::from_wire).collect();
        let mode = match wire.ip_mode.as_deref() {
            Some("VIP") => Some(IpMode::Vip),
            Some("Proxy") => Some(IpMode::Proxy),
            _ => None,
        };
        let ip = wire.ip.parse().ok();
        let ip = ip.map(|ip| IngressPoint::Ip { ip, mode });
        let name = Some(wire.hostname).filter(|name| !name.is_empty());
        let points = ip.into_iter().chain(name.map(IngressPoint::Hostname));
        points.map(move |point| Self::from(point).with_ports(ports.clone()))
    }

    pub(crate) fn into_wire(self) -> v1::LoadBalancerIngress {
        let (ip, hostname, mode) = match self.point {
            IngressPoint::Ip { ip, mode } => (ip.to_string(), String::new(), mode),
            IngressPoint::Hostname(name) => (String::new(), name, None),
        };
        let ip_mode = mode.map(|mode| match mode {
            IpMode::Vip => "VIP".to_owned(),
            IpMode::Proxy => "Proxy".to_owned(),
        });
        let ports = self.ports.into_iter().map(PortStatus::into_wire);
        v1::LoadBalancerIngress {
            ip,
            hostname,
            ip_mode,
            ports: ports.collect(),
        }
    }
}

setters! { Ingress {
    with_ports => ports: Vec<PortStatus>,
} }

impl From<IngressPoint> for Ingress {
    fn from(point: IngressPoint) -> Self {
        Self {
            point,
            ports: Vec::new(),
        }
    }
}

impl PortStatus {
    fn from_wire(wire: v1::PortStatus) -> Self {
        Self {
            port: wire.port,
            protocol: wire.protocol,
            error: wire.error,
        }
    }

    fn into_wire(self) -> v1::PortStatus {
        v1::PortStatus {
            port: self.port,
            protocol: self.protocol,
            error: self.error,
        }
    }
}
