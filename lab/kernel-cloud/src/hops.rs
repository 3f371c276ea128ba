//! Next hops: for each mark a rule and a routing table, so that a packet with the mark goes to a node as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::Deserialize;

use crate::kernel::{Failure, ip_batch, ip_list};
use crate::load_balancer::Family;
use crate::nft::MARK;

/// The protocol number of rules and routes that are this provider's.
pub(crate) const PROTOCOL: &str = "201";

/// Priority of the rules of marks, before the host's own table.
const PRIORITY: u32 = 21_320;

/// Rules and routes as the kernel has them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Observed {
    /// Marks with a rule.
    rules: BTreeSet<(Family, u32)>,
    /// Next hop of each table.
    routes: BTreeMap<(Family, u32), IpAddr>,
}

#[derive(Deserialize)]
struct Rule {
    #[serde(default)]
    fwmark: String,
}

#[derive(Deserialize)]
struct Route {
    #[serde(default)]
    table: String,
    gateway: Option<IpAddr>,
}

/// Makes rules and routes what `hops` says, and removes those of other marks.
///
/// A next hop that cannot be reached, since the link to it is down, has no route: packets for it are refused. It gets its
/// route with the next call.
pub(crate) async fn sync(hops: &BTreeMap<IpAddr, u32>) -> Result<(), Failure> {
    let changes = changes(hops, &observe().await?);
    for family in Family::ALL {
        let lines: Vec<_> = changes
            .iter()
            .filter_map(|line| line.strip_prefix(flag(family)))
            .map(|line| line.trim_start().to_owned())
            .collect();
        match ip_batch(&["-force", flag(family)], &lines).await {
            Err(error @ Failure::Failed { .. }) => {
                tracing::debug!(%error, "next hop not reachable");
            }
            ended => ended?,
        }
    }
    Ok(())
}

async fn observe() -> Result<Observed, Failure> {
    let mut observed = Observed::default();
    for family in Family::ALL {
        let rules: Vec<Rule> = ip_list(&[flag(family), "rule", "show"]).await?;
        observed.rules.extend(
            rules
                .iter()
                .filter_map(|rule| Some((family, mark(&rule.fwmark)?))),
        );
        let list = [
            flag(family),
            "route",
            "show",
            "table",
            "all",
            "proto",
            PROTOCOL,
        ];
        let routes: Vec<Route> = ip_list(&list).await?;
        let routes = routes.into_iter();
        observed.routes.extend(
            routes.filter_map(|route| Some(((family, mark(&route.table)?), route.gateway?))),
        );
    }
    Ok(observed)
}

/// A number, if it is a mark of this provider.
fn mark(text: &str) -> Option<u32> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().filter(|number| number & 0xffff_0000 == MARK)
}

/// The option of `ip` for one family.
pub(crate) fn flag(family: Family) -> &'static str {
    match family {
        Family::V4 => "-4",
        Family::V6 => "-6",
    }
}

/// Commands of `ip`, each after the option of its family. A packet whose next hop has no route is refused by the second route of its table.
fn changes(hops: &BTreeMap<IpAddr, u32>, observed: &Observed) -> Vec<String> {
    let desired: BTreeMap<_, _> = hops
        .iter()
        .map(|(address, mark)| ((Family::of(*address), *mark), *address))
        .collect();
    let mut lines = Vec::new();
    for (family, mark) in &observed.rules {
        if !desired.contains_key(&(*family, *mark)) {
            let ip = flag(*family);
            lines.push(format!(
                "{ip} rule delete fwmark {mark:#x} lookup {mark} priority {PRIORITY}"
            ));
            lines.push(format!("{ip} route flush table {mark}"));
        }
    }
    for (key @ (family, mark), address) in &desired {
        let ip = flag(*family);
        if !observed.rules.contains(key) {
            lines.push(format!(
                "{ip} route replace unreachable default table {mark} proto {PROTOCOL} metric 2000"
            ));
            lines.push(format!("{ip} rule add fwmark {mark:#x} lookup {mark} priority {PRIORITY} protocol {PROTOCOL}"));
        }
        if observed.routes.get(key) != Some(address) {
            lines.push(format!(
                "{ip} route replace default via {address} table {mark} proto {PROTOCOL} metric 1000"
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u32 = MARK + 1;

    fn hops(hops: &[(&str, u32)]) -> BTreeMap<IpAddr, u32> {
        hops.iter()
            .map(|(address, mark)| (address.parse().unwrap(), *mark))
            .collect()
    }

    #[test]
    fn a_route_that_went_with_its_link_is_made_again_and_nothing_else() {
        let observed = Observed {
            rules: BTreeSet::from([(Family::V6, ONE)]),
            routes: BTreeMap::new(),
        };
        assert_eq!(
            changes(&hops(&[("fd00::1", ONE)]), &observed),
            ["-6 route replace default via fd00::1 table 1330774017 proto 201 metric 1000"]
        );
    }

    #[test]
    fn rules_and_routes_of_others_are_no_marks() {
        for (text, expected) in [
            ("0x4f520001", Some(ONE)),
            ("1330774017", Some(ONE)),
            ("0x1", None),
            ("main", None),
            ("", None),
            ("0x4f530001", None),
        ] {
            assert_eq!(mark(text), expected, "{text}");
        }
    }
}
