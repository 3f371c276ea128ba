//! Addresses of instances.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::NodeName;
use super::syntax::{BadText, is_dns_subdomain};
use crate::choice;

/// Kubernetes' `NodeAddressType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[value(rename_all = "verbatim")]
pub enum AddressType {
    /// An IP address inside the cluster's network.
    #[serde(rename = "InternalIP")]
    #[value(name = "InternalIP")]
    InternalIp,
    /// An IP address that the world reaches.
    #[serde(rename = "ExternalIP")]
    #[value(name = "ExternalIP")]
    ExternalIp,
    /// The name of the host.
    Hostname,
    /// A DNS name inside the cluster's network.
    #[serde(rename = "InternalDNS")]
    #[value(name = "InternalDNS")]
    InternalDns,
    /// A DNS name that the world resolves.
    #[serde(rename = "ExternalDNS")]
    #[value(name = "ExternalDNS")]
    ExternalDns,
}

impl AddressType {
    fn holds_ip(self) -> bool {
        matches!(self, Self::InternalIp | Self::ExternalIp)
    }
}

/// One address of an instance; written `InternalIP=10.0.0.4`, and a bare IP is an `InternalIP`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "RawAddress")]
pub struct Address {
    #[serde(rename = "type")]
    kind: AddressType,
    address: Box<str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAddress {
    #[serde(rename = "type")]
    kind: AddressType,
    address: String,
}

impl Address {
    /// An address that fits its type.
    pub fn new(kind: AddressType, address: &str) -> Result<Self, BadText> {
        let bad = |what, rule| {
            Err(BadText {
                text: address.to_owned(),
                what,
                rule,
            })
        };
        match address.parse::<IpAddr>() {
            // The canonical spelling, so that equal addresses compare equal.
            Ok(ip) if kind.holds_ip() => Ok(Self {
                kind,
                address: ip.to_string().into(),
            }),
            Err(_) if kind.holds_ip() => bad(
                "IP address",
                "write it as 10.0.0.4 or fd00::4, without a prefix length",
            ),
            _ if !is_dns_subdomain(address) => {
                bad("host name", "use at most 253 of a-z, 0-9, '-' and '.'")
            }
            _ => Ok(Self {
                kind,
                address: address.into(),
            }),
        }
    }

    /// An `InternalIP`.
    pub fn internal(ip: IpAddr) -> Self {
        Self {
            kind: AddressType::InternalIp,
            address: ip.to_string().into(),
        }
    }

    /// The `Hostname` of a node.
    pub fn hostname(name: &NodeName) -> Self {
        Self {
            kind: AddressType::Hostname,
            address: name.as_str().into(),
        }
    }

    /// Its type.
    pub fn kind(&self) -> AddressType {
        self.kind
    }

    /// The address without its type.
    pub fn as_str(&self) -> &str {
        &self.address
    }
}

impl TryFrom<RawAddress> for Address {
    type Error = BadText;

    fn try_from(raw: RawAddress) -> Result<Self, BadText> {
        Self::new(raw.kind, &raw.address)
    }
}

impl FromStr for Address {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let Some((kind, address)) = text.split_once('=') else {
            return Self::new(AddressType::InternalIp, text);
        };
        let kind = AddressType::from_str(kind, false).map_err(|_| BadText {
            text: kind.to_owned(),
            what: "address type",
            rule: "use InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS",
        })?;
        Self::new(kind, address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", choice::name(&self.kind), self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_fit_their_type_and_are_canonical() {
        for good in [
            "10.0.0.4",
            "fd00::4",
            "ExternalIP=192.0.2.1",
            "InternalDNS=a.internal",
        ] {
            assert!(good.parse::<Address>().is_ok(), "{good}");
        }
        for bad in ["10.0.0.400", "10.0.0.0/8", "a.internal", ""] {
            let error = bad.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
        let address: Address = "InternalIP=FD00:0::4".parse().unwrap();
        assert_eq!(address.to_string(), "InternalIP=fd00::4");
        let error = "Public=10.0.0.4"
            .parse::<Address>()
            .unwrap_err()
            .to_string();
        assert!(error.contains("InternalIP, ExternalIP"), "{error}");
    }
}
