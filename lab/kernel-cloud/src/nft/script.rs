//! From load balancers to commands of nftables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use super::{INTERNAL, MARK, Names, TABLE, Table};
use crate::load_balancer::{Family, Key, LoadBalancer};
use crate::pool::Pool;

/// A connection that has a next hop keeps it.
const KEPT: &str = "ct mark & 0xffff0000 == 0x4f520000 meta mark set ct mark";

/// Most clients whose target is remembered, for each Service and family.
const CLIENTS: u32 = 65_536;

/// Commands that make of `table` what it is to be: `after` for the load balancer of this key, `None` to remove it. Before one
/// that is made stands [`base`].
///
/// All targets of `after` are in `hops`, the marks of next hops.
pub fn script(
    table: &Table,
    key: &Key,
    after: Option<&LoadBalancer>,
    hops: &BTreeMap<IpAddr, u32>,
) -> String {
    let mut script = String::new();
    let before = table.balancers.get(key);
    for family in Family::ALL {
        let was = before.filter(|one| one.addresses.contains_key(&family));
        let is = after.filter(|one| one.addresses.contains_key(&family));
        let names = Names::of(key, family);
        if let Some(was) = was {
            withdraw(&mut script, &names, family, was, is);
        }
        if let Some(is) = is {
            for (address, mark) in hops
                .iter()
                .filter(|(address, _)| Family::of(**address) == family)
            {
                if !table.hops.contains_key(address) {
                    let n = family as u8;
                    let hop =
                        format!("add element inet {TABLE} hops{n} {{ {mark:#x} : {address} }}");
                    line(&mut script, &hop);
                }
            }
            publish(&mut script, key, &names, family, is, hops);
        }
    }
    script
}

fn line(script: &mut String, text: &str) {
    // A String takes everything.
    let _ = writeln!(script, "{text}");
}

/// The parts that all load balancers share. Repeated in each transaction, so that whatever was lost is back.
pub fn base(pool: &Pool, masquerade: bool, internal_links: &[String]) -> String {
    let mut script = format!("add table inet {TABLE}\n");
    let mut add = |text: &str| {
        line(
            &mut script,
            &text.replace("TABLE", &format!("inet {TABLE}")),
        );
    };
    for family in Family::ALL {
        let (n, kind) = (family as u8, kind(family));
        add(&format!("add map TABLE hops{n} {{ type mark : {kind}; }}"));
        add(&format!(
            "add map TABLE ports{n} {{ type {kind} . inet_proto . inet_service : verdict; }}"
        ));
        add(&format!("add set TABLE addresses{n} {{ type {kind}; }}"));
        add(&format!(
            "add set TABLE pool{n} {{ type {kind}; flags interval; }}"
        ));
        add(&format!("flush set TABLE pool{n}"));
        let ranges: Vec<_> = pool.ranges(family).map(ToString::to_string).collect();
        if !ranges.is_empty() {
            add(&format!(
                "add element TABLE pool{n} {{ {} }}",
                ranges.join(", ")
            ));
        }
    }
    for chain in ["refuse", INTERNAL, "balance"] {
        add(&format!("add chain TABLE {chain}"));
        add(&format!("flush chain TABLE {chain}"));
    }
    add("add rule TABLE refuse meta l4proto tcp reject with tcp reset");
    add("add rule TABLE refuse reject");
    for link in internal_links {
        add(&format!(
            "add rule TABLE {INTERNAL} iifname \"{link}\" return"
        ));
    }
    add(&format!("add rule TABLE {INTERNAL} goto refuse"));
    for (hook, kind) in [("prerouting", "filter"), ("output", "route")] {
        add(&format!(
            "add chain TABLE {hook} {{ type {kind} hook {hook} priority mangle; }}"
        ));
        add(&format!("flush chain TABLE {hook}"));
        add(&format!("add rule TABLE {hook} jump balance"));
    }
    for family in Family::ALL {
        let (n, ip) = (family as u8, header(family));
        add(&format!(
            "add rule TABLE balance {ip} daddr . meta l4proto . th dport vmap @ports{n}"
        ));
        // Errors about a connection, such as a packet that is too big, go where it goes.
        add(&format!(
            "add rule TABLE balance {ip} daddr @addresses{n} ct state related {KEPT} accept"
        ));
        add(&format!(
            "add rule TABLE balance {ip} daddr @pool{n} goto refuse"
        ));
    }
    add("add chain TABLE postrouting { type nat hook postrouting priority srcnat; }");
    add("flush chain TABLE postrouting");
    if masquerade {
        add(&format!(
            "add rule TABLE postrouting meta mark & 0xffff0000 == {MARK:#x} masquerade"
        ));
    }
    script
}

