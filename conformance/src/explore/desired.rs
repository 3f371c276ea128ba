//! The desired state that a trace leads to, and the call that each change of it asks for.

use std::collections::BTreeMap;

use super::{
    trace::{Change, Field, Name, Port, Target},
    world::World,
};

/// The state that the controller would work towards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    /// The Services that exist.
    pub(super) services: BTreeMap<Name, Spec>,
    /// All targets.
    pub(super) nodes: Vec<Target>,
    /// The Nodes that routes lead to, by their numbers.
    pub(super) routes: BTreeMap<usize, String>,
}

/// The fields of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    /// Its type is `LoadBalancer`.
    pub(super) balanced: bool,
    pub(super) ports: Vec<Port>,
    pub(super) local: Option<i32>,
    pub(super) affinity: Option<i64>,
    pub(super) families: Vec<String>,
    pub(super) ranges: Vec<String>,
    pub(super) annotations: usize,
    pub(super) class: Option<String>,
}

/// The call that a change asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    Ensure(Name),
    Delete(Name),
    Update,
    Route(usize),
    NoRoute(usize),
    Blackhole(usize),
    Restart,
    Wait(u64),
}

impl Desired {
    /// No Service, no route, and all machines are targets.
    pub(super) fn new(world: &World) -> Self {
        let target = |node: &String| Target {
            node: node.clone(),
            mark: None,
        };
        Self {
            services: BTreeMap::new(),
            nodes: world.nodes.iter().map(target).collect(),
            routes: BTreeMap::new(),
        }
    }

    /// Makes a change. It means the same after any other one, so that a trace stays one when steps are left out.
    pub(super) fn apply(&mut self, change: &Change, world: &World) -> Act {
        match change {
            Change::Service(name, fields) => {
                let first = || Spec::new(*name, world);
                let was_balanced = self.services.get(name).is_some_and(|spec| spec.balanced);
                let spec = self.services.entry(*name).or_insert_with(first);
                for field in fields {
                    spec.set(field, was_balanced);
                }
                match (was_balanced, spec.balanced) {
                    (_, true) => Act::Ensure(*name),
                    (true, false) => Act::Delete(*name),
                    (false, false) => Act::Nothing,
                }
            }
            Change::Delete(name) => match self.services.remove(name) {
                Some(spec) if spec.balanced => Act::Delete(*name),
                _ => Act::Nothing,
            },
            Change::Nodes(targets) => {
                self.nodes.clone_from(targets);
                Act::Update
            }
            Change::Route(number, node) => {
                self.routes.insert(*number, node.clone());
                Act::Route(*number)
            }
            Change::NoRoute(number) => match self.routes.remove(number) {
                Some(_) => Act::NoRoute(*number),
                None => Act::Nothing,
            },
            Change::Blackhole(number) if self.routes.contains_key(number) => {
                Act::Blackhole(*number)
            }
            Change::Blackhole(_) => Act::Nothing,
            Change::Restart => Act::Restart,
            Change::Wait(time) => Act::Wait(*time),
        }
    }

    /// The Services that have a load balancer.
    pub(super) fn balanced(&self) -> impl Iterator<Item = (Name, &Spec)> {
        let services = self.services.iter();
        let balanced = services.filter(|(_, spec)| spec.balanced);
        balanced.map(|(name, spec)| (*name, spec))
    }
}

impl Spec {
    /// The fields of a new Service.
    pub(super) fn new(name: Name, world: &World) -> Self {
        Self {
            balanced: true,
            ports: vec![Port::new("TCP", 80, first_node_port(name))],
            local: None,
            affinity: None,
            families: world.families.first().cloned().into_iter().collect(),
            ranges: Vec::new(),
            annotations: 0,
            class: world.first_class.clone(),
        }
    }

    /// Nothing but TCP ports, and what else it was served with or every Service has: no provider refuses it.
    pub(super) fn is_usual(&self, served: Option<&Self>, world: &World) -> bool {
        let usual = Self::new(Name('a'), world);
        let before = served.unwrap_or(&usual);
        let is_tcp = |ports: &[Port]| ports.iter().all(|port| port.protocol == "TCP");
        let has_usual = (self.local, self.affinity, &self.ranges)
            == (usual.local, usual.affinity, &usual.ranges);
        let has_former = (&self.families, self.annotations, &self.class)
            == (&before.families, before.annotations, &before.class);
        is_tcp(&self.ports) && is_tcp(&before.ports) && has_usual && has_former
    }

    /// The changes that give these fields to a Service that has a load balancer, each with its word.
    pub(super) fn fields(&self) -> [(&'static str, Field); 6] {
        [
            ("ports", Field::Ports(self.ports.clone())),
            ("policy", Field::Local(self.local)),
            ("affinity", Field::Affinity(self.affinity)),
            ("families", Field::Families(self.families.clone())),
            ("ranges", Field::Ranges(self.ranges.clone())),
            ("annotations", Field::Annotations(self.annotations)),
        ]
    }

    fn set(&mut self, field: &Field, was_balanced: bool) {
        match field {
            Field::Balanced(balanced) => self.balanced = *balanced,
            Field::Ports(ports) => self.ports.clone_from(ports),
            Field::Local(port) => self.local = *port,
            Field::Affinity(seconds) => self.affinity = *seconds,
            Field::Families(families) => self.families.clone_from(families),
            Field::Ranges(ranges) => self.ranges.clone_from(ranges),
            Field::Annotations(number) => self.annotations = *number,
            Field::Class(_) if was_balanced => {}
            Field::Class(class) => self.class = Some(class.clone()),
        }
    }
}

/// The first of the node ports of a Service: two Services never have the same.
pub(super) fn first_node_port(name: Name) -> i32 {
    let index = u32::from(name.0).saturating_sub(u32::from('a'));
    31_000 + 100 * i32::try_from(index).unwrap_or_default()
}
