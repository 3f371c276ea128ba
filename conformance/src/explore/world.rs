//! The part of the contract that a provider and its inputs offer to traces, and the state that a trace leads to.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    options,
    trace::{Change, Port, Spec, Target, WORDS},
};
use crate::{capability::Capability, subject::Subject};

/// The choices of a generator.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    /// Letters of Services.
    pub(super) names: Vec<char>,
    /// Names of the machines that exist.
    pub(super) nodes: Vec<String>,
    /// IP families of Services.
    pub(super) families: Vec<String>,
    /// A protocol of ports beside TCP.
    pub(super) second_protocol: Option<String>,
    /// Sets of annotations that a Service can have, by their numbers, and portable options.
    pub(super) annotations: Vec<String>,
    /// Words that no trace has, by the inputs or since the provider cannot show them.
    pub(super) without: BTreeSet<String>,
}

/// The state that the controller would work towards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Desired {
    /// The Services that exist, and their fields if they have the type `LoadBalancer`.
    pub(super) services: BTreeMap<char, Option<Spec>>,
    /// The targets of load balancers.
    pub(super) nodes: Vec<Target>,
}

/// The most Services of a trace.
const SERVICES: usize = 3;

impl World {
    /// The declarations of a provider, and the description of its inputs.
    ///
    /// # Errors
    ///
    /// There is nothing to explore, or `explore.without` has a word that is none.
    pub(super) fn of(subject: &Subject) -> Result<Self, String> {
        let inputs = subject.inputs();
        let mut without: BTreeSet<String> = inputs.explore.without.iter().cloned().collect();
        let is_word = |word: &&String| WORDS.split(' ').any(|one| one == *word);
        if let Some(word) = without.iter().find(|word| !is_word(word)) {
            return Err(format!(
                "explore.without has {word:?}, which is none of {WORDS}"
            ));
        }
        if inputs.provider.command.is_empty() {
            without.insert("kill".to_owned());
        }
        let services = inputs.services.limit.unwrap_or(SERVICES).min(SERVICES);
        if !subject.declares(Capability::LoadBalancers) || services == 0 {
            return Err("the provider declares no load balancers: nothing to explore".to_owned());
        }
        let machines = inputs.instances.existing.iter();
        let sets = (1..=inputs.explore.annotations.len()).map(|number| number.to_string());
        Ok(Self {
            names: ('a'..).take(services).collect(),
            nodes: machines.map(|one| one.node_name.clone()).collect(),
            families: inputs.services.ip_families.clone(),
            second_protocol: inputs.services.second_protocol.clone(),
            annotations: sets
                .chain(options::words(&subject.load_balancers()))
                .collect(),
            without,
        })
    }

    /// True if traces may have a word.
    pub(super) fn has(&self, word: &str) -> bool {
        !self.without.contains(word)
    }
}

impl Desired {
    /// No Service, and all machines are targets.
    pub(super) fn new(world: &World) -> Self {
        let target = |node: &String| Target {
            node: node.clone(),
            is_moved: false,
        };
        Self {
            nodes: world.nodes.iter().map(target).collect(),
            ..Self::default()
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Service(name, spec) => {
                self.services.insert(*name, Some(spec.clone()));
            }
            Change::ClusterIp(name) => {
                self.services.insert(*name, None);
            }
            Change::Delete(name) => {
                self.services.remove(name);
            }
            Change::Nodes(targets) => self.nodes.clone_from(targets),
        }
    }

    /// The fields of a Service that has a load balancer.
    pub(super) fn spec(&self, name: char) -> Option<&Spec> {
        self.services.get(&name)?.as_ref()
    }
}

impl Spec {
    /// The ports of the Service of a letter.
    pub(super) fn ports_of(&self, name: char) -> Vec<Port> {
        if self.ports.is_empty() {
            vec![first_port(name)]
        } else {
            self.ports.clone()
        }
    }

    /// TCP ports, and nothing else that a plain Service has not: no provider refuses it.
    pub(super) fn is_usual(&self) -> bool {
        let without_ports = Self {
            ports: Vec::new(),
            ..self.clone()
        };
        self.ports.iter().all(|port| port.protocol == "TCP") && without_ports == Self::default()
    }
}

/// The port of a plain Service.
pub(super) fn first_port(name: char) -> Port {
    Port {
        protocol: "TCP".to_owned(),
        port: 80,
        node_port: first_node_port(name),
    }
}

/// The first of the node ports of a Service: two Services never have the same.
pub(super) fn first_node_port(name: char) -> i32 {
    let index = u32::from(name).saturating_sub(u32::from('a'));
    31_000 + 100 * i32::try_from(index).unwrap_or_default()
}
