//! Text that has been checked, so that the cloud holds only what Kubernetes accepts.
//!
//! Nonsense leaves the mock through a fault that somebody set, never by mistake.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}: {rule}")]
pub struct BadText {
    text: String,
    what: &'static str,
    rule: &'static str,
}

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:path, $rule:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadText;

            fn from_str(text: &str) -> Result<Self, BadText> {
                if $check(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(BadText { text: text.to_owned(), what: $what, rule: $rule })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadText;

            fn try_from(text: String) -> Result<Self, BadText> {
                text.parse()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

checked_text!(
    /// The name that a kubelet registers with.
    NodeName,
    "node name",
    is_dns_subdomain,
    "use at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at each end"
);

checked_text!(
    /// What follows `<provider_name>://` in a provider ID.
    InstanceId,
    "instance id",
    is_instance_id,
    "use at most 200 of a-z, A-Z, 0-9, '-', '_' and '.', with a letter or digit first"
);

checked_text!(
    /// The value of a Kubernetes label; zones, regions and instance types become labels.
    LabelValue,
    "label value",
    is_label_value,
    "use at most 63 of a-z, A-Z, 0-9, '-', '_' and '.', with a letter or digit at each end"
);

checked_text!(
    /// The key of a label that the cloud gives to a Node.
    LabelKey,
    "label key for a cloud",
    is_label_key,
    "write name or domain/name, outside kubernetes.io and k8s.io"
);

checked_text!(
    /// The name of a provider, which is the scheme of its provider IDs.
    ProviderName,
    "provider name",
    is_provider_name,
    "use 1 to 63 of a-z, 0-9 and '-'"
);

impl InstanceId {
    /// The id made of a hash, in the fashion of the large clouds.
    pub(super) fn derived(hash: u64) -> Self {
        Self(format!("i-{hash:016x}").into())
    }
}

fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|part| {
            !part.is_empty()
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        })
}

fn is_word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

fn is_instance_id(text: &str) -> bool {
    text.len() <= 200
        && text.bytes().all(is_word_byte)
        && text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric())
}

fn is_label_value(text: &str) -> bool {
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && text.bytes().all(is_word_byte)
        && ends(text.bytes().next())
        && ends(text.bytes().last())
}

fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_label_value(text),
        Some((domain, name)) => {
            let reserved = |owner: &str| {
                domain
                    .strip_suffix(owner)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            is_dns_subdomain(domain)
                && is_label_value(name)
                && !reserved("kubernetes.io")
                && !reserved("k8s.io")
        }
    }
}

fn is_provider_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Kubernetes' `NodeAddressType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AddressType {
    /// An IP address inside the cluster's network.
    #[serde(rename = "InternalIP")]
    InternalIp,
    /// An IP address that the world reaches.
    #[serde(rename = "ExternalIP")]
    ExternalIp,
    /// The name of the host.
    Hostname,
    /// A DNS name inside the cluster's network.
    #[serde(rename = "InternalDNS")]
    InternalDns,
    /// A DNS name that the world resolves.
    #[serde(rename = "ExternalDNS")]
    ExternalDns,
}

impl AddressType {
    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InternalIp => "InternalIP",
            Self::ExternalIp => "ExternalIP",
            Self::Hostname => "Hostname",
            Self::InternalDns => "InternalDNS",
            Self::ExternalDns => "ExternalDNS",
        }
    }

    fn named(text: &str) -> Option<Self> {
        [
            Self::InternalIp,
            Self::ExternalIp,
            Self::Hostname,
            Self::InternalDns,
            Self::ExternalDns,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == text)
    }

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
        let kind = AddressType::named(kind).ok_or_else(|| BadText {
            text: kind.to_owned(),
            what: "address type",
            rule: "use InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS",
        })?;
        Self::new(kind, address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.kind.as_str(), self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: FromStr<Err = BadText> + fmt::Debug>(good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(text.parse::<T>().is_ok(), "{text:?} should be taken");
        }
        for text in bad {
            let error = text.parse::<T>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn names_follow_kubernetes() {
        let long = "a".repeat(254);
        check::<NodeName>(
            &["a", "worker-1", "w.example.com", "0"],
            &["", "A", "a..b", "-a", "a_b", &long],
        );
        check::<InstanceId>(
            &["i-01", "a/b".trim_end_matches("/b"), "X.y_z"],
            &["", "-a", "a/b", "a b"],
        );
        let long = "a".repeat(64);
        check::<LabelValue>(
            &["a", "mock.small", "A-1_b"],
            &["", "-a", "a-", "a b", "ä", &long],
        );
        check::<ProviderName>(&["mock", "my-cloud-2"], &["", "Mock", "a.b", &long]);
    }

    #[test]
    fn a_cloud_may_not_give_kubernetes_own_labels() {
        check::<LabelKey>(
            &["rack", "mock.example/rack", "notk8s.io/x"],
            &[
                "",
                "kubernetes.io/x",
                "topology.kubernetes.io/zone",
                "a.k8s.io/b",
                "a/b/c",
                "/b",
                "a/",
            ],
        );
    }

    #[test]
    fn addresses_fit_their_type_and_are_canonical() {
        check::<Address>(
            &[
                "10.0.0.4",
                "fd00::4",
                "ExternalIP=192.0.2.1",
                "InternalDNS=a.internal",
            ],
            &["10.0.0.400", "10.0.0.0/8", "a.internal", ""],
        );
        let address: Address = "InternalIP=FD00:0::4".parse().unwrap();
        assert_eq!(address.to_string(), "InternalIP=fd00::4");
        let error = "Public=10.0.0.4"
            .parse::<Address>()
            .unwrap_err()
            .to_string();
        assert!(error.contains("InternalIP, ExternalIP"), "{error}");
    }
}
