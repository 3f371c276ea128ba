//! Faults of one run.

use proptest::prelude::*;

use super::TROUBLE;

/// The fate of one message; used up in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) there: u16,
    pub(super) back: u16,
    pub(super) arrives: bool,
    pub(super) returns: bool,
    /// How long the sender freezes after having sent it.
    pub(super) freezes: u16,
}

pub(super) const SMOOTH: Fate = Fate {
    there: 1,
    back: 1,
    arrives: true,
    returns: true,
    freezes: 0,
};

#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    Freeze {
        millis: u16,
    },
    Crash,
    GiveUp,
    MayContend(bool),
    /// Another client annotates the lease.
    Touch,
    /// Another client deletes it.
    Delete,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Milliseconds that each clock is off, and how many per cent it is slow or fast.
    pub(super) clocks: Vec<(i32, i8)>,
    pub(super) fates: Vec<Fate>,
    pub(super) troubles: Vec<(u64, prop::sample::Index, Trouble)>,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let delay = prop_oneof![6 => 0..100_u16, 2 => 0..3_000_u16, 1 => 0..20_000_u16];
    let fate = (
        delay.clone(),
        delay,
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.9),
        prop_oneof![20 => Just(0), 1 => 0..20_000_u16],
    );
    let fate = fate.prop_map(|(there, back, arrives, returns, freezes)| Fate {
        there,
        back,
        arrives,
        returns,
        freezes,
    });
    prop::collection::vec(fate, 1..200)
}

fn troubles() -> impl Strategy<Value = Vec<(u64, prop::sample::Index, Trouble)>> {
    let trouble = prop_oneof![
        4 => (0..40_000_u16).prop_map(|millis| Trouble::Freeze { millis }),
        2 => Just(Trouble::Crash),
        2 => Just(Trouble::GiveUp),
        1 => any::<bool>().prop_map(Trouble::MayContend),
        1 => Just(Trouble::Touch),
        1 => Just(Trouble::Delete),
    ];
    prop::collection::vec((0..TROUBLE, any::<prop::sample::Index>(), trouble), 0..20)
}

pub(super) fn plans() -> impl Strategy<Value = Plan> {
    let clocks = prop::collection::vec((-10_000_000..10_000_000_i32, -10..=10_i8), 2..=3);
    (clocks, fates(), troubles()).prop_map(|(clocks, fates, troubles)| Plan {
        clocks,
        fates,
        troubles,
    })
}
