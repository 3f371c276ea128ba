//! A cloud, its kubelets, and the API server that they report to.

use std::collections::BTreeMap;

use super::{
    super::{at, registered, taints},
    plan::{Event, Ids},
};
use crate::{
    fixture::addresses,
    node::{
        LABEL_CONFIRM_DELETION, LABEL_PAUSED, NodeView, Ready,
        address::DesiredAddresses,
        change::{NodeChange, TaintAddition},
        instance::{Instance, Lookup, PowerState},
        lifecycle::Deletion,
    },
};

/// Seconds without a word from a kubelet until its node is not ready.
const GRACE: u64 = 10;
/// Seconds until a node that has registered is ready.
const JOINS: i64 = 10;
/// Seconds until a node without an id gets one.
const INITIALISED: i64 = 5;

pub(super) struct Machine {
    pub(super) id: String,
    made: u64,
    deleted: Option<u64>,
    pub(super) runs: bool,
    address: u8,
}

/// A name, the machines that have had it, and the kubelet of the last one.
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) machines: Vec<Machine>,
    cut_until: u64,
    sick_until: u64,
    heard: u64,
}

pub(super) struct World {
    pub(super) now: u64,
    ids: Ids,
    pub(super) slots: Vec<Slot>,
    pub(super) nodes: BTreeMap<String, NodeView>,
    /// Names whose node changed in this second.
    pub(super) changed: Vec<String>,
    version: u64,
}

impl Slot {
    pub(super) fn machine(&self) -> &Machine {
        self.machines.last().unwrap()
    }

    fn is_heard(&self, now: u64) -> bool {
        let machine = self.machine();
        machine.exists(now) && machine.runs && self.cut_until <= now
    }
}

impl Machine {
    pub(super) fn exists(&self, at: u64) -> bool {
        self.made <= at && self.deleted.is_none_or(|deleted| at < deleted)
    }
}

impl World {
    /// All machines run, and their nodes are an hour old and ready.
    pub(super) fn new(nodes: usize, ids: Ids) -> Self {
        let slot = |number: usize| Slot {
            name: format!("n{number}"),
            machines: Vec::new(),
            cut_until: 0,
            sick_until: 0,
            heard: 0,
        };
        let mut world = Self {
            now: 0,
            ids,
            slots: (0..nodes).map(slot).collect(),
            nodes: BTreeMap::new(),
            changed: Vec::new(),
            version: 0,
        };
        for index in 0..nodes {
            world.make(index);
            world.register(index);
            world.initialise(index);
            let name = world.slots[index].name.clone();
            world.change(&name, |node| {
                node.created = at(-3_600);
                node.ready = Ready::True;
            });
        }
        world
    }

    fn make(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let generation = slot.machines.len();
        let id = match self.ids {
            Ids::OfKubelets | Ids::OfInitialisation => format!("mock://{}-{generation}", slot.name),
            Ids::Names => format!("mock://{}", slot.name),
            Ids::None => String::new(),
        };
        slot.machines.push(Machine {
            id,
            made: self.now,
            deleted: None,
            runs: true,
            address: 0,
        });
    }

    pub(super) fn suffer(&mut self, index: usize, event: Event) {
        let now = self.now;
        let slot = &mut self.slots[index];
        let name = slot.name.clone();
        let machine = slot.machines.last_mut().unwrap();
        match event {
            Event::Vanish => {
                machine.deleted.get_or_insert(now);
            }
            Event::Recreate => {
                machine.deleted.get_or_insert(now);
                self.make(index);
            }
            Event::Stop => machine.runs = false,
            Event::Start => machine.runs = true,
            Event::Move => machine.address = machine.address.wrapping_add(1),
            Event::Cut(seconds) => slot.cut_until = now + u64::from(seconds),
            Event::Sick(seconds) => slot.sick_until = now + u64::from(seconds),
            Event::Pause(paused) => self.label(&name, LABEL_PAUSED, paused),
            Event::Delete => {
                self.nodes.remove(&name);
                self.changed.push(name);
            }
        }
    }

    /// The trouble is over: all instances run with live kubelets, and no node is paused.
    pub(super) fn calm(&mut self) {
        for index in 0..self.slots.len() {
            for event in [
                Event::Start,
                Event::Cut(0),
                Event::Sick(0),
                Event::Pause(false),
            ] {
                self.suffer(index, event);
            }
        }
    }

