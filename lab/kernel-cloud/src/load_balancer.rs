//! A load balancer as a Service and its targets ask for it, and as the kernel has it: one type, so that both are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use outrigger_provider_sdk::v1::{NodeAddress, Service};
use outrigger_provider_sdk::{Context, Error, Targets};

use crate::options::{self, Check};

/// The annotation that names the wanted addresses, separated by commas.
pub const ADDRESSES: &str = "linux.outrigger.dev/addresses";

/// The prefix of the annotations that are read.
pub const PREFIX: &str = "linux.outrigger.dev/";

/// Timeout of session affinity where the Service names none: Kubernetes' default, in seconds.
const AFFINITY: u32 = 10_800;

/// The cluster and the Service of a load balancer, by their UIDs. Both are part of names in nftables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// UID of the cluster.
    pub cluster: String,
    /// UID of the Service.
    pub service: String,
}

/// A protocol that is balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The family of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4 = 4,
    /// IPv6.
    V6 = 6,
}

/// One load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancer {
    /// `namespace/name` of its Service, for people.
    pub name: String,
    /// Its addresses, at most one of each family.
    pub addresses: BTreeMap<Family, IpAddr>,
    /// Its ports.
    pub ports: BTreeSet<(Protocol, u16)>,
    /// Ranges of the families of its addresses that may come; `None`: not limited.
    pub source_ranges: Option<BTreeSet<IpNet>>,
    /// Seconds for which a client stays at its target.
    pub affinity: Option<u32>,
    /// Only clients on the machines' side may come.
    pub internal: bool,
    /// How each target is asked for its health; `None`: all are healthy.
    pub health: Option<Check>,
    /// Its targets, by their addresses.
    pub targets: BTreeMap<IpAddr, Target>,
}

/// A target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Name of its Node, as far as a comment in nftables holds it.
    pub node: String,
    /// New connections go to it.
    pub healthy: bool,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }

    /// `ipv4` or `ipv6`.
    pub(crate) fn protocol(self) -> String {
        format!("ipv{}", self as u8)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv{}", *self as u8)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// The UID of the cluster of a call, safe to be part of a name.
///
/// # Errors
///
/// It is not known, or no UID.
pub fn cluster_uid(ctx: &Context) -> Result<&str, Error> {
    let uid = &ctx.cluster().uid;
    if uid.is_empty() {
        return Err(Error::invalid_request(
            "the call has no UID of the cluster, and what this provider makes is marked with it",
        ));
    }
    checked_uid("cluster", uid)
}

fn checked_uid<'a>(of: &str, uid: &'a str) -> Result<&'a str, Error> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if uid.is_empty() || uid.len() > 64 || !uid.chars().all(is_legal) {
        return Err(Error::invalid_request(format!(
            "the UID of the {of} is 1 to 64 letters, digits and dashes, and not {uid:?}"
        )));
    }
    Ok(uid)
}

impl Key {
    /// The key of the load balancer of this Service.
    pub fn of(ctx: &Context, service: &Service) -> Result<Self, Error> {
        Ok(Self {
            cluster: cluster_uid(ctx)?.to_owned(),
            service: checked_uid("Service", &service.uid)?.to_owned(),
        })
    }
}

/// A text as it can be a comment in nftables: at most 127 bytes, and nothing that ends it.
fn comment(text: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-./_".contains(*c);
    text.chars().filter(is_plain).take(127).collect()
}

/// An address of a Node in its cluster.
pub fn internal(ip: IpAddr) -> NodeAddress {
    NodeAddress {
        r#type: "InternalIP".to_owned(),
        address: ip.to_string(),
    }
}

