//! Random histories of a cluster, of a cloud with other clients, and of the replicas that lead one
//! after the other.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use proptest::prelude::*;

use super::{Confirmation, RouteFacts, RouteNodes, RouteStep, RouteTable, plan};
use crate::{
    cidr::Cidr,
    condition::Status,
    fixture::{self, addresses, cidr, registered},
    node::{
        NodeView,
        ownership::{NodeScope, Prefixes},
    },
    route::{ListStart, ObservedRoute, RouteRange, condition, fit::Fit, refusal::refusal},
};

mod cloud;
mod step;

use cloud::{Cloud, Request};
use step::{Step, steps};

const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Some have addresses in common, and two are outside the cluster CIDRs.
const CIDRS: [&str; 8] = [
    "10.244.1.0/24",
    "10.244.2.0/24",
    "10.244.2.128/25",
    "10.244.2.0/23",
    "10.244.3.0/24",
    "fd00::/64",
    "10.1.0.0/24",
    "10.244.0.0/15",
];

struct Call {
    request: Request,
    is_awaited: bool,
}

enum NodeEvent {
    Seen(Arc<NodeView>),
    /// Name and UID.
    Gone(Arc<str>, Box<str>),
}

struct World {
    uids: u32,
    style: u8,
    api: BTreeMap<Arc<str>, Arc<NodeView>>,
    cloud: Cloud,
    calls: Vec<Call>,
    /// Events that the leader has not received yet.
    events: VecDeque<NodeEvent>,
    nodes: RouteNodes,
    table: RouteTable,
    list: Option<(ListStart, Vec<ObservedRoute>)>,
    failed: BTreeSet<Cidr>,
    prefixes: Prefixes,
}

