//! The disruptions of a drill: which, in which order, and for how long. All of it follows from the
//! seed.

use std::{fmt, str::FromStr, time::Duration};

use fastrand::Rng;
use outrigger_provider_mock::faults::Method;

/// Kinds of disruptions. `OUTRIGGER_TEST_FAULTS` names those that a drill uses, separated by commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// `kill -9` of controller, provider and API server.
    Kills,
    /// SIGTERM of the controller in the middle of work.
    Stops,
    /// The provider declares something else for a while.
    Declarations,
    /// The provider makes other load balancers from the same Services, or Services lose the record of
    /// what theirs was made from.
    Configuration,
    /// The provider is stopped and continued, or its connections are closed.
    Connections,
    /// The provider's program lacks a method.
    Methods,
    /// Rights are taken away from the controller and given back.
    Rights,
    /// Routes in the cloud are changed behind the provider's back.
    Routes,
    /// Nodes and Services with values that Go's decoder accepts and few others do.
    Objects,
}

impl Family {
    pub(super) const ALL: [Self; 9] = [
        Self::Kills,
        Self::Stops,
        Self::Declarations,
        Self::Configuration,
        Self::Connections,
        Self::Methods,
        Self::Rights,
        Self::Routes,
        Self::Objects,
    ];
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let families = Self::ALL.into_iter();
        let mut families = families.map(|family| (family, format!("{family:?}").to_lowercase()));
        let family = families.find(|(_, name)| name == text.trim());
        family
            .map(|(family, _)| family)
            .ok_or_else(|| format!("{text:?} is none of {:?}", Self::ALL).to_lowercase())
    }
}

/// Which process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    Controller,
    Provider,
    ApiServer,
}

/// Declarations of a provider that differ from the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Declaration {
    WithoutClass,
    WithoutDefaultClass,
    WithOtherClass,
    OneServicePerUpdate,
    OneNodePerLookup,
    OtherAnnotations,
    OneRoutePerBatch,
}

/// How a user of the cloud changes its route table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meddling {
    /// A route of the cluster to a machine that no Node has.
    Add,
    Remove,
    Blackhole,
    /// It leads to another machine.
    Redirect,
}

/// One disruption.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    /// Each stays away at least so long; the order is the one in which they come back.
    Kill(Vec<(Victim, Duration)>),
    Terminate,
    Declare(Declaration, Duration),
    /// Another `configuration_revision`, while an Ensure takes so long.
    Reconfigure(Duration),
    /// The records of all Services are lost, while an Ensure takes so long.
    Forget(Duration),
    /// SIGSTOP, and SIGCONT so much later.
    Freeze(Duration),
    /// Connections are closed, and new ones left unanswered for so long.
    Disconnect(Duration),
    /// UNIMPLEMENTED without a reason, as a server without the method answers, for so long.
    Lack(Method, Duration),
    /// A route is changed, the so many-th.
    Meddle(Meddling, usize),
    /// The controller may not use this resource for so long.
    Revoke(&'static str, Duration),
}

/// One disruption, and how long after the end of the last one it begins.
#[derive(Debug)]
pub(super) struct Disruption {
    pub(super) after: Duration,
    pub(super) what: What,
}

impl fmt::Display for Disruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {:?} {:?}", self.after, self.what)
    }
}

/// So many disruptions of these families; each family comes once before one comes again.
pub(super) fn disruptions(
    random: &mut Rng,
    families: &[Family],
    count: usize,
    elects: bool,
) -> Vec<Disruption> {
    let mut deck = Vec::new();
    let mut victims = Vec::new();
    let mut all = Vec::new();
    // Objects are the work of those who edit Nodes and Services.
    let families = families.iter().filter(|family| **family != Family::Objects);
    let families: Vec<_> = families.copied().collect();
    while all.len() < count && !families.is_empty() {
        if deck.is_empty() {
            deck.extend(&families);
            random.shuffle(&mut deck);
        }
        let Some(family) = deck.pop() else { break };
        // A standby has to become leader first.
        let least = if elects { 1_500 } else { 300 };
        all.push(Disruption {
            after: millis(random, least..least + 2_000),
            what: what(random, family, &mut victims),
        });
    }
    all
}

fn what(random: &mut Rng, family: Family, victims: &mut Vec<Victim>) -> What {
    match family {
        Family::Kills => kill(random, victims),
        Family::Stops => What::Terminate,
        Family::Declarations => {
            const ALL: [Declaration; 9] = [
                Declaration::WithoutClass,
                Declaration::WithoutClass,
                Declaration::WithoutDefaultClass,
                Declaration::WithoutDefaultClass,
                Declaration::WithOtherClass,
                Declaration::OneServicePerUpdate,
                Declaration::OneNodePerLookup,
                Declaration::OtherAnnotations,
                Declaration::OneRoutePerBatch,
            ];
            What::Declare(ALL[random.usize(..ALL.len())], millis(random, 1_000..4_000))
        }
        Family::Configuration => {
            if random.bool() {
                What::Reconfigure(millis(random, 6_000..8_000))
            } else {
                // Two at a time: the second pair waits longer than an edit may.
                What::Forget(millis(random, 25_000..27_000))
            }
        }
        Family::Connections => match random.u8(..8) {
            // Until the controller gives the connection up.
            0 => What::Freeze(Duration::from_secs(25)),
            1..4 => What::Freeze(millis(random, 500..4_000)),
            _ => What::Disconnect(millis(random, 2_500..5_000)),
        },
        Family::Methods => {
            const ALL: [Method; 12] = [
                Method::EnsureLoadBalancer,
                Method::UpdateLoadBalancerNodes,
                Method::DeleteLoadBalancer,
                Method::GetLoadBalancer,
                Method::SyncNodeSet,
                Method::BatchGetInstances,
                Method::ListInstances,
                Method::ListRoutes,
                Method::BatchCreateRoutes,
                Method::BatchDeleteRoutes,
                Method::GetStatus,
                Method::Handshake,
            ];
            What::Lack(ALL[random.usize(..ALL.len())], millis(random, 500..3_000))
        }
        Family::Rights => {
            const ALL: [&str; 6] = [
                "services/status",
                "services",
                "nodes",
                "nodes/status",
                "events",
                "leases",
            ];
            What::Revoke(ALL[random.usize(..ALL.len())], millis(random, 1_000..4_000))
        }
        Family::Routes => {
            const ALL: [Meddling; 4] = [
                Meddling::Add,
                Meddling::Remove,
                Meddling::Blackhole,
                Meddling::Redirect,
            ];
            What::Meddle(ALL[random.usize(..ALL.len())], random.usize(..1_000))
        }
        Family::Objects => unreachable!("objects are no disruption of their own"),
    }
}

/// Chooses the next victim. Each victim occurs once in three choices; now and then a second one is killed with it.
fn kill(random: &mut Rng, deck: &mut Vec<Victim>) -> What {
    const ALL: [Victim; 3] = [Victim::Controller, Victim::Provider, Victim::ApiServer];
    if deck.is_empty() {
        deck.extend(ALL);
        random.shuffle(deck);
    }
    let mut victims: Vec<_> = deck.pop().into_iter().collect();
    let second = ALL[random.usize(..3)];
    if random.u8(..5) == 0 && !victims.contains(&second) {
        victims.push(second);
    }
    let victims = victims.into_iter();
    let mut victims: Vec<_> = victims
        .map(|victim| (victim, millis(random, 0..1_200)))
        .collect();
    victims.sort_by_key(|(_, away)| *away);
    What::Kill(victims)
}

pub(super) fn millis(random: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(random.u64(range))
}
