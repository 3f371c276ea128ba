//! Addresses that a found instance no longer names, or names in another order: doubted as its absence would be.
//!
//! The guest agent of a machine restarts, a list of ports is empty for some minutes: the cloud still shows the machine,
//! with its host name alone. A kubelet that talks to the API server has an IP address all the same, and traffic goes to it.
//! So an address goes only once three answers over five minutes agree; another order needs two.
//!
//! The cloud-node loop keeps one [`AddressDoubt`] for each Node and lease term, passes each answer to
//! [`AddressDoubt::believe`] before it plans, and asks again at [`AddressDoubt::ask_at`].

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

use super::{HOSTNAME, INTERNAL_IP, without_repeats};
use crate::node::{NodeAddress, NodeView, Ready, instance::Instance, plan::NodeWarning};

/// Reason of the event about addresses that are kept.
pub const EVENT_ADDRESSES_KEPT: &str = "AddressesKept";

/// From the first to the last of the answers that have to agree.
const SPAN: SignedDuration = SignedDuration::from_mins(5);

/// Answers that have to agree until an address goes.
const ANSWERS_TO_DROP: i32 = 3;

/// Answers that have to agree until the order is another.
const ANSWERS_TO_REORDER: i32 = 2;

/// The doubt about the answers that find the instance of one Node. Default: none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AddressDoubt {
    unnamed: Option<Repeated>,
    reordered: Option<Repeated>,
    ask_at: Option<Timestamp>,
}

/// The same in each answer since a time.
#[derive(Debug, PartialEq, Eq)]
struct Repeated {
    said: Vec<NodeAddress>,
    since: Timestamp,
    answers: i32,
}

impl Repeated {
    fn count(last: &mut Option<Self>, now: Timestamp, said: Vec<NodeAddress>) -> &Self {
        let since = last.take().filter(|last| last.said == said);
        let (since, answers) = since.map_or((now, 0), |last| (last.since, last.answers));
        last.insert(Self {
            said,
            since,
            answers: answers.saturating_add(1),
        })
    }

    fn is_believed(&self, now: Timestamp, answers: i32) -> bool {
        self.answers >= answers && now.duration_since(self.since) >= SPAN
    }
}

/// The part of an answer that counts.
#[derive(Debug, PartialEq, Eq)]
pub struct BelievedAddresses {
    /// The addresses of the instance, those that are kept among them.
    pub addresses: Box<[NodeAddress]>,
    /// For the first answer that lacks some.
    pub warning: Option<NodeWarning>,
}

impl AddressDoubt {
    /// The addresses that count for `node` once `instance` is found as its machine. `given_elsewhere`: addresses
    /// among [`unnamed`] that the cloud names for another Node.
    ///
    /// The addresses of the view counted before: until the first answer of a lease term, those of the status.
    pub fn believe(
        &mut self,
        now: Timestamp,
        node: &NodeView,
        instance: &Instance,
        given_elsewhere: &[Box<str>],
    ) -> BelievedAddresses {
        self.ask_at = None;
        let mut kept = unnamed(node, instance);
        kept.retain(|address| !given_elsewhere.contains(&address.address));
        let mut warning = None;
        if kept.is_empty() || !instance.faulty_addresses.is_empty() {
            // A faulty address takes none from the Node, and has an event of its own.
            self.unnamed = None;
        } else {
            let repeated = Repeated::count(&mut self.unnamed, now, kept.clone());
            if repeated.is_believed(now, ANSWERS_TO_DROP) {
                kept.retain(|address| is_last_internal_ip(address, node, instance));
            } else {
                let steps = repeated.answers.min(ANSWERS_TO_DROP - 1);
                let part = SPAN / (ANSWERS_TO_DROP - 1) * steps;
                self.ask_at = repeated.since.checked_add(part).ok();
            }
            warning = (repeated.answers == 1).then(|| NodeWarning::addresses_kept(&kept));
        }
        let mut addresses = without_repeats(instance.addresses.to_vec()).into_vec();
        for (at, address) in before(node).iter().enumerate() {
            if kept.contains(address) {
                addresses.insert(at.min(addresses.len()), address.clone());
            }
        }
        self.order(now, before(node), &mut addresses);
        BelievedAddresses {
            addresses: addresses.into(),
            warning,
        }
    }

