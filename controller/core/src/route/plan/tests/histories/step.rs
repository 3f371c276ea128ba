//! The steps of a history.

use proptest::{collection::vec, prelude::*};

use super::{CIDRS, NODES};

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A Node registers with a machine and a Pod CIDR, or leaves if it is there.
    Toggle(usize, u8, usize),
    /// A Node is initialised: its provider ID and addresses are known.
    Initialize(usize),
    /// The leader's store receives the oldest event.
    Event,
    /// Another client makes a route, or deletes one.
    Other(usize, usize, u8, bool),
    ListBegins,
    /// The list is complete; it shows the cloud of its begin or of its end.
    ListEnds(bool),
    Reconcile(usize),
    /// A call is carried out; its result arrives, or does not.
    Arrive(usize, bool),
    /// A call fails.
    Fail(usize),
    /// The leader waits no longer for a call, which may still be carried out.
    TimeOut(usize),
    FailOver,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = 0..NODES.len();
    let destination = 0..CIDRS.len();
    let machine = 0_u8..8;
    let call = 0_usize..8;
    let step = prop_oneof![
        3 => (node.clone(), machine.clone(), destination.clone())
            .prop_map(|(node, machine, cidr)| Step::Toggle(node, machine, cidr)),
        3 => node.clone().prop_map(Step::Initialize),
        6 => Just(Step::Event),
        1 => (node, destination.clone(), machine, any::<bool>())
            .prop_map(|(node, cidr, machine, hole)| Step::Other(node, cidr, machine, hole)),
        2 => Just(Step::ListBegins),
        3 => any::<bool>().prop_map(Step::ListEnds),
        8 => destination.prop_map(Step::Reconcile),
        5 => (call.clone(), prop::bool::weighted(0.9))
            .prop_map(|(call, is_answered)| Step::Arrive(call, is_answered)),
        1 => call.clone().prop_map(Step::Fail),
        1 => call.prop_map(Step::TimeOut),
        1 => Just(Step::FailOver),
    ];
    vec(step, 1..120)
}