/// Takes back what goes, and what is made again by [`publish`].
fn withdraw(
    script: &mut String,
    names: &Names,
    family: Family,
    was: &LoadBalancer,
    is: Option<&LoadBalancer>,
) {
    let n = family as u8;
    let Some(address) = was.addresses.get(&family) else {
        return;
    };
    let mut add = |text: String| line(script, &text);
    let keeps_address = is.is_some_and(|is| is.addresses.get(&family) == Some(address));
    for (protocol, port) in &was.ports {
        if !keeps_address || is.is_some_and(|is| !is.ports.contains(&(*protocol, *port))) {
            add(format!(
                "delete element inet {TABLE} ports{n} {{ {address} . {protocol} . {port} }}"
            ));
        }
    }
    if !keeps_address {
        add(format!(
            "delete element inet {TABLE} addresses{n} {{ {address} }}"
        ));
    }
    // A part that was deleted by hand is made first.
    add(format!("add chain inet {TABLE} {}", names.chain));
    add(format!("flush chain inet {TABLE} {}", names.chain));
    if was.source_ranges.is_some() {
        add(format!("delete set inet {TABLE} {}", names.ranges));
    }
    if was.affinity.is_some() && is.is_none_or(|is| is.affinity != was.affinity) {
        add(format!("delete map inet {TABLE} {}", names.clients));
    }
    for set in [&names.targets, &names.healthy] {
        add(format!("add set inet {TABLE} {set} {{ type mark; }}"));
        add(format!("delete set inet {TABLE} {set}"));
    }
    if is.is_none() {
        add(format!("delete chain inet {TABLE} {}", names.chain));
    }
}

fn publish(
    script: &mut String,
    key: &Key,
    names: &Names,
    family: Family,
    is: &LoadBalancer,
    hops: &BTreeMap<IpAddr, u32>,
) {
    let (n, kind) = (family as u8, kind(family));
    let Some(address) = is.addresses.get(&family) else {
        return;
    };
    let mut add = |text: String| line(script, &text);
    if let Some(ranges) = &is.source_ranges {
        add(format!(
            "add set inet {TABLE} {} {{ type {kind}; flags interval; }}",
            names.ranges
        ));
        let ranges = ranges
            .iter()
            .filter(|range| Family::of(range.addr()) == family);
        let ranges: Vec<_> = ranges.map(ToString::to_string).collect();
        if !ranges.is_empty() {
            add(format!(
                "add element inet {TABLE} {} {{ {} }}",
                names.ranges,
                ranges.join(", ")
            ));
        }
    }
    if let Some(seconds) = is.affinity {
        add(format!(
            "add map inet {TABLE} {} {{ type {kind} : mark; flags dynamic,timeout; timeout {seconds}s; size {CLIENTS}; }}",
            names.clients
        ));
    }
    let targets = is
        .targets
        .iter()
        .filter(|(address, _)| Family::of(**address) == family);
    let targets: Vec<_> = targets
        .filter_map(|(address, target)| Some((hops.get(address)?, target)))
        .collect();
    let healthy: Vec<_> = targets
        .iter()
        .filter(|(_, target)| target.healthy)
        .map(|(mark, _)| format!("{mark:#x}"))
        .collect();
    for set in [&names.targets, &names.healthy] {
        add(format!("add set inet {TABLE} {set} {{ type mark; }}"));
    }
    for (mark, target) in &targets {
        add(format!(
            "add element inet {TABLE} {} {{ {mark:#x} comment \"{}\" }}",
            names.targets, target.node
        ));
    }
    if !healthy.is_empty() {
        add(format!(
            "add element inet {TABLE} {} {{ {} }}",
            names.healthy,
            healthy.join(", ")
        ));
    }
    add(format!("add chain inet {TABLE} {}", names.chain));
    for rule in rules(names, family, is, &healthy) {
        add(format!("add rule inet {TABLE} {} {rule}", names.chain));
    }
    add(format!(
        "add element inet {TABLE} addresses{n} {{ {address} comment \"{}/{}\" }}",
        key.cluster, key.service
    ));
    for (protocol, port) in &is.ports {
        add(format!(
            "add element inet {TABLE} ports{n} {{ {address} . {protocol} . {port} : goto {} }}",
            names.chain
        ));
    }
}