    pub(super) fn confirm_all(&mut self, is_confirmed: bool) {
        for name in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.label(&name, LABEL_CONFIRM_DELETION, is_confirmed);
        }
    }

    fn label(&mut self, name: &str, key: &str, set: bool) {
        let value = if set { "true" } else { "false" };
        self.change(name, |node| {
            node.labels = node.labels.with([(key, value)]);
        });
    }

    /// One second of the kubelets' lives, and of whoever watches them.
    pub(super) fn live(&mut self) {
        let now = self.now;
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            let name = slot.name.clone();
            let heard = slot.is_heard(now);
            if heard {
                slot.heard = now;
            }
            let (silent, sick) = (now - slot.heard > GRACE, slot.sick_until > now);
            match (heard, self.nodes.contains_key(&name)) {
                (true, false) => self.register(index),
                (true, true) if sick || self.age(&name) < JOINS => {
                    self.report(&name, Ready::False);
                }
                (true, true) => self.report(&name, Ready::True),
                (false, true) if silent => self.report(&name, Ready::Unknown),
                (false, _) => {}
            }
            if heard {
                self.initialise(index);
            }
        }
    }

    /// Seconds since the node registered.
    fn age(&self, name: &str) -> i64 {
        let now = at(self.now as i64);
        now.duration_since(self.nodes[name].created).as_secs()
    }

    fn report(&mut self, name: &str, ready: Ready) {
        let since = at(self.now as i64);
        if self.nodes[name].ready != ready {
            self.change(name, |node| {
                node.ready = ready;
                node.ready_since = Some(since);
            });
        }
    }

    fn register(&mut self, index: usize) {
        let slot = &self.slots[index];
        let id = match self.ids {
            Ids::OfKubelets | Ids::Names => slot.machine().id.clone(),
            Ids::OfInitialisation | Ids::None => String::new(),
        };
        self.version += 1;
        let node = NodeView {
            uid: format!("uid-{}", self.version).into(),
            resource_version: self.version.to_string().into(),
            created: at(self.now as i64),
            provider_id: id.into(),
            taints: [].into(),
            ..registered(&slot.name)
        };
        self.changed.push(slot.name.clone());
        self.nodes.insert(slot.name.clone(), node);
    }

    /// The cloud-node loop in one step.
    fn initialise(&mut self, index: usize) {
        let slot = &self.slots[index];
        let (name, id) = (slot.name.clone(), slot.machine().id.clone());
        let is_due = self.now == 0 || self.age(&name) >= INITIALISED;
        if self.nodes[&name].provider_id.is_empty() && !id.is_empty() && is_due {
            self.change(&name, |node| node.provider_id = id.into());
        }
    }

    fn change(&mut self, name: &str, edit: impl FnOnce(&mut NodeView)) {
        if let Some(node) = self.nodes.get_mut(name) {
            edit(node);
            self.version += 1;
            node.resource_version = self.version.to_string().into();
            self.changed.push(name.to_owned());
        }
    }

    /// Where the cloud would look for the node's machine.
    pub(super) fn machine_of(&self, node: &NodeView, at: u64) -> Option<&Machine> {
        let mut machines = self
            .slots
            .iter()
            .filter(|slot| !node.provider_id.is_empty() || *slot.name == *node.name)
            .flat_map(|slot| &slot.machines);
        machines.find(|machine| {
            (node.provider_id.is_empty() || *machine.id == *node.provider_id) && machine.exists(at)
        })
    }

    pub(super) fn lookup(&self, node: &NodeView, at: u64) -> Lookup {
        match self.machine_of(node, at) {
            Some(machine) => Lookup::Found(Box::new(machine.instance())),
            None => Lookup::Absent { confirmed: true },
        }
    }

    pub(super) fn remove_taints(&mut self, name: &str, change: &NodeChange) {
        self.write(name, &change.uid, |node, version| {
            for removal in &change.remove_taints {
                if node.taints.get(removal.index)?.key != removal.key {
                    return None;
                }
            }
            Some(change.applied_to(node, version))
        });
    }

    pub(super) fn add_taint(&mut self, name: &str, addition: &TaintAddition) {
        self.write(name, &addition.uid, |node, version| {
            let refused = node.taints.contains(&addition.taint)
                || (addition.create_taints && !node.taints.is_empty())
                || (addition.resource_version.as_ref())
                    .is_some_and(|version| *version != node.resource_version);
            (!refused).then(|| addition.applied_to(node, version))
        });
    }

    pub(super) fn refresh(&mut self, node: &NodeView, plan: &crate::node::refresh::RefreshPlan) {
        assert_eq!(plan.change, None, "no labels in this world");
        if let DesiredAddresses::Changed(addresses) = &plan.addresses {
            self.write(&node.name, &node.uid, |node, version| {
                Some(node.with_addresses(addresses, version))
            });
        }
    }

    /// Nothing happens if the API server would refuse it.
    fn write(
        &mut self,
        name: &str,
        uid: &str,
        edit: impl FnOnce(&NodeView, &str) -> Option<NodeView>,
    ) {
        let version = (self.version + 1).to_string();
        let node = self.nodes.get(name).filter(|node| *node.uid == *uid);
        if let Some(node) = node.and_then(|node| edit(node, &version)) {
            self.change(name, |held| *held = node);
        }
    }

    /// The node that was deleted, if the preconditions held.
    pub(super) fn delete(&mut self, name: &str, deletion: &Deletion) -> Option<NodeView> {
        let node = self.nodes.get(name)?;
        if node.uid != deletion.uid || node.resource_version != deletion.resource_version {
            return None;
        }
        self.changed.push(name.to_owned());
        self.nodes.remove(name)
    }
}

impl Machine {
    pub(super) fn instance(&self) -> Instance {
        Instance {
            provider_id: self.id.as_str().into(),
            addresses: addresses(&format!("InternalIP=10.0.0.{}", self.address)),
            power_state: if self.runs {
                PowerState::Running
            } else {
                PowerState::Shutdown
            },
            ..Instance::default()
        }
    }
}

/// So that a node's taints can be compared.
pub(super) fn shut_down() -> Box<[crate::node::Taint]> {
    taints(&format!("{}:NoSchedule", crate::node::TAINT_SHUTDOWN))
}
