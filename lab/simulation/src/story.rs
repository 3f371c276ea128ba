//! Stories: short courses of events without chance, and the faults that are tried at each write, call and event of one.
//!
//! ```text
//!  0 s: three machines, two Services ─► 60 s: the acts of the story ─► all is as users want it
//!                                         └─► each write, call and event of the leader from here on × each fault
//! ```
//!
//! Until the fault begins, a run is the same as without it.

use std::time::Duration;

use outrigger_provider_mock::instances::Power;
use serde_json::{Value, json};

use crate::{
    fault::{Begin, Declared, Fault, Kind, OCCASIONS, Occasion, Occasions, Once, Wrong},
    maintenance,
    people::{EXCLUDED, POOL, People, SELECTOR, SELECTORS},
    volumes::HANDLES,
};

/// When the acts of a story begin: all is as users want it.
pub const ACTS: Duration = Duration::from_mins(1);

/// A course of events.
#[derive(Debug)]
pub struct Story {
    /// Its name.
    pub name: &'static str,
    /// Each with its time, in seconds after [`ACTS`].
    pub acts: &'static [(u64, Act)],
    /// Providers declare this from [`ACTS`] on, for half a minute.
    pub declares: Option<Declared>,
}

/// Something that people do, with the time.
pub type Act = fn(&mut People, Duration);

const fn story(name: &'static str, acts: &'static [(u64, Act)]) -> Story {
    Story {
        name,
        acts,
        declares: None,
    }
}

/// The main stories of all loops.
pub const STORIES: &[Story] = &[
    story("service-comes", &[(0, |people, _| people.make_service(2))]),
    story(
        "service-edited",
        &[
            (0, |people, _| people.edit_service(0, &port(99))),
            (3, |people, _| people.edit_service(0, &port(98))),
            (9, |people, _| people.edit_service(0, &ranges())),
        ],
    ),
    story(
        "service-released",
        &[
            (0, |people, _| people.edit_service(0, &of_type("ClusterIP"))),
            (9, |people, _| {
                people.edit_service(0, &of_type("LoadBalancer"));
            }),
        ],
    ),
    story(
        "service-made-again",
        &[
            (0, |people, _| people.delete_service(0)),
            (8, |people, _| people.make_service(0)),
        ],
    ),
    story(
        "service-selects",
        &[
            (0, |people, _| people.edit_service(0, &selecting())),
            (2, |people, _| people.label(1, POOL, Some("a"))),
            (8, |people, _| people.label(1, POOL, None)),
            (16, |people, _| people.label(2, POOL, Some("a"))),
        ],
    ),
    story(
        "node-joins",
        &[
            (0, |people, _| people.boot(3)),
            (4, |people, now| people.register(now, 3)),
        ],
    ),
    story(
        "node-leaves",
        &[
            (0, |people, _| people.remove_machine(1)),
            (40, |people, _| people.report(1, "Unknown")),
        ],
    ),
    story(
        "node-replaced",
        &[
            (0, |people, _| people.replace(1)),
            (3, |people, now| people.register(now, 1)),
        ],
    ),
    story(
        "node-excluded",
        &[
            (0, |people, _| people.label(1, EXCLUDED, Some("true"))),
            (3, |people, _| people.label(2, EXCLUDED, Some("true"))),
            (6, |people, _| people.label(1, EXCLUDED, None)),
        ],
    ),
    story(
        "machine-stops",
        &[
            (0, |people, _| people.switch(1, Power::Shutdown)),
            (40, |people, _| people.report(1, "Unknown")),
            (50, |people, _| people.switch(2, Power::Shutdown)),
            (90, |people, _| people.switch(1, Power::Running)),
            (90, |people, _| people.report(2, "Unknown")),
            (95, |people, now| people.register(now, 1)),
        ],
    ),
    story(
        "volume-comes",
        &[
            (0, |people, _| people.make_volume(0, HANDLES[0], false)),
            (0, |people, _| people.make_volume(1, HANDLES[1], false)),
            (3, |people, _| people.make_volume(2, HANDLES[0], true)),
            (3, |people, _| people.make_volume(3, HANDLES[2], false)),
        ],
    ),
    story(
        "status-overwritten",
        &[
            (0, |people, _| people.overwrite_status(0)),
            (20, |people, _| people.overwrite_status(0)),
        ],
    ),
    story(
        "maintenance",
        &[
            (0, |people, _| people.announce(1, maintenance::due_in(30))),
            (20, |people, _| people.announce(2, maintenance::due_in(30))),
            (400, |people, _| people.announce(1, None)),
        ],
    ),
    Story {
        name: "provider-upgraded",
        acts: &[(5, |people, _| people.make_service(2))],
        declares: Some(Declared::OtherRevision),
    },
];

