//! The table of nftables that all load balancers are in.
//!
//! [`Table`] is what the kernel has; [`script`] turns it into what it should have, in one transaction.

mod script;
mod table;

pub use script::{base, script};
pub use table::{Table, Unreadable};

use crate::load_balancer::{Family, Key};

/// Name of the table, of the family inet.
pub const TABLE: &str = "outrigger";

/// Upper half of the marks of packets, of connections and of routing tables that are this provider's: "OR". A lower half
/// numbers the next hop.
pub const MARK: u32 = 0x4f52_0000;

/// The chain that only clients on the machines' side come through, and the comment of the rule that leads there.
const INTERNAL: &str = "internal";

/// The names of the objects of one load balancer and family.
#[derive(Debug)]
struct Names {
    /// The chain to which its ports lead.
    chain: String,
    /// All targets: marks of next hops, with the name of the Node as a comment.
    targets: String,
    /// The targets that new connections go to.
    healthy: String,
    /// Source ranges; there where they are limited.
    ranges: String,
    /// The target of each client; there with session affinity.
    clients: String,
}

impl Names {
    fn of(key: &Key, family: Family) -> Self {
        let name = |kind: &str| format!("{kind}/{}/{}/{}", key.cluster, key.service, family as u8);
        Self {
            chain: name("lb"),
            targets: name("targets"),
            healthy: name("healthy"),
            ranges: name("ranges"),
            clients: name("clients"),
        }
    }

    /// The kind, load balancer and family of a name.
    fn parse(name: &str) -> Option<(&str, Key, Family)> {
        let mut parts = name.split('/');
        let (kind, cluster, service) = (parts.next()?, parts.next()?, parts.next()?);
        let family = Family::ALL
            .into_iter()
            .find(|family| parts.clone().eq([(*family as u8).to_string()]))?;
        let key = Key {
            cluster: cluster.to_owned(),
            service: service.to_owned(),
        };
        Some((kind, key, family))
    }
}