    /// Puts `addresses` that were there before into the order that they had, until another one is believed.
    fn order(&mut self, now: Timestamp, before: &[NodeAddress], addresses: &mut [NodeAddress]) {
        let among = |list: &[NodeAddress], other: &[NodeAddress]| -> Vec<_> {
            let both = list.iter().filter(|address| other.contains(address));
            both.cloned().collect()
        };
        let (said, had) = (among(addresses, before), among(before, addresses));
        if said == had {
            self.reordered = None;
            return;
        }
        let repeated = Repeated::count(&mut self.reordered, now, said);
        if !repeated.is_believed(now, ANSWERS_TO_REORDER) {
            let slots = addresses.iter_mut().filter(|one| before.contains(one));
            for (slot, address) in slots.zip(had) {
                *slot = address;
            }
        }
    }

    /// When the provider is asked about the Node again.
    pub const fn ask_at(&self) -> Option<Timestamp> {
        self.ask_at
    }

    /// Returns true if the answers lack `address`.
    pub fn is_about(&self, address: &str) -> bool {
        let mut unnamed = self.unnamed.iter().flat_map(|repeated| &repeated.said);
        unnamed.any(|one| &*one.address == address)
    }

    /// The cloud gives an address that this Node keeps to another Node: the provider is asked about this one now.
    pub const fn ask_now(&mut self, now: Timestamp) {
        self.ask_at = Some(now);
    }
}

/// Addresses of `node` that an answer with `instance` no longer names: it has none of their type and IP family.
///
/// An instance without any address says nothing about them (N-41), and host names of the kubelet stay (N-42).
pub fn unnamed(node: &NodeView, instance: &Instance) -> Vec<NodeAddress> {
    let named = &instance.addresses;
    if named.is_empty() {
        return Vec::new();
    }
    let is_unnamed = |address: &&NodeAddress| {
        let mut named = named.iter();
        &*address.kind != HOSTNAME && !named.any(|one| kind(one) == kind(address))
    };
    before(node).iter().filter(is_unnamed).cloned().collect()
}

/// The addresses that counted before; none of a Node that the cloud has not initialised, for it has only the kubelet's.
fn before(node: &NodeView) -> &[NodeAddress] {
    if node.is_uninitialized() {
        &[]
    } else {
        &node.addresses
    }
}

/// Type and IP family; none for a name.
fn kind(address: &NodeAddress) -> (&str, Option<bool>) {
    let ip = address.address.parse().ok();
    (&address.kind, ip.map(|ip: IpAddr| ip.is_ipv4()))
}

/// Returns true if a Node that is Ready would be without any `InternalIP`.
fn is_last_internal_ip(address: &NodeAddress, node: &NodeView, instance: &Instance) -> bool {
    let is_internal = |address: &NodeAddress| &*address.kind == INTERNAL_IP;
    node.ready == Ready::True && is_internal(address) && !instance.addresses.iter().any(is_internal)
}

impl NodeWarning {
    fn addresses_kept(kept: &[NodeAddress]) -> Self {
        let words = kept.iter();
        let words = words.map(|one| format!("{} {}", one.kind, one.address));
        let words = words.collect::<Vec<_>>().join(", ");
        let text = format!(
            "the cloud shows the instance without {words}: kept until three answers over five minutes agree; a Ready \
             Node keeps its last InternalIP"
        );
        Self::new(EVENT_ADDRESSES_KEPT, text)
    }
}

#[cfg(test)]
mod tests;