impl World {
    fn new(style: u8) -> Self {
        Self {
            uids: 0,
            style,
            api: BTreeMap::new(),
            cloud: Cloud::default(),
            calls: Vec::new(),
            events: VecDeque::new(),
            nodes: RouteNodes::default(),
            table: RouteTable::default(),
            list: None,
            failed: BTreeSet::new(),
            prefixes: Prefixes::new("cloud", [""; 0]).unwrap(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Toggle(node, machine, cidr) => self.toggle(node, machine, CIDRS[cidr]),
            Step::Initialize(node) => self.initialize(NODES[node]),
            Step::Event => self.receive(),
            Step::Other(node, cidr, machine, is_blackhole) => {
                self.cloud
                    .other_client(NODES[node], CIDRS[cidr], machine, is_blackhole);
            }
            Step::ListBegins => {
                self.list = Some((self.table.list_begins(), self.cloud.list(self.style)));
            }
            Step::ListEnds(is_late) => {
                if let Some((start, routes)) = self.list.take() {
                    let now = self.cloud.list(self.style);
                    self.table
                        .list_completed(start, if is_late { now } else { routes });
                }
            }
            Step::Reconcile(destination) => self.reconcile(cidr(CIDRS[destination])),
            Step::Arrive(call, is_answered) => self.arrive(call, is_answered),
            Step::Fail(call) => {
                if let Some(call) = self.take(call)
                    && call.is_awaited
                {
                    self.failed.insert(call.request.destination());
                    self.table.failed(call.request.destination());
                }
            }
            Step::TimeOut(call) => self.time_out(call),
            Step::FailOver => self.fail_over(),
        }
    }

    fn toggle(&mut self, node: usize, machine: u8, pod_cidr: &str) {
        let name: Arc<str> = NODES[node].into();
        let machine = format!("m{}", machine % 8);
        let has_machine = |node: &Arc<NodeView>| *node.system_uuid == *machine;
        if let Some(node) = self.api.remove(&name) {
            self.events
                .push_back(NodeEvent::Gone(name, node.uid.clone()));
        } else if !self.api.values().any(has_machine) {
            self.uids += 1;
            let node = NodeView {
                uid: self.uids.to_string().into(),
                created: Timestamp::UNIX_EPOCH + Duration::from_secs(self.uids.into()),
                pod_cidrs: [pod_cidr.into()].into(),
                system_uuid: machine.into(),
                ..registered(&name)
            };
            self.write(node);
        }
    }

    fn initialize(&mut self, node: &str) {
        if let Some(node) = self.api.get(node) {
            let (id, address) = cloud::machine(&node.system_uuid);
            let node = NodeView {
                taints: [].into(),
                provider_id: id.into(),
                addresses: addresses(&format!("InternalIP={address}")),
                ..(**node).clone()
            };
            self.write(node);
        }
    }

    fn write(&mut self, node: NodeView) {
        let node = Arc::new(node);
        self.events.push_back(NodeEvent::Seen(Arc::clone(&node)));
        self.api.insert(Arc::clone(&node.name), node);
    }

    fn receive(&mut self) {
        match self.events.pop_front() {
            Some(NodeEvent::Seen(node)) => drop(self.nodes.observe(&node)),
            Some(NodeEvent::Gone(name, uid)) => drop(self.nodes.forget(&name, &uid)),
            None => {}
        }
    }

    fn facts<'a>(
        &'a self,
        confirmed: &'a [Confirmation],
        ranges: &'a [RouteRange],
    ) -> RouteFacts<'a> {
        RouteFacts {
            keeps_lost: false,
            table: &self.table,
            nodes: &self.nodes,
            is_synced: true,
            confirmed,
            scope: NodeScope {
                prefixes: &self.prefixes,
                selector: None,
                foreign_prefix_seen: false,
            },
            without_provider_id: false,
            ranges,
        }
    }

    /// Does what the loop does: sends the call, or lets the key wait.
    fn reconcile(&mut self, destination: Cidr) {
        let is_in_flight =
            |call: &Call| call.is_awaited && call.request.destination() == destination;
        if self.calls.iter().any(is_in_flight) {
            return;
        }
        let mut confirmed = Vec::new();
        let request = loop {
            match plan(destination, &self.facts(&confirmed, &ranges())).step {
                RouteStep::Confirm(question) => {
                    assert!(!confirmed.contains(&question), "asked twice: {question:?}");
                    self.ask(&question);
                    confirmed.push(question);
                }
                RouteStep::Delete(route) => {
                    self.check_deletion(&route);
                    break Request::Delete(route);
                }
                RouteStep::Create(route) => break Request::Create(route),
                RouteStep::List if self.list.is_none() => return self.step(Step::ListBegins),
                RouteStep::Keep => return self.table.keep(destination, &self.nodes),
                _ => return,
            }
        };
        self.table.call_begins(destination);
        self.calls.push(Call {
            request,
            is_awaited: true,
        });
    }

    /// The API server answers.
    fn ask(&mut self, question: &Confirmation) {
        let names: Vec<Arc<str>> = match question {
            Confirmation::Node(name) => vec![Arc::clone(name)],
            Confirmation::AllNodes => NODES.map(Arc::from).to_vec(),
        };
        for name in names {
            if let Some(node) = self.api.get(&name) {
                self.nodes.observe(node);
            } else {
                for uid in 0..=self.uids {
                    self.nodes.forget(&name, &uid.to_string());
                }
            }
        }
    }

    /// A wanted route is never deleted, nor is one of others.
    fn check_deletion(&self, route: &ObservedRoute) {
        let destination = route.destination();
        assert!(
            ranges()
                .iter()
                .any(|range| range.cidr.contains(destination)),
            "{route:?}"
        );
        let wanting = self
            .claimants(destination)
            .filter(|node| route.fit(node) == Fit::Right && !self.is_refused(destination, node));
        let wanting: Vec<_> = wanting.collect();
        assert!(
            route.raw().is_blackhole || wanting.is_empty(),
            "{route:?} of {wanting:?}"
        );
    }

    fn claimants(&self, destination: Cidr) -> impl Iterator<Item = &NodeView> {
        let nodes = self.api.values().map(|node| &**node);
        nodes.filter(move |node| cidr(&node.pod_cidrs[0]) == destination)
    }

    fn is_refused(&self, destination: Cidr, node: &NodeView) -> bool {
        refusal(destination, node, &self.facts(&[], &ranges())).is_some()
    }

    fn take(&mut self, call: usize) -> Option<Call> {
        (!self.calls.is_empty()).then(|| self.calls.remove(call % self.calls.len()))
    }

    fn arrive(&mut self, call: usize, is_answered: bool) {
        let Some(call) = self.take(call) else {
            return;
        };
        let destination = call.request.destination();
        let result = self.cloud.carry_out(&call.request, self.style);
        if !call.is_awaited {
            return;
        }
        match (result, call.request) {
            (Ok(()), Request::Delete(route)) if is_answered => self.table.deleted(&route),
            (Ok(()), Request::Create(route)) if is_answered => {
                self.failed.remove(&destination);
                self.table.created(&route, route.as_made());
            }
            // Another client's route is in the way.
            (Err(()), Request::Create(_)) if is_answered => self.table.conflicts(destination),
            (_, Request::Create(route)) => self.table.created_perhaps(&route),
            (_, Request::Delete(_)) => self.table.result_unknown(destination),
        }
    }

    fn time_out(&mut self, call: usize) {
        let call = call % self.calls.len().max(1);
        if let Some(call) = self.calls.get_mut(call).filter(|call| call.is_awaited) {
            call.is_awaited = false;
            self.table.result_unknown(call.request.destination());
        }
    }

    fn fail_over(&mut self) {
        for call in &mut self.calls {
            call.is_awaited = false;
        }
        self.events.clear();
        self.list = None;
        self.failed.clear();
        self.table = RouteTable::default();
        self.nodes = RouteNodes::default();
        for node in self.api.values() {
            self.nodes.observe(node);
        }
    }

    /// Calls in flight and late ones arrive, and each destination is reconciled until nothing is to be done.
    fn settle(&mut self) {
        for node in NODES {
            self.initialize(node);
        }
        while !self.events.is_empty() {
            self.receive();
        }
        while !self.calls.is_empty() {
            self.arrive(0, true);
        }
        self.step(Step::ListBegins);
        self.step(Step::ListEnds(true));
        for _ in 0..6 {
            for destination in CIDRS {
                self.reconcile(cidr(destination));
            }
            while !self.calls.is_empty() {
                self.arrive(0, true);
            }
        }
        for destination in CIDRS {
            let step = plan(cidr(destination), &self.facts(&[], &ranges())).step;
            let is_done = matches!(step, RouteStep::Keep | RouteStep::Nothing);
            assert!(is_done, "{destination}: {step:?}");
        }
    }

    /// The routes of the cluster are those of its Nodes.
    fn check_routes(&self) {
        let ranges = ranges();
        let routes = self.cloud.list(self.style);
        for destination in CIDRS.map(cidr) {
            if !ranges.iter().any(|range| range.cidr.contains(destination)) {
                continue;
            }
            let nodes = self.claimants(destination);
            let nodes: Vec<_> = nodes
                .filter(|node| !self.is_refused(destination, node))
                .collect();
            let routes = routes
                .iter()
                .filter(|route| route.destination() == destination);
            let routes: Vec<_> = routes.collect();
            assert_eq!(routes.is_empty(), nodes.is_empty(), "{routes:?} {nodes:?}");
            for route in routes {
                let leads = |node: &&NodeView| route.fit(node) == Fit::Right;
                let leads = nodes.iter().copied().any(|node| leads(&node));
                assert!(leads && !route.raw().is_blackhole, "{route:?} {nodes:?}");
            }
            for node in &nodes {
                let overlapping = self.api.values().filter(|other| other.name != node.name);
                let has_route = |other: &NodeView| {
                    let destination = cidr(&other.pod_cidrs[0]);
                    let mut routes = self.cloud.list(self.style).into_iter();
                    routes.any(|route| {
                        route.destination() == destination && route.fit(other) == Fit::Right
                    })
                };
                let both = overlapping.filter(|other| {
                    let theirs = cidr(&other.pod_cidrs[0]);
                    let is_ours = ranges.iter().any(|range| range.cidr.contains(theirs));
                    is_ours && theirs.overlaps(destination) && has_route(other)
                });
                assert_eq!(both.count(), 0, "beside {node:?}");
            }
            if let [node] = nodes[..] {
                let facts = self.facts(&[], &ranges);
                let write = condition(Timestamp::UNIX_EPOCH, node, &self.failed, &facts);
                assert_eq!(write.map(|write| write.status), Some(Status::False));
            }
        }
    }
}

fn ranges() -> [RouteRange; 2] {
    fixture::ranges(None, None)
}

proptest! {
    ///
    #[test]
    fn routes_and_nodes_agree_and_no_wanted_route_is_deleted(style in 0_u8..6, steps in steps()) {
        let mut world = World::new(style);
        for step in steps {
            world.step(step);
        }
        world.settle();
        world.check_routes();
    }
}
