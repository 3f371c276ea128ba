//! The desired state of a Service, and the limits of this cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use outrigger_provider_sdk::Error;
use outrigger_provider_sdk::v1::Service;

use super::{AddressMode, LoadBalancer, LoadBalancerRules, Port, ServiceTag, options};
use crate::choice;
use crate::duration;

/// Prefix of the Service annotations that the mock reads.
pub(crate) const ANNOTATION_PREFIX: &str = "mock.example/";

/// An IP family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    pub(super) fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::Ipv4 } else { Self::Ipv6 }
    }
}

/// The desired state of the load balancer of a Service, except the targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalancerSpec {
    /// Its Service.
    pub service: ServiceTag,
    /// How it is reached.
    pub address_mode: AddressMode,
    /// Families of its addresses, in their order; none in [`AddressMode::Hostname`].
    pub families: Vec<Family>,
    /// The addresses that were asked for.
    pub requested: Vec<IpAddr>,
    /// Addresses in the status of its Service, which it gets again if they are free.
    pub kept: Vec<IpAddr>,
    /// The ports it listens on.
    pub ports: Vec<Port>,
    /// Allowed sources.
    pub source_ranges: Vec<String>,
    /// Where nodes are asked whether they have endpoints.
    pub health_check_node_port: i32,
    /// Portable options other than the cloud's defaults, by their names.
    pub options: BTreeMap<String, String>,
    /// A deletion keeps it.
    pub protected: bool,
    /// How long making it takes now.
    pub provisioning: Duration,
}

impl LoadBalancerSpec {
    /// Reads a Service; fails for what the cloud cannot serve.
    pub fn of(service: &Service, rules: &LoadBalancerRules) -> Result<Self, Error> {
        let (mode, protected, provisioning, internal) = annotated(service, rules)?;
        let ports = ports(service, rules)?;
        let families = match mode {
            AddressMode::Hostname => Vec::new(),
            AddressMode::Ip | AddressMode::Vip | AddressMode::Proxy => families(service, rules)?,
        };
        let options = service.load_balancer_options.clone().unwrap_or_default();
        let requested = match options::requested(&options, &families, rules)? {
            none if none.is_empty() => requested(service, rules)?.into_iter().collect(),
            requested => requested,
        };
        // Only such a Service has one to ask at.
        let local = service.external_traffic_policy == "Local";
        Ok(Self {
            service: ServiceTag {
                namespace: service.namespace.clone(),
                name: service.name.clone(),
                uid: service.uid.clone(),
            },
            address_mode: mode,
            families,
            requested,
            kept: Vec::new(),
            ports,
            source_ranges: service.load_balancer_source_ranges.clone(),
            health_check_node_port: if local {
                service.health_check_node_port
            } else {
                0
            },
            options: options::kept(&options, internal)?,
            protected,
            provisioning,
        })
    }

    /// Adopts the addresses that Kubernetes has, for a cloud that is new.
    pub(crate) fn remember(&mut self, service: &Service) {
        let status = service.status.iter();
        let ingress = status.flat_map(|status| &status.ingress);
        self.kept = ingress.filter_map(|one| one.ip.parse().ok()).collect();
    }

    /// The differences from the desired state, one line each; targets aside.
    pub(crate) fn differences(&self, load_balancer: &LoadBalancer) -> Vec<String> {
        let mut differences = Vec::new();
        for port in &self.ports {
            if !load_balancer.ports.contains(port) {
                differences.push(format!("listener {port} would be added"));
            }
        }
        for port in &load_balancer.ports {
            if !self.ports.contains(port) {
                differences.push(format!("listener {port} would be removed"));
            }
        }
        let families = load_balancer.addresses.iter().map(|ip| Family::of(*ip));
        if self.address_mode != load_balancer.address_mode || !families.eq(self.families.clone()) {
            differences.push("its addresses would be changed".to_owned());
        } else {
            let others = self.requested.iter().filter(|ip| {
                self.families.contains(&Family::of(**ip)) && !load_balancer.addresses.contains(ip)
            });
            differences.extend(others.map(|ip| format!("its address would become {ip}")));
        }
        if self.source_ranges != load_balancer.source_ranges {
            differences.push("its source ranges would be changed".to_owned());
        }
        if self.health_check_node_port != load_balancer.health_check_node_port {
            differences.push("its health check would be changed".to_owned());
        }
        let (desired, actual) = (&self.options, &load_balancer.options);
        let names: BTreeSet<_> = desired.keys().chain(actual.keys()).collect();
        for name in names {
            if desired.get(name) != actual.get(name) {
                let value = desired.get(name).map_or("the default", String::as_str);
                differences.push(format!("its option {name} would become {value}"));
            }
        }
        if self.protected != load_balancer.protected {
            differences.push("its deletion protection would be changed".to_owned());
        }
        differences
    }
}