/// The rules of the chain of a load balancer.
fn rules(names: &Names, family: Family, is: &LoadBalancer, healthy: &[String]) -> Vec<String> {
    let ip = header(family);
    let mut rules = vec![format!("counter comment \"{}\"", is.name)];
    if is.internal {
        rules.push(format!("jump {INTERNAL} comment \"{INTERNAL}\""));
    }
    if is.source_ranges.is_some() {
        rules.push(format!("{ip} saddr != @{} drop", names.ranges));
    }
    let health = is.health.as_ref();
    let health = health.map(|check| format!(" comment \"health {check}\""));
    rules.push(format!(
        "ct state != new {KEPT} accept{}",
        health.unwrap_or_default()
    ));
    if healthy.is_empty() {
        rules.push("goto refuse".to_owned());
        return rules;
    }
    // A connection that has no answer yet stays at its target only while that is healthy.
    rules.push(KEPT.to_owned());
    if is.affinity.is_some() {
        rules.push(format!("meta mark set {ip} saddr map @{}", names.clients));
        // An update of an element would keep the target that has gone.
        rules.push(format!(
            "meta mark != @{} delete @{} {{ {ip} saddr : meta mark }}",
            names.healthy, names.clients
        ));
    }
    let choices: Vec<_> = healthy
        .iter()
        .enumerate()
        .map(|(index, mark)| format!("{index} : {mark}"))
        .collect();
    rules.push(format!(
        "meta mark != @{} meta mark set numgen inc mod {} map {{ {} }}",
        names.healthy,
        choices.len(),
        choices.join(", ")
    ));
    if let Some(seconds) = is.affinity {
        rules.push(format!(
            "update @{} {{ {ip} saddr timeout {seconds}s : meta mark }}",
            names.clients
        ));
    }
    rules.push("ct mark set meta mark accept".to_owned());
    rules
}

impl Table {
    /// Returns whether each chain of a load balancer, and those of all, have as many rules as they are to have.
    pub(crate) fn has_rules_of(&self, key: &Key, masquerade: bool) -> bool {
        let Some(balancer) = self.balancers.get(key) else {
            return true;
        };
        let of_all = [
            ("prerouting", 1),
            ("output", 1),
            ("balance", 6),
            ("refuse", 2),
            ("postrouting", usize::from(masquerade)),
        ];
        let is_whole = |(chain, count): &(&str, usize)| {
            self.rules.get(*chain).copied().unwrap_or_default() == *count
        };
        if !of_all.iter().all(is_whole) || !self.rules.contains_key(INTERNAL) {
            return false;
        }
        balancer.addresses.keys().all(|family| {
            let names = Names::of(key, *family);
            let healthy = balancer
                .targets
                .iter()
                .filter(|(address, target)| target.healthy && Family::of(**address) == *family);
            let healthy: Vec<_> = healthy.map(|(address, _)| address.to_string()).collect();
            let expected = rules(&names, *family, balancer, &healthy).len();
            self.rules.get(&names.chain) == Some(&expected)
        })
    }
}

/// The type of addresses in nftables.
fn kind(family: Family) -> String {
    format!("{}_addr", family.protocol())
}

/// The name of the header in nftables.
fn header(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}
