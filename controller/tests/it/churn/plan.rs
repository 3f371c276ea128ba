//! The events to come: all of them follow from the seed.

use std::{fmt, time::Duration};

use fastrand::Rng;
use ipnet::IpNet;
use serde_json::{Value, json};

use super::{
    HELD, OTHER_CLASS, OWN_CLASS,
    disruption::{Disruption, Family, disruptions, millis},
};

/// The inputs of a drill.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) disruptions: usize,
    pub(super) services: usize,
    /// Nodes that are there from the start.
    pub(super) nodes: usize,
    pub(super) families: Vec<Family>,
    /// The churn ends after this time, not after so many disruptions.
    pub(super) lasts: Option<Duration>,
    /// How many times longer all pauses are.
    pub(super) slower: u32,
}

impl fmt::Display for Plan {
    /// With all disruptions, and how to repeat it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let families = self.families.iter();
        let families: Vec<_> = families
            .map(|family| format!("{family:?}").to_lowercase())
            .collect();
        let (minutes, test) = self.lasts.map_or_else(
            || (String::new(), "one"),
            |time| {
                (
                    format!("OUTRIGGER_TEST_MINUTES={} ", time.as_secs() / 60),
                    "soak",
                )
            },
        );
        writeln!(
            f,
            "{minutes}OUTRIGGER_TEST_SEED={} OUTRIGGER_TEST_DISRUPTIONS={} OUTRIGGER_TEST_SERVICES={} \
             OUTRIGGER_TEST_NODES={} OUTRIGGER_TEST_FAULTS={} cargo test -p outrigger-controller --test it -- churn::{test}",
            self.seed,
            self.disruptions,
            self.services,
            self.nodes,
            families.join(","),
        )?;
        // Those of hours follow from the seed too.
        for disruption in self.disruptions().iter().take(200) {
            writeln!(f, "{disruption}")?;
        }
        Ok(())
    }
}

impl Plan {
    /// True if the controllers elect a leader.
    pub(super) const fn elects(&self) -> bool {
        self.seed % 2 == 1
    }

    /// `--concurrent-service-syncs`. Controllers that elect a leader have fewer workers than Services, so that some Services wait for
    /// their turn when a controller has to stop.
    pub(super) const fn workers(&self) -> usize {
        if self.elects() { 4 } else { 32 }
    }

    /// How many Nodes there are at most.
    const fn most_nodes(&self) -> usize {
        self.nodes + 4
    }

    /// `--cluster-cidr`: few more blocks than Nodes, so that each is allocated again and again. Odd seeds are
    /// dual-stack.
    pub(super) fn cluster_cidrs(&self) -> Vec<IpNet> {
        let bits = (self.most_nodes() + 1).next_power_of_two().ilog2() as u8;
        blocks(bits, self.seed % 2 == 1)
    }

    /// Flags of a mock with routes, which lists them in one way after the other.
    pub(super) fn route_flags(&self) -> Vec<String> {
        const TARGETS: [&str; 4] = ["node-name", "provider-id", "next-hop", "all"];
        let target = TARGETS[(self.seed / 2 % 4) as usize];
        let mut flags = vec!["--routes".to_owned(), format!("--route-target={target}")];
        if self.seed.is_multiple_of(3) {
            flags.push("--route-bare-results".to_owned());
        }
        if self.seed.is_multiple_of(5) {
            flags.push("--route-compared-addresses".to_owned());
        }
        flags
    }

    pub(super) fn has(&self, family: Family) -> bool {
        self.families.contains(&family)
    }

    /// Everything that happens to the processes.
    pub(super) fn disruptions(&self) -> Vec<Disruption> {
        let mut random = self.random(0);
        // Each takes at least a third of a second.
        let count = self
            .lasts
            .map_or(self.disruptions, |time| 3 * time.as_secs() as usize);
        let mut all = disruptions(&mut random, &self.families, count, self.elects());
        for disruption in &mut all {
            disruption.after *= self.slower;
        }
        all
    }