/// The annotations of the mock, else the rules.
fn annotated(
    service: &Service,
    rules: &LoadBalancerRules,
) -> Result<(AddressMode, bool, Duration, Option<bool>), Error> {
    let value = |name: &str| {
        let key = format!("{ANNOTATION_PREFIX}{name}");
        let value = service.annotations.get(&key).map(String::as_str);
        value.map(|value| (key, value))
    };
    let bad = |key: String, error: &dyn std::fmt::Display| {
        Error::invalid_annotation(format!("the annotation {key} is wrong: {error}"))
    };
    let mode = match value("address-mode") {
        None => rules.address_mode,
        Some((key, text)) => {
            choice::named("address mode", text).map_err(|error| bad(key, &error))?
        }
    };
    let switch = |name: &str| {
        let read = |(key, text): (String, &str)| {
            let wrong = format!("{text:?} is neither true nor false");
            text.parse::<bool>().map_err(|_| bad(key, &wrong))
        };
        value(name).map(read).transpose()
    };
    let protected = switch("deletion-protection")?.unwrap_or(rules.deletion_protection);
    let provisioning = match value("provisioning-time") {
        None => rules.provisioning,
        Some((key, text)) => duration::parse(text).map_err(|error| bad(key, &error))?,
    };
    Ok((mode, protected, provisioning, switch("internal")?))
}

fn ports(service: &Service, rules: &LoadBalancerRules) -> Result<Vec<Port>, Error> {
    let mut ports: Vec<Port> = Vec::with_capacity(service.ports.len());
    for port in &service.ports {
        if !rules.protocols.contains(&port.protocol) {
            return Err(Error::unsupported_protocol(format!(
                "port {} wants {}; this cloud serves {}",
                port.port,
                port.protocol,
                rules.protocols.join(", ")
            )));
        }
        let mixed = ports.iter().any(|other| other.protocol != port.protocol);
        if mixed && rules.without_mixed_protocols {
            return Err(Error::unsupported_protocol(
                "the ports have several protocols; this cloud serves one for each load balancer",
            ));
        }
        ports.push(Port {
            protocol: port.protocol.clone(),
            port: port.port,
            node_port: port.node_port,
        });
    }
    Ok(ports)
}

fn families(service: &Service, rules: &LoadBalancerRules) -> Result<Vec<Family>, Error> {
    let mut families: Vec<Family> = service
        .ip_families
        .iter()
        .filter_map(|family| match family.as_str() {
            "IPv4" => Some(Family::Ipv4),
            "IPv6" => Some(Family::Ipv6),
            _ => None,
        })
        .collect();
    if families.is_empty() {
        families.push(Family::Ipv4);
    }
    let served = |family: &Family| rules.pools.iter().any(|p| Family::of(p.addr()) == *family);
    match families.iter().find(|family| !served(family)) {
        None => Ok(families),
        Some(family) => Err(Error::unsupported_protocol(format!(
            "this cloud has no pool of {family:?} addresses"
        ))),
    }
}

fn requested(service: &Service, rules: &LoadBalancerRules) -> Result<Option<IpAddr>, Error> {
    let text = service.load_balancer_ip.as_str();
    if text.is_empty() {
        return Ok(None);
    }
    let ip: Option<IpAddr> = text.parse().ok();
    match ip.filter(|ip| rules.pools.iter().any(|pool| pool.contains(ip))) {
        Some(ip) => Ok(Some(ip)),
        None => Err(Error::invalid_annotation(format!(
            "spec.loadBalancerIP {text:?} is no address of a pool of this cloud"
        ))),
    }
}
