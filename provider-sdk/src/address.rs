//! Addresses of Nodes and instances.

use std::net::IpAddr;

use outrigger_api::v1;

/// One address of an instance or a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// `InternalIP`.
    InternalIp(IpAddr),
    /// `ExternalIP`.
    ExternalIp(IpAddr),
    /// `Hostname`.
    Hostname(String),
    /// `InternalDNS`.
    InternalDns(String),
    /// `ExternalDNS`.
    ExternalDns(String),
    /// A type that Kubernetes learnt after this crate was made; of a Node also an IP address that is none.
    Other {
        /// Kubernetes' name of the type.
        kind: String,
        /// The address.
        address: String,
    },
}

impl Address {
    pub(crate) fn from_wire(wire: v1::NodeAddress) -> Self {
        let v1::NodeAddress { r#type, address } = wire;
        match (r#type.as_str(), address.parse()) {
            ("InternalIP", Ok(ip)) => Self::InternalIp(ip),
            ("ExternalIP", Ok(ip)) => Self::ExternalIp(ip),
            ("Hostname", _) => Self::Hostname(address),
            ("InternalDNS", _) => Self::InternalDns(address),
            ("ExternalDNS", _) => Self::ExternalDns(address),
            _ => Self::Other {
                kind: r#type,
                address,
            },
        }
    }

    pub(crate) fn into_wire(self) -> v1::NodeAddress {
        let (kind, address) = match self {
            Self::InternalIp(ip) => ("InternalIP", ip.to_string()),
            Self::ExternalIp(ip) => ("ExternalIP", ip.to_string()),
            Self::Hostname(name) => ("Hostname", name),
            Self::InternalDns(name) => ("InternalDNS", name),
            Self::ExternalDns(name) => ("ExternalDNS", name),
            Self::Other { kind, address } => {
                return v1::NodeAddress {
                    r#type: kind,
                    address,
                };
            }
        };
        v1::NodeAddress {
            r#type: kind.to_owned(),
            address,
        }
    }
}
