//! What is going to happen: all of it follows from the seed.

use std::{fmt, time::Duration};

use fastrand::Rng;
use serde_json::{Value, json};

use super::{HELD, NODES, OWN_CLASS};

/// What a drill is made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) kills: usize,
    pub(super) services: usize,
}

impl fmt::Display for Plan {
    /// With all kills, and how to repeat it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            kills,
            services,
        } = self;
        writeln!(
            f,
            "OUTRIGGER_TEST_SEED={seed} OUTRIGGER_TEST_KILLS={kills} \
             OUTRIGGER_TEST_SERVICES={services} cargo test -p outrigger-controller --test it -- \
             churn::one"
        )?;
        for kill in self.kills() {
            write!(f, "after {:?} kill", kill.after)?;
            for (victim, away) in &kill.victims {
                write!(f, " {victim:?} (away {away:?})")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    Controller,
    Provider,
    ApiServer,
}

/// One moment.
#[derive(Debug)]
pub(super) struct Kill {
    /// Time since everybody was started again.
    pub(super) after: Duration,
    /// Who, and how long each is away at least; who comes back first stands first.
    pub(super) victims: Vec<(Victim, Duration)>,
}

impl Plan {
    /// Whether controllers elect a leader.
    pub(super) const fn elects(&self) -> bool {
        self.seed % 2 == 1
    }

    /// Of each three in a row, each victim is one; now and then a second one goes with it.
    pub(super) fn kills(&self) -> Vec<Kill> {
        const ALL: [Victim; 3] = [Victim::Controller, Victim::Provider, Victim::ApiServer];
        let mut random = self.random(0);
        let mut deck = Vec::new();
        let mut kills = Vec::new();
        for _ in 0..self.kills {
            if deck.is_empty() {
                deck.extend(ALL);
                random.shuffle(&mut deck);
            }
            let mut victims: Vec<_> = deck.pop().into_iter().collect();
            let second = ALL[random.usize(..3)];
            if random.u8(..5) == 0 && !victims.contains(&second) {
                victims.push(second);
            }
            let victims = victims.into_iter();
            let mut victims: Vec<_> = victims
                .map(|victim| (victim, millis(&mut random, 0..1_200)))
                .collect();
            victims.sort_by_key(|(_, away)| *away);
            // Whoever was killed has to become leader first.
            let least = if self.elects() { 2_500 } else { 300 };
            kills.push(Kill {
                after: millis(&mut random, least..least + 2_500),
                victims,
            });
        }
        kills
    }

    /// What one person does to a Service, without end.
    pub(super) fn acts(&self, number: usize) -> impl Iterator<Item = Act> + use<> {
        let mut random = self.random(1 + number as u64);
        // As many changes a second, however many make them.
        let longest = 30 + 75 * self.services as u64;
        std::iter::repeat_with(move || Act {
            pause: millis(&mut random, 30..longest),
            what: what(&mut random),
            shape: shape(&mut random),
        })
    }

    /// What becomes of the nodes, without end.
    pub(super) fn moves(&self) -> impl Iterator<Item = Move> + use<> {
        let mut random = self.random(1 << 32);
        std::iter::repeat_with(move || Move {
            pause: millis(&mut random, 100..1_500),
            node: format!("base-{:05}", random.usize(..NODES + 4)),
            what: [
                NodeChange::Join,
                NodeChange::Join,
                NodeChange::Leave,
                NodeChange::Exclude,
                NodeChange::Include,
                NodeChange::Doom,
            ][random.usize(..6)],
        })
    }

    fn random(&self, stream: u64) -> Rng {
        Rng::with_seed(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream)
    }
}

fn millis(random: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(random.u64(range))
}

/// One change by one person.
#[derive(Debug)]
pub(super) struct Act {
    pub(super) pause: Duration,
    pub(super) what: What,
    /// What the Service is made from, or which of its parts are changed to.
    pub(super) shape: Shape,
}

/// What is done to a Service that is there; one that is not is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Ports,
    SourceRanges,
    Annotations,
    Policy,
    Retype,
    Delete,
    /// Deleted, and made again under the same name as soon as that is free.
    Recreate,
    /// The same, from what was read of it, annotations and finalizers included.
    Copy,
    /// Our finalizer is taken away by hand.
    Strip,
    Pause,
    Resume,
    Resync,
}