/// The address, if it is an `InternalIP`.
pub fn internal_ip(address: &NodeAddress) -> Option<IpAddr> {
    let internal = Some(address).filter(|address| address.r#type == "InternalIP");
    internal?.address.parse().ok()
}

/// Targets of these families, by address. Targets that are in `before` keep their health, others are not healthy yet.
pub fn targets(
    targets: &Targets,
    families: &[Family],
    before: &BTreeMap<IpAddr, Target>,
) -> BTreeMap<IpAddr, Target> {
    let mut by_address = BTreeMap::new();
    for node in targets.iter() {
        for family in families {
            let mut addresses = node.addresses.iter().filter_map(internal_ip);
            let Some(address) = addresses.find(|ip| Family::of(*ip) == *family) else {
                continue;
            };
            let healthy = before.get(&address).is_some_and(|target| target.healthy);
            let node = comment(&node.name);
            by_address.insert(address, Target { node, healthy });
        }
    }
    by_address
}

impl LoadBalancer {
    /// The load balancer that the Service asks for, without addresses and targets.
    ///
    /// # Errors
    ///
    /// It asks for something that is not served.
    pub fn asked_by(service: &Service, cluster_health_port: Option<u16>) -> Result<Self, Error> {
        let mut ports = BTreeSet::new();
        for port in &service.ports {
            let protocol = match &*port.protocol {
                "TCP" => Protocol::Tcp,
                "UDP" => Protocol::Udp,
                other => {
                    let text = format!(
                        "port {} has the protocol {other}; TCP and UDP are served",
                        port.port
                    );
                    return Err(Error::unsupported_protocol(text));
                }
            };
            let number = u16::try_from(port.port).ok().filter(|number| *number > 0);
            let number = number
                .ok_or_else(|| Error::invalid_request(format!("there is no port {}", port.port)))?;
            ports.insert((protocol, number));
        }
        let families = families(service);
        let mut ranges = Vec::new();
        for text in &service.load_balancer_source_ranges {
            let range: IpNet = text.trim().parse().map_err(|_| {
                Error::invalid_annotation(format!(
                    "the source range {text:?} is no CIDR, such as 10.0.0.0/8"
                ))
            })?;
            ranges.push(range.trunc());
        }
        let is_limited = !ranges.is_empty();
        ranges.retain(|range| families.contains(&Family::of(range.addr())));
        let health_port = if service.external_traffic_policy == "Local" {
            u16::try_from(service.health_check_node_port)
                .ok()
                .filter(|port| *port > 0)
        } else {
            cluster_health_port
        };
        let health = options::check(service)?.or_else(|| health_port.map(Check::of_kube_proxy));
        let timeout = service.session_affinity_timeout;
        let timeout = timeout
            .and_then(|timeout| u32::try_from(timeout.seconds).ok())
            .unwrap_or(AFFINITY);
        Ok(Self {
            name: comment(&format!("{}/{}", service.namespace, service.name)),
            ports,
            source_ranges: is_limited.then(|| IpNet::aggregate(&ranges).into_iter().collect()),
            affinity: (service.session_affinity == "ClientIP").then_some(timeout.max(1)),
            internal: options::is_internal(service),
            health,
            ..Self::default()
        })
    }

    /// Returns whether new connections go to this address.
    pub fn is_healthy(&self, address: IpAddr) -> bool {
        self.targets
            .get(&address)
            .is_some_and(|target| target.healthy)
    }

    /// The differences between it and `desired`, for people. Health is no difference.
    pub fn differences(&self, desired: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let mut compare = |what: &str, is: String, target: String| {
            if is != target {
                differences.push(format!("{what}: {is}, asked for: {target}"));
            }
        };
        let addresses = |one: &Self| listed(one.addresses.values());
        compare("addresses", addresses(self), addresses(desired));
        let ports = |one: &Self| {
            listed(
                one.ports
                    .iter()
                    .map(|(protocol, port)| format!("{port}/{protocol}")),
            )
        };
        compare("ports", ports(self), ports(desired));
        let internal = |one: &Self| one.internal.to_string();
        compare("internal", internal(self), internal(desired));
        let ranges = |one: &Self| one.source_ranges.as_ref().map_or("all".to_owned(), listed);
        compare("source ranges", ranges(self), ranges(desired));
        let affinity = |one: &Self| {
            one.affinity
                .map_or("none".to_owned(), |seconds| format!("{seconds} s"))
        };
        compare("session affinity", affinity(self), affinity(desired));
        let health = |one: &Self| {
            one.health
                .as_ref()
                .map_or("none".to_owned(), Check::to_string)
        };
        compare("health check", health(self), health(desired));
        let nodes = |one: &Self| {
            listed(
                one.targets
                    .iter()
                    .map(|(address, target)| format!("{address} ({})", target.node)),
            )
        };
        compare("targets", nodes(self), nodes(desired));
        compare("name", self.name.clone(), desired.name.clone());
        differences
    }
}

fn listed<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    if texts.is_empty() {
        "none".to_owned()
    } else {
        texts.join(", ")
    }
}

/// The families of a Service, in its order.
pub fn families(service: &Service) -> Vec<Family> {
    let mut families: Vec<_> = service
        .ip_families
        .iter()
        .filter_map(|family| match &**family {
            "IPv4" => Some(Family::V4),
            "IPv6" => Some(Family::V6),
            _ => None,
        })
        .collect();
    if families.is_empty() {
        families.push(Family::V4);
    }
    families
}

/// The addresses that a Service names: by options, its annotation, or else `spec.loadBalancerIP`.
///
/// # Errors
///
/// A text is no address, or options ask for other addresses than the annotation, or for a family that the Service does not have.
pub fn named_addresses(service: &Service) -> Result<Vec<IpAddr>, Error> {
    let options = service.load_balancer_options.as_ref();
    let requested = options.map(|options| options.requested_addresses.join(","));
    let requested = requested.unwrap_or_default();
    let annotation = service.annotations.get(ADDRESSES);
    let annotated = annotation.map_or("", String::as_str);
    let texts = [requested.as_str(), annotated, &service.load_balancer_ip];
    let named = texts.into_iter().find(|text| !text.is_empty());
    let named = named.map_or(Ok(Vec::new()), parsed)?;
    let families = families(service);
    let is_served = |address: &IpAddr| families.contains(&Family::of(*address));
    let set = |addresses: &[IpAddr]| addresses.iter().copied().collect::<BTreeSet<_>>();
    let contradicts = !annotated.is_empty() && set(&parsed(annotated)?) != set(&named);
    if !requested.is_empty() && (contradicts || !named.iter().all(is_served)) {
        return Err(Error::conflicting_options(format!(
            "outrigger.dev/load-balancer-addresses asks for {requested}; ipFamilies is {families:?}, and {ADDRESSES} is \
             {annotated:?}: remove one of them"
        )));
    }
    Ok(named)
}

fn parsed(addresses: &str) -> Result<Vec<IpAddr>, Error> {
    let parse = |one: &str| {
        one.trim().parse().map_err(|_| {
            Error::invalid_annotation(format!(
                "{one:?} is no IP address: {ADDRESSES} and spec.loadBalancerIP name addresses of the pool"
            ))
        })
    };
    addresses.split(',').map(parse).collect()
}

/// The addresses in the status of a Service.
pub fn status_addresses(service: &Service) -> impl Iterator<Item = IpAddr> {
    let status = service.status.iter();
    let ingress = status.flat_map(|status| &status.ingress);
    ingress.filter_map(|ingress| ingress.ip.parse().ok())
}

#[cfg(test)]
mod tests;
