//! The route table of the fake cloud.

mod table;

use std::net::IpAddr;

use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cidr::Cidr;
use crate::instances::Address;

pub use table::{RouteRefused, RouteTable};

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Route {
    /// Unique; follows from its tag, its destination and its target.
    pub name: String,
    /// Tag: UID of the cluster, or its name where that has none; absent: the route is of no cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The destination as it was written.
    pub destination: Cidr,
    /// Where it leads.
    pub target: RouteTarget,
    /// It leads nowhere.
    #[serde(default)]
    pub blackhole: bool,
    /// When it was made, by the cloud's clock.
    pub created_at: Timestamp,
}

/// Where a route leads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RouteTarget {
    /// Name of the node that it leads to
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Provider ID of the node
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// The address that packets are sent to
    #[arg(long, value_name = "IP")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<IpAddr>,
    /// The node's addresses when the route was made
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
}

impl RouteTarget {
    /// True if both lead to one place: the addresses besides the next hop do not count.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.node == other.node
            && self.provider_id == other.provider_id
            && self.next_hop == other.next_hop
    }

    /// True if nothing that is known of this place differs from another one.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        let same = |own: &str, other: &str| own.is_empty() || own == other;
        same(&self.node, &other.node)
            && same(&self.provider_id, &other.provider_id)
            && self.next_hop.is_none_or(|ip| other.next_hop == Some(ip))
    }
}

/// A route of a cluster that is to be made, or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSpec {
    /// Its name in the cloud; empty if that is not known, and before it is made.
    pub name: String,
    /// Tag: UID of the cluster, or its name where that has none.
    pub cluster: String,
    /// The Pod CIDR.
    pub destination: Cidr,
    /// Where it shall lead.
    pub target: RouteTarget,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instances::Address;

    const CLUSTER: &str = "c-1";

    fn wanted(destination: &str, node: &str) -> RouteSpec {
        RouteSpec {
            name: String::new(),
            cluster: CLUSTER.to_owned(),
            destination: destination.parse().unwrap(),
            target: RouteTarget {
                node: node.to_owned(),
                provider_id: format!("mock://{node}"),
                next_hop: Some([10, 0, 0, 1].into()),
                addresses: vec![Address::internal([10, 0, 0, 1].into())],
            },
        }
    }

    fn names(table: &RouteTable) -> Vec<&str> {
        table.iter().map(|route| route.name.as_str()).collect()
    }

    #[test]
    fn routes_of_others_stay() {
        let mut table = RouteTable::default();
        let mut foreign = |name: &str, cluster: Option<&str>| {
            let route = Route {
                name: name.to_owned(),
                cluster: cluster.map(str::to_owned),
                destination: "10.1.0.0/24".parse().unwrap(),
                target: RouteTarget::default(),
                blackhole: false,
                created_at: Timestamp::UNIX_EPOCH,
            };
            table.insert(route).unwrap();
        };
        foreign("theirs", Some("c-2"));
        foreign("untagged", None);
        let named = |name: &str| RouteSpec {
            name: name.to_owned(),
            ..wanted("10.1.0.0/24", "")
        };
        let refused = |name: &str| Err(RouteRefused::Foreign(name.to_owned()));
        assert_eq!(table.delete(&named("theirs"), true), refused("theirs"));
        assert_eq!(table.delete(&named("untagged"), false), refused("untagged"));
        let mut nameless = named("");
        nameless.target = RouteTarget::default();
        assert_eq!(table.delete(&nameless, false), Ok(None));
        assert!(table.delete(&named("untagged"), true).unwrap().is_some());
        assert_eq!(names(&table), ["theirs"]);
    }

    /// A table and a plain list of routes agree, whatever is put in, replaced and removed.
    #[test]
    fn the_indexes_agree() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut table = RouteTable::default();
        let mut plain: Vec<Route> = Vec::new();
        for _ in 0..2_000 {
            let name = format!("r-{}", random.u8(0..12));
            let destination = format!("10.1.{}.{}/24", random.u8(0..4), random.u8(0..2));
            let route = Route {
                name: name.clone(),
                cluster: None,
                destination: destination.parse().unwrap(),
                target: RouteTarget::default(),
                blackhole: random.bool(),
                created_at: Timestamp::UNIX_EPOCH,
            };
            let index = plain.iter().position(|one| one.name == name);
            match (random.u8(0..3), index) {
                (0, None) => plain.push(table.insert(route).unwrap().as_ref().clone()),
                (0, Some(_)) => drop(table.insert(route).unwrap_err()),
                (1, Some(at)) => plain[at] = table.replace(route).unwrap().as_ref().clone(),
                (1, None) => drop(table.replace(route).unwrap_err()),
                (_, index) => {
                    let removed = index.map(|at| plain.swap_remove(at));
                    assert_eq!(table.remove(&name).as_deref(), removed.as_ref());
                }
            }
            plain.sort_by(|a, b| a.name.cmp(&b.name));
            assert!(table.iter().map(AsRef::as_ref).eq(&plain));
            let to = destination.parse::<Cidr>().unwrap();
            let same = plain
                .iter()
                .filter(|one| one.destination.network() == to.network());
            assert!(table.to(to).map(AsRef::as_ref).eq(same));
        }
        let restored = RouteTable::restore(plain.clone()).unwrap();
        assert_eq!(restored, table);
        let twice = [plain.clone(), plain].concat();
        assert!(RouteTable::restore(twice).is_err());
    }
}