fn what(random: &mut Rng) -> What {
    const WEIGHTS: [(What, u8); 12] = [
        (What::Ports, 4),
        (What::SourceRanges, 2),
        (What::Annotations, 3),
        (What::Policy, 2),
        (What::Retype, 3),
        (What::Delete, 2),
        (What::Recreate, 2),
        (What::Copy, 1),
        (What::Strip, 1),
        (What::Pause, 1),
        (What::Resume, 2),
        (What::Resync, 1),
    ];
    let all: u8 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
    let mut left = random.u8(..all);
    for (what, weight) in WEIGHTS {
        if left < weight {
            return what;
        }
        left -= weight;
    }
    unreachable!("the weights cover it")
}

/// How a Service may look.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) kind: &'static str,
    pub(super) ports: Value,
    pub(super) source_ranges: Value,
    pub(super) annotations: Value,
    pub(super) policy: &'static str,
    class: Option<&'static str>,
    families: &'static str,
    held: bool,
}

fn shape(random: &mut Rng) -> Shape {
    let mut one_of = |all: &[&'static str]| all[random.usize(..all.len())];
    let kind = one_of(&["LoadBalancer", "LoadBalancer", "LoadBalancer", "ClusterIP"]);
    let kind = if kind == "ClusterIP" {
        one_of(&["ClusterIP", "NodePort", "LoadBalancer"])
    } else {
        kind
    };
    let mode = one_of(&["ip", "ip", "vip", "proxy", "hostname"]);
    let provisioning = one_of(&["0s", "0s", "150ms", "600ms"]);
    let policy = one_of(&["Cluster", "Cluster", "Local"]);
    let families = one_of(&["SingleStack", "SingleStack", "PreferDualStack"]);
    let class = one_of(&["", "", "", "", OWN_CLASS, "other.example/lb"]);
    let ranges = one_of(&["", "10.0.0.0/8", "10.0.0.0/8 192.168.0.0/16"]);
    let unrelated = random.u8(..4).to_string();
    let mut ports = vec![
        json!({"name": "http", "port": 80}),
        json!({"name": "https", "port": 443}),
        json!({"name": "dns", "port": 53, "protocol": "UDP"}),
        json!({"name": "admin", "port": 8080}),
    ];
    random.shuffle(&mut ports);
    ports.truncate(random.usize(1..4));
    Shape {
        kind,
        ports: ports.into(),
        source_ranges: ranges.split_whitespace().collect(),
        annotations: json!({
            "mock.example/address-mode": mode,
            "mock.example/provisioning-time": provisioning,
            "example.com/unrelated": unrelated,
        }),
        policy,
        class: Some(class).filter(|class| !class.is_empty()),
        families,
        held: random.u8(..7) == 0,
    }
}

impl Shape {
    /// A Service of this shape.
    pub(super) fn service(&self, name: &str) -> Value {
        let mut spec = json!({
            "type": self.kind,
            "ports": self.ports,
            "selector": {"app": name},
            "ipFamilyPolicy": self.families,
        });
        let fields = spec.as_object_mut().unwrap();
        if self.kind != "ClusterIP" {
            fields.insert("externalTrafficPolicy".to_owned(), self.policy.into());
        }
        if self.kind == "LoadBalancer" {
            let ranges = self.source_ranges.clone();
            fields.insert("loadBalancerSourceRanges".to_owned(), ranges);
            if let Some(class) = self.class {
                fields.insert("loadBalancerClass".to_owned(), class.into());
            }
        }
        let finalizers: &[&str] = if self.held { &[HELD] } else { &[] };
        json!({
            "metadata": {
                "name": name,
                "annotations": self.annotations,
                "finalizers": finalizers,
            },
            "spec": spec,
        })
    }
}

/// One change of one node.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) pause: Duration,
    pub(super) node: String,
    pub(super) what: NodeChange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeChange {
    Join,
    Leave,
    /// By the label.
    Exclude,
    /// The label says that it is not.
    Include,
    /// By the cluster autoscaler's taint.
    Doom,
}
