//! The part of the contract that a provider and its inputs offer to a generator of traces.

use std::collections::BTreeSet;

use super::trace::{Change, Fault, Field, Name, Trace, WORDS};
use crate::{capability::Capability, inputs::Inputs, subject::Subject};

/// The choices of a generator.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    /// Services; none where load balancers are not declared.
    pub(super) names: Vec<Name>,
    /// Names of the machines that exist.
    pub(super) nodes: Vec<String>,
    /// IP families of Services.
    pub(super) families: Vec<String>,
    /// Protocols of ports.
    pub(super) protocols: Vec<String>,
    /// Classes of load balancers.
    pub(super) classes: Vec<String>,
    /// The class of a new Service.
    pub(super) first_class: Option<String>,
    /// Sets of annotations that a Service can have.
    pub(super) annotations: usize,
    /// Routes; none where they are not declared.
    pub(super) routes: usize,
    /// Load balancers may change together.
    pub(super) balancers_together: bool,
    /// Routes may change together.
    pub(super) routes_together: bool,
    /// Words that no trace has, by the inputs or since the provider cannot show them.
    pub(super) without: BTreeSet<String>,
}

/// The most Services of a trace.
pub(super) const SERVICES: usize = 3;

impl World {
    /// The declarations of a provider, and the description of its inputs.
    ///
    /// # Errors
    ///
    /// There is nothing to explore, or `explore.without` has a word that is none.
    pub(super) fn of(subject: &Subject) -> Result<Self, String> {
        let inputs = subject.inputs();
        let offered = subject.load_balancers();
        let routes = subject.capabilities().routes.unwrap_or_default();
        let mut without: BTreeSet<String> = inputs.explore.without.iter().cloned().collect();
        if let Some(word) = without.iter().find(|word| !WORDS.contains(&word.as_str())) {
            return Err(format!(
                "explore.without has {word:?}, which is none of {}",
                WORDS.join(", ")
            ));
        }
        if inputs.commands.blackhole.is_empty() {
            without.insert("blackhole".to_owned());
        }
        if inputs.provider.command.is_empty() {
            without.extend(["kill", "restart"].map(str::to_owned));
        }
        let limit = inputs.services.limit.unwrap_or(SERVICES);
        let count = if subject.declares(Capability::LoadBalancers) {
            limit.min(SERVICES)
        } else {
            0
        };
        let has_routes =
            subject.declares(Capability::Routes) && !inputs.instances.existing.is_empty();
        let family = || vec!["IPv4".to_owned()];
        let families = &inputs.services.ip_families;
        let protocols = std::iter::once("TCP".to_owned());
        let first_class = inputs.services.load_balancer_class.clone().or_else(|| {
            let first = offered.classes.first().cloned();
            first.filter(|_| offered.without_default_class)
        });
        let world = Self {
            names: ('a'..).take(count).map(Name).collect(),
            nodes: names_of_nodes(inputs),
            families: if families.is_empty() {
                family()
            } else {
                families.clone()
            },
            protocols: protocols
                .chain(inputs.services.second_protocol.clone())
                .collect(),
            classes: offered.classes.clone(),
            first_class,
            annotations: inputs.explore.annotations.len(),
            routes: if has_routes { route_count(inputs) } else { 0 },
            balancers_together: offered.max_in_flight != 1,
            routes_together: routes.max_in_flight != 1,
            without,
        };
        if world.names.is_empty() && world.routes == 0 {
            return Err(
                "the provider declares no load balancers, and no routes that can be made with \
                 instances.existing and cluster.podCIDRs: nothing to explore"
                    .to_owned(),
            );
        }
        Ok(world)
    }

    /// True if traces may have a word.
    pub(super) fn has(&self, word: &str) -> bool {
        !self.without.contains(word)
    }

    /// Holds a trace that someone wrote against what the provider and the inputs offer.
    ///
    /// # Errors
    ///
    /// A sentence with the step that cannot be made.
    pub(super) fn check(&self, trace: &Trace) -> Result<(), String> {
        let steps = trace.0.iter().flat_map(|turn| &turn.0);
        for step in steps {
            let can = match &step.change {
                Change::Service(name, fields) => {
                    self.names.contains(name) && fields.iter().all(|field| self.can(field))
                }
                Change::Delete(name) => self.names.contains(name),
                Change::Nodes(targets) => targets.iter().all(|one| self.nodes.contains(&one.node)),
                Change::Route(number, node) => *number < self.routes && self.nodes.contains(node),
                Change::NoRoute(number) => *number < self.routes,
                Change::Blackhole(number) => *number < self.routes && self.has("blackhole"),
                Change::Restart => self.has("restart"),
                Change::Wait(_) => true,
            };
            let can_fail = !matches!(step.fault, Some(Fault::Kill(_))) || self.has("kill");
            if !can || !can_fail {
                return Err(format!(
                    "the step {:?} needs what the provider or the inputs do not have: Services {}, \
                     {} routes, Nodes {}, {} sets of annotations in explore.annotations; without {}",
                    step.to_string(),
                    texts(&self.names),
                    self.routes,
                    self.nodes.join(" "),
                    self.annotations,
                    texts(&self.without)
                ));
            }
        }
        Ok(())
    }

    fn can(&self, field: &Field) -> bool {
        match field {
            Field::Annotations(number) => *number <= self.annotations,
            Field::Class(class) => self.classes.contains(class),
            _ => true,
        }
    }
}

fn texts<'a>(all: impl IntoIterator<Item = &'a (impl ToString + 'a)>) -> String {
    let texts: Vec<_> = all.into_iter().map(ToString::to_string).collect();
    texts.join(" ")
}

fn names_of_nodes(inputs: &Inputs) -> Vec<String> {
    let machines = inputs.instances.existing.iter();
    machines.map(|one| one.node_name.clone()).collect()
}

/// Two of each range of Pod CIDRs, and a half of the first one: within the limit of the table.
fn route_count(inputs: &Inputs) -> usize {
    let ranges = inputs.cluster.pod_cidrs.len();
    let count = if ranges == 0 { 0 } else { 2 * ranges + 1 };
    count.min(inputs.routes.limit.unwrap_or(count))
}