    /// Changes that one user makes to a Service, without end. Every third Service keeps its type and is
    /// never deleted, so that nothing excuses the deletion of its load balancer.
    pub(super) fn acts(&self, number: usize) -> impl Iterator<Item = Act> + use<> {
        let mut random = self.random(1 + number as u64);
        // The number of changes a second does not depend on the number of operators.
        let longest = 30 + 75 * self.services as u64;
        let (is_steady, has_odd) = (number.is_multiple_of(3), self.has(Family::Objects));
        let slower = self.slower;
        std::iter::repeat_with(move || {
            let mut act = Act {
                pause: millis(&mut random, 30..longest) * slower,
                what: what(&mut random),
                shape: shape(&mut random),
            };
            if act.what == What::Odd && !has_odd {
                act.what = What::Resync;
            }
            if is_steady {
                act.keep();
            }
            act
        })
    }

    /// The events of the nodes, without end.
    pub(super) fn moves(&self) -> impl Iterator<Item = Move> + use<> {
        const ALL: [NodeChange; 12] = [
            NodeChange::Join,
            NodeChange::Join,
            NodeChange::Join,
            NodeChange::Leave,
            NodeChange::Replace,
            NodeChange::Exclude,
            NodeChange::Include,
            NodeChange::Doom,
            NodeChange::Relabel,
            NodeChange::Cordon,
            NodeChange::Unready,
            NodeChange::Odd,
        ];
        let mut random = self.random(1 << 32);
        let (has_odd, names) = (self.has(Family::Objects), self.most_nodes());
        let slower = self.slower;
        std::iter::repeat_with(move || {
            let what = ALL[random.usize(..ALL.len())];
            Move {
                pause: millis(&mut random, 100..1_200) * slower,
                node: format!("base-{:05}", random.usize(..names)),
                what: if what == NodeChange::Odd && !has_odd {
                    NodeChange::Relabel
                } else {
                    what
                },
            }
        })
    }

    fn random(&self, stream: u64) -> Rng {
        Rng::with_seed(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream)
    }
}

/// Ranges with as many Pod CIDRs as these bits number, of one IP family or of both.
pub(super) fn blocks(bits: u8, is_dual_stack: bool) -> Vec<IpNet> {
    let ranges = [
        ([10, 244, 0, 0].into(), 24 - bits),
        ([0xfd00, 0x10, 0, 0, 0, 0, 0, 0].into(), 64 - bits),
    ];
    let families = if is_dual_stack { 2 } else { 1 };
    let ranges = ranges.into_iter().take(families);
    ranges
        .map(|(network, length)| IpNet::new(network, length).unwrap())
        .collect()
}

/// One change by one operator.
#[derive(Debug)]
pub(super) struct Act {
    pub(super) pause: Duration,
    pub(super) what: What,
    /// The shape of the new Service, or the parts of it that change.
    pub(super) shape: Shape,
}

impl Act {
    /// Turns what ends a load balancer into another change.
    fn keep(&mut self) {
        self.what = match self.what {
            What::Retype | What::Delete => What::Ports,
            What::Recreate | What::Copy => What::Annotations,
            What::Strip => What::Resync,
            what => what,
        };
        self.shape.kind = "LoadBalancer";
        self.shape.class = self.shape.class.filter(|class| *class == OWN_CLASS);
        self.shape.held = false;
    }
}

/// An action on a Service that is there; one that is not is made.
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
    /// A condition of another controller, with a time that few decoders accept.
    Odd,
}

fn what(random: &mut Rng) -> What {
    const WEIGHTS: [(What, u8); 13] = [
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
        (What::Odd, 1),
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
    let class = one_of(&["", "", "", "", OWN_CLASS, OTHER_CLASS]);
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
            "apiVersion": "v1",
            "kind": "Service",
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
    /// Deleted, and registered again at once: another Node of the same name.
    Replace,
    /// A label that no controller of ours reads.
    Relabel,
    Cordon,
    /// Not ready, though its machine runs.
    Unready,
    /// A condition and a taint with times that few decoders accept.
    Odd,
}
