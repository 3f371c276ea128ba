//! From `nft -j list table` to load balancers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use serde::Deserialize;
use serde_json::Value;

use super::{INTERNAL, MARK, Names};
use crate::load_balancer::{Family, Key, LoadBalancer, Protocol, Target};
use crate::options::Check;

/// The table as the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Marks of next hops, by their addresses.
    pub hops: BTreeMap<IpAddr, u32>,
    /// Load balancers of all clusters.
    pub balancers: BTreeMap<Key, LoadBalancer>,
    /// Numbers of rules, by chain.
    pub(super) rules: BTreeMap<String, usize>,
}

/// The output of `nft` is not as this provider writes it.
#[derive(Debug, thiserror::Error)]
#[error("the table inet outrigger cannot be read: {0}")]
pub struct Unreadable(String);

#[derive(Deserialize)]
struct Listing {
    nftables: Vec<Object>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Object {
    Set(Set),
    Map(Set),
    Rule(Rule),
    #[serde(untagged)]
    Other(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Set {
    name: String,
    #[serde(default)]
    timeout: u32,
    #[serde(default)]
    elem: Vec<Value>,
}

#[derive(Deserialize)]
struct Rule {
    chain: String,
    #[serde(default)]
    comment: String,
}

impl Table {
    /// Reads the output of `nft -j list table inet outrigger`.
    ///
    /// # Errors
    ///
    /// It is no JSON of nftables, or has an object that this provider does not write so.
    pub fn parse(json: &str) -> Result<Self, Unreadable> {
        let listing: Listing =
            serde_json::from_str(json).map_err(|error| Unreadable(error.to_string()))?;
        let mut table = Self::default();
        let mut sets = BTreeMap::new();
        let mut ports = Vec::new();
        for object in listing.nftables {
            match object {
                Object::Rule(rule) => table.rule(rule),
                Object::Set(set) | Object::Map(set) => match &*set.name {
                    "hops4" | "hops6" => table.hops(&set)?,
                    "ports4" | "ports6" => ports.extend(set.elem),
                    "addresses4" | "addresses6" => table.addresses(&set)?,
                    _ => {
                        sets.insert(set.name.clone(), set);
                    }
                },
                Object::Other(_) => {}
            }
        }
        for element in &ports {
            table.port(element)?;
        }
        let marks: BTreeMap<_, _> = table
            .hops
            .iter()
            .map(|(address, mark)| (*mark, *address))
            .collect();
        for set in sets.values() {
            table.part(set, &marks)?;
        }
        Ok(table)
    }

    /// All addresses in use but those of this load balancer.
    pub fn taken(&self, but: &Key) -> std::collections::BTreeSet<IpAddr> {
        let others = self.balancers.iter().filter(|(key, _)| *key != but);
        others
            .flat_map(|(_, one)| one.addresses.values().copied())
            .collect()
    }

    /// The marks of these addresses: those that they have, else the first that are free.
    pub fn hops_for(&self, addresses: impl Iterator<Item = IpAddr>) -> BTreeMap<IpAddr, u32> {
        let mut hops = self.hops.clone();
        for address in addresses {
            if !hops.contains_key(&address) {
                let free =
                    (MARK + 1..=MARK | 0xffff).find(|mark| !hops.values().any(|one| one == mark));
                // 65,535 next hops on one host are more than its neighbour table can hold.
                hops.insert(address, free.unwrap_or(MARK | 0xffff));
            }
        }
        hops
    }

    fn rule(&mut self, rule: Rule) {
        if let Some((_, key, _)) = Names::parse(&rule.chain) {
            let balancer = self.balancers.entry(key).or_default();
            if let Some(check) = rule.comment.strip_prefix("health ") {
                balancer.health = Check::parse(check);
            } else if rule.comment == INTERNAL {
                balancer.internal = true;
            } else if rule.comment.contains('/') {
                balancer.name = rule.comment;
            }
        }
        *self.rules.entry(rule.chain).or_default() += 1;
    }

    fn hops(&mut self, set: &Set) -> Result<(), Unreadable> {
        for element in &set.elem {
            let (Some(mark), Some(address)) = (mark(&element[0]), address(&element[1])) else {
                return Err(unreadable(&set.name, element));
            };
            self.hops.insert(address, mark);
        }
        Ok(())
    }

    fn addresses(&mut self, set: &Set) -> Result<(), Unreadable> {
        for element in &set.elem {
            let owner = element["elem"]["comment"]
                .as_str()
                .and_then(|comment| comment.split_once('/'));
            let (Some(address), Some((cluster, service))) =
                (address(&element["elem"]["val"]), owner)
            else {
                return Err(unreadable(&set.name, element));
            };
            let key = Key {
                cluster: cluster.to_owned(),
                service: service.to_owned(),
            };
            let balancer = self.balancers.entry(key).or_default();
            balancer.addresses.insert(Family::of(address), address);
        }
        Ok(())
    }

    fn port(&mut self, element: &Value) -> Result<(), Unreadable> {
        let concat = &element[0]["concat"];
        let protocol = match concat[1].as_str() {
            Some("tcp") => Some(Protocol::Tcp),
            Some("udp") => Some(Protocol::Udp),
            _ => None,
        };
        let port = concat[2].as_u64().and_then(|port| u16::try_from(port).ok());
        let chain = element[1]["goto"]["target"].as_str().and_then(Names::parse);
        let (Some(protocol), Some(port), Some((_, key, _))) = (protocol, port, chain) else {
            return Err(unreadable("ports", element));
        };
        self.balancers
            .entry(key)
            .or_default()
            .ports
            .insert((protocol, port));
        Ok(())
    }

    /// One set of a load balancer.
    fn part(&mut self, set: &Set, marks: &BTreeMap<u32, IpAddr>) -> Result<(), Unreadable> {
        let Some((kind, key, _)) = Names::parse(&set.name) else {
            return Ok(());
        };
        let balancer = self.balancers.entry(key).or_default();
        match kind {
            "clients" => balancer.affinity = Some(set.timeout),
            "ranges" => {
                let mut ranges: Vec<IpNet> = balancer
                    .source_ranges
                    .take()
                    .into_iter()
                    .flatten()
                    .collect();
                for element in &set.elem {
                    let read = networks(element);
                    if read.is_empty() {
                        return Err(unreadable(&set.name, element));
                    }
                    ranges.extend(read);
                }
                balancer.source_ranges = Some(IpNet::aggregate(&ranges).into_iter().collect());
            }
            "targets" | "healthy" => {
                for element in &set.elem {
                    let value = element.pointer("/elem/val").unwrap_or(element);
                    let address = mark(value).and_then(|mark| marks.get(&mark));
                    let address = address.ok_or_else(|| unreadable(&set.name, element))?;
                    let target: &mut Target = balancer.targets.entry(*address).or_default();
                    if kind == "healthy" {
                        target.healthy = true;
                    } else if let Some(node) = element["elem"]["comment"].as_str() {
                        node.clone_into(&mut target.node);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn unreadable(of: &str, element: &Value) -> Unreadable {
    Unreadable(format!("{of} has the element {element}"))
}

fn mark(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

fn address(value: &Value) -> Option<IpAddr> {
    value.as_str()?.parse().ok()
}

/// An element of a set of intervals; empty: it cannot be read.
fn networks(element: &Value) -> Vec<IpNet> {
    if let Some(address) = address(element) {
        return vec![IpNet::from(address)];
    }
    if let Some(prefix) = element.get("prefix") {
        let length = prefix["len"]
            .as_u64()
            .and_then(|length| u8::try_from(length).ok());
        let network = address(&prefix["addr"]).zip(length);
        return network
            .and_then(|(address, length)| IpNet::new(address, length).ok())
            .into_iter()
            .collect();
    }
    // Adjacent networks are shown as one range.
    match (address(&element["range"][0]), address(&element["range"][1])) {
        (Some(IpAddr::V4(first)), Some(IpAddr::V4(last))) => {
            Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect()
        }
        (Some(IpAddr::V6(first)), Some(IpAddr::V6(last))) => {
            Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
