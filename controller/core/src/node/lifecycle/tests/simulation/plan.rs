//! Faults of one run.

use proptest::{collection::vec, prelude::*, sample::Index};

use super::{TROUBLE, controller::REFRESH};

/// The shapes of a cloud's provider IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ids {
    /// No id comes twice, and the kubelet sets it when it registers.
    OfKubelets,
    /// No id comes twice, and the cloud-node loop sets it some seconds later.
    OfInitialisation,
    /// The id is made from the name: a machine that is made again has the old one.
    Names,
    /// There are none.
    None,
}

/// The fate of one question; used up in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) kind: Kind,
    /// Seconds until the cloud is asked, and until the answer is there.
    pub(super) there: u8,
    pub(super) back: u8,
    /// Seconds that the next news from the API server takes.
    pub(super) lag: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The cloud's state at one instant of the call.
    Right,
    /// Its state so many seconds ago, from a cache.
    Stale(u16),
    /// A wrong absence that does not claim to be certain.
    NotVisible,
    /// Another instance than was asked for.
    Mistaken,
    NotManaged,
    /// An error, or a batch without this node.
    Error,
}

pub(super) const SMOOTH: Fate = Fate {
    kind: Kind::Right,
    there: 1,
    back: 0,
    lag: 0,
};

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The machine is deleted for good.
    Vanish,
    /// It is there again under its name, another machine or not.
    Recreate,
    Stop,
    Start,
    /// It has another address.
    Move,
    /// Its kubelet is not heard for so many seconds.
    Cut(u16),
    /// Its kubelet says that it is not ready.
    Sick(u16),
    /// An operator pauses the node, or resumes it.
    Pause(bool),
    /// Another client deletes the Node.
    Delete,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) nodes: usize,
    pub(super) ids: Ids,
    pub(super) confirm: u32,
    /// Seconds until a young node may be deleted.
    pub(super) visible: u64,
    /// Seconds between two snapshots of the other loop.
    pub(super) refresh: u64,
    pub(super) foreign_prefix_seen: bool,
    /// Seconds that a machine has to be stopped; 0: its node is never taken out of service.
    pub(super) out_of_service_after: u64,
    pub(super) fates: Vec<Fate>,
    pub(super) events: Vec<(u64, Index, Event)>,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let kind = prop_oneof![
        12 => Just(Kind::Right),
        2 => (0..120_u16).prop_map(Kind::Stale),
        2 => Just(Kind::NotVisible),
        1 => Just(Kind::Mistaken),
        1 => Just(Kind::NotManaged),
        2 => Just(Kind::Error),
    ];
    let delay = || prop_oneof![2 => 0..2_u8, 2 => 0..8_u8, 2 => 0..60_u8];
    let lag = prop_oneof![4 => Just(0_u8), 1 => 0..6_u8];
    let fate = (kind, delay(), delay(), lag).prop_map(|(kind, there, back, lag)| Fate {
        kind,
        there,
        back,
        lag,
    });
    vec(fate, 1..60)
}

fn events() -> impl Strategy<Value = Vec<(u64, Index, Event)>> {
    let event = prop_oneof![
        6 => Just(Event::Vanish),
        6 => Just(Event::Recreate),
        2 => Just(Event::Stop),
        2 => Just(Event::Start),
        1 => Just(Event::Move),
        3 => (0..200_u16).prop_map(Event::Cut),
        2 => (0..60_u16).prop_map(Event::Sick),
        1 => any::<bool>().prop_map(Event::Pause),
        2 => Just(Event::Delete),
    ];
    // Two changes of one machine in quick succession: a late answer misses the second.
    let episode = (0..TROUBLE, any::<Index>(), vec((0..20_u64, event), 1..6));
    vec(episode, 0..25).prop_map(|episodes| {
        let mut events = Vec::new();
        for (mut at, index, episode) in episodes {
            for (pause, event) in episode {
                at += pause;
                events.push((at, index, event));
            }
        }
        events
    })
}

pub(super) fn plans() -> impl Strategy<Value = Plan> {
    let ids = prop_oneof![
        Just(Ids::OfKubelets),
        Just(Ids::OfInitialisation),
        Just(Ids::Names),
        Just(Ids::None),
    ];
    (
        3..10_usize,
        ids,
        1..3_u32,
        prop_oneof![Just(0_u64), Just(60)],
        prop_oneof![2 => Just(REFRESH), 1 => 4..20_u64],
        prop::bool::weighted(0.2),
        prop_oneof![Just(0_u64), 1..60_u64],
        fates(),
        events(),
    )
        .prop_map(
            |(
                nodes,
                ids,
                confirm,
                visible,
                refresh,
                foreign_prefix_seen,
                out_of_service_after,
                fates,
                events,
            )| Plan {
                nodes,
                ids,
                confirm,
                visible,
                refresh,
                foreign_prefix_seen,
                out_of_service_after,
                fates,
                events,
            },
        )
}