fn port(number: u16) -> Value {
    json!({"spec": {"ports": [{"name": "a", "port": number, "protocol": "TCP"}]}})
}

fn ranges() -> Value {
    json!({"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}})
}

fn of_type(name: &str) -> Value {
    json!({"spec": {"type": name}})
}

fn selecting() -> Value {
    json!({"metadata": {"annotations": {SELECTOR: SELECTORS[0]}}})
}

impl Story {
    /// The story of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        STORIES.iter().find(|story| story.name == name)
    }
}

/// The faults that are tried at each occasion of a kind, with their names. Each is of the leader's Pod.
#[must_use]
pub fn faults_at(occasion: Occasion) -> Vec<(&'static str, Fault)> {
    let fault = |kind, after, lasts| Fault {
        round: 0,
        // Its occasion is set by `fault`.
        begins: Begin::With(occasion, 0, Duration::from_millis(after)),
        lasts: Duration::from_secs(lasts),
        kind,
    };
    let mut faults = vec![
        ("kill", fault(Kind::Kill(0), 0, 3)),
        ("kill-later", fault(Kind::Kill(0), 20, 3)),
        ("freeze", fault(Kind::Freeze(0), 0, 40)),
        ("terminate", fault(Kind::Terminate(0), 0, 1)),
        ("kill-provider", fault(Kind::KillProvider(0), 0, 3)),
    ];
    let once = |once| fault(Kind::Once(once), 0, 1);
    match occasion {
        Occasion::Write(_) => faults.extend([
            ("lost-request", once(Once::Write(Wrong::LostRequest))),
            ("lost-answer", once(Once::Write(Wrong::LostAnswer))),
            ("conflict", once(Once::Write(Wrong::Refused(409)))),
            ("too-many-requests", once(Once::Write(Wrong::Refused(429)))),
            ("late", once(Once::Write(Wrong::Late))),
        ]),
        Occasion::Call(_) => faults.extend([
            ("freeze-provider", fault(Kind::FreezeProvider(0), 0, 25)),
            (
                "slow-cloud",
                fault(Kind::SlowCloud(Duration::from_secs(20)), 0, 60),
            ),
        ]),
        Occasion::Event(_) => faults.extend([
            ("cut", once(Once::Cut)),
            ("late", once(Once::LateEvent(Duration::from_secs(20)))),
            ("omitted", fault(Kind::Relist(0), 0, 10)),
            (
                "list-from-the-past",
                fault(Kind::Requests(0, Wrong::Behind(5), 1.0), 0, 5),
            ),
        ]),
    }
    faults
}

/// The kind of occasion that `at` names: `write/services/2` is the second write of a Service.
#[must_use]
pub fn occasion(at: &str) -> Option<Occasion> {
    let (kind, _) = at.rsplit_once('/')?;
    occasions().find(|one| name_of(*one) == kind)
}

/// The fault of this name at the occasion that `at` names.
#[must_use]
pub fn fault(at: &str, name: &str) -> Option<Fault> {
    let (_, nth) = at.rsplit_once('/')?;
    let (_, mut fault) = faults_at(occasion(at)?)
        .into_iter()
        .find(|(its, _)| *its == name)?;
    if let Begin::With(_, number, _) = &mut fault.begins {
        *number = nth.parse().ok()?;
    }
    Some(fault)
}

/// The occasions of a story, from the counts before its acts to those at its end, as [`fault`] takes them.
#[must_use]
pub fn occasions_between(before: &Occasions, end: &Occasions) -> Vec<String> {
    let count = |all: &Occasions, occasion| all.get(&occasion).copied().unwrap_or(0);
    let each = occasions().flat_map(|occasion| {
        let numbers = count(before, occasion) + 1..=count(end, occasion);
        numbers.map(move |nth| format!("{}/{nth}", name_of(occasion)))
    });
    each.collect()
}

/// All kinds of work and news of a leader.
fn occasions() -> impl Iterator<Item = Occasion> {
    const EVENTS: [&str; 4] = [
        "nodes",
        "services",
        "certificatesigningrequests",
        "persistentvolumes",
    ];
    let work = OCCASIONS.into_iter().map(|(occasion, _)| occasion);
    work.chain(EVENTS.into_iter().map(Occasion::Event))
}

fn name_of(occasion: Occasion) -> String {
    match occasion {
        Occasion::Write(kind) => format!("write/{kind}"),
        Occasion::Call(operation) => format!("call/{operation}"),
        Occasion::Event(kind) => format!("event/{kind}"),
    }
}
