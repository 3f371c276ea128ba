//! Addresses that neither a Node nor a load balancer can have.
//!
//! A provider that names one sends traffic elsewhere: kube-proxy takes the addresses of load balancers for its own on every
//! node, and others dial those of Nodes. The checks of answers refuse such an address; the options of a Service refuse one
//! that a user asks for. Only the shape of the address, and the range of Services where its flag is set, count: nothing is
//! resolved.

use std::{net::IpAddr, sync::Arc};

use crate::{cidr::Cidr, syntax::Complaint};

/// Names that mean the machine itself, or the metadata service of a cloud.
const NAMES: [&str; 7] = [
    "localhost",
    "localhost.localdomain",
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
];
/// Ends of names that mean the machine itself, or a Service of a cluster.
const DOMAINS: [&str; 3] = [".localhost", ".svc", ".cluster.local"];

/// The addresses; the default has no range of Services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForbiddenAddresses {
    services: Arc<[Cidr]>,
}

impl ForbiddenAddresses {
    /// With the addresses in `services`: `--service-cluster-ip-range`.
    pub fn new(services: impl IntoIterator<Item = Cidr>) -> Self {
        let services = services.into_iter().collect();
        Self { services }
    }

    /// Checks that `ip` may be the address of a Node or of a load balancer. An IPv4 address that is mapped into IPv6 is
    /// that IPv4 address.
    ///
    /// # Errors
    /// Why not.
    pub fn check_ip(&self, ip: IpAddr) -> Result<(), Complaint> {
        let ip = ip.to_canonical();
        let (is_this_network, is_link_local, is_broadcast) = match ip {
            IpAddr::V4(ip) => (
                ip.octets().first() == Some(&0),
                ip.is_link_local(),
                ip.is_broadcast(),
            ),
            IpAddr::V6(ip) => (false, ip.is_unicast_link_local(), false),
        };
        Err(if ip.is_unspecified() || is_this_network {
            "is the unspecified address, which no machine has"
        } else if ip.is_loopback() {
            "is a loopback address, which is each machine's own"
        } else if is_link_local {
            "is a link-local address, under which clouds serve credentials"
        } else if ip.is_multicast() {
            "is a multicast address"
        } else if is_broadcast {
            "is the broadcast address"
        } else if self.services.iter().any(|range| range.contains_ip(ip)) {
            "is inside --service-cluster-ip-range, whose addresses are those of Services"
        } else {
            return Ok(());
        })
    }

    /// Checks that `name` may be the host name of a Node or of a load balancer.
    ///
    /// # Errors
    /// Why not.
    pub fn check_name(&self, name: &str) -> Result<(), Complaint> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if NAMES.contains(&&*name) || DOMAINS.iter().any(|domain| name.ends_with(domain)) {
            return Err("means the machine itself, a Service or the cloud's metadata service");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn forbidden() -> ForbiddenAddresses {
        let ranges = ["10.96.0.0/12", "fd00:10:96::/112"];
        ForbiddenAddresses::new(ranges.map(|range| Cidr::parse(range).unwrap()))
    }

    #[test]
    fn addresses_that_lead_elsewhere_are_refused() {
        for (ip, why) in [
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("::", "unspecified"),
            ("::ffff:0.0.0.0", "unspecified"),
            ("127.0.0.1", "loopback"),
            ("127.8.0.1", "loopback"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("169.254.169.254", "link-local"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::ffff:a9fe:a9fe", "link-local"),
            ("fe80::1", "link-local"),
            ("febf::1", "link-local"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("ff02::1", "multicast"),
            ("255.255.255.255", "broadcast"),
            ("10.96.0.1", "--service-cluster-ip-range"),
            ("10.111.255.255", "--service-cluster-ip-range"),
            ("::ffff:10.96.0.1", "--service-cluster-ip-range"),
            ("fd00:10:96::1", "--service-cluster-ip-range"),
        ] {
            let said = forbidden().check_ip(ip.parse().unwrap());
            assert!(said.is_err_and(|said| said.contains(why)), "{ip}: {said:?}");
        }
    }

    #[test]
    fn addresses_of_machines_and_load_balancers_are_not() {
        for ip in [
            "192.0.2.7",
            "10.0.0.5",
            "10.95.255.255",
            "10.112.0.0",
            "100.64.0.1",
            "172.16.0.1",
            "169.253.0.1",
            "240.0.0.1",
            "2001:db8::7",
            "fd00::5",
            "fd00:10:97::1",
            "fec0::1",
        ] {
            assert_eq!(forbidden().check_ip(ip.parse().unwrap()), Ok(()), "{ip}");
        }
        let without = ForbiddenAddresses::default();
        assert_eq!(without.check_ip("10.96.0.1".parse().unwrap()), Ok(()));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in [
            "localhost",
            "LocalHost.",
            "a.localhost",
            "localhost.localdomain",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "metadata.google.internal",
            "Metadata.Google.Internal.",
            "instance-data.ec2.internal",
        ] {
            assert!(forbidden().check_name(name).is_err(), "{name}");
        }
        for name in [
            "n6",
            "lb.example.com",
            "ip-10-0-0-5.ec2.internal",
            "n6.c.project.internal",
            "localhost.example.com",
            "n6.localdomain",
            "svc",
            "web.svc.example.com",
            "mylocalhost",
        ] {
            assert_eq!(forbidden().check_name(name), Ok(()), "{name}");
        }
    }

    proptest! {
        /// However an address is written.
        #[test]
        fn a_mapped_address_is_judged_as_the_address_itself(bits in any::<u32>()) {
            let ip = std::net::Ipv4Addr::from_bits(bits);
            let mapped = IpAddr::V6(ip.to_ipv6_mapped());
            let rules = forbidden();
            prop_assert_eq!(rules.check_ip(mapped), rules.check_ip(IpAddr::V4(ip)));
        }
    }
}
