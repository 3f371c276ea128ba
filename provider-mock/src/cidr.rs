//! Ranges of addresses, as clouds spell them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// An address and a prefix length, with host bits where they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr(pub(crate) IpNet);

impl Cidr {
    /// Without host bits: one for all spellings.
    #[must_use]
    pub fn network(self) -> Self {
        Self(self.0.trunc())
    }

    /// True if it is of the IP family of an address.
    pub fn is_like(self, ip: IpAddr) -> bool {
        self.0.addr().is_ipv4() == ip.is_ipv4()
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.parse().map(Self);
        parsed.map_err(|_| format!("{text:?} is no CIDR; write it as 10.244.1.0/24"))
    }
}

serde_by_text!(Cidr);

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
