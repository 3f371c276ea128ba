//! One Service (and another one of its name after it) under two replicas of the service-lb loop, with one provider.
//!
//! | step of the model | function of `controller/loops/src/service` |
//! |---|---|
//! | the store's next event, a list | `event_handlers::subscribe` |
//! | a term begins | `ServiceLb::begin`, `Sessions::apply` |
//! | the key is taken | `Reconciler::sync`, `run_steps`, `Cleanup::clean_up`; `update_of` for an update |
//! | the Lease is written | `Applied::begin` before a call, `Applied::record` after the last |
//! | the call is sent | `Reconciler::ensure`, `Cleanup::delete`, `finish_update`; not if `ServiceTerm::is_current` fails |
//! | its answer arrives or is lost | `Writes::apply` with `Progress::ensured`, `updated`, `deleted` |
//! | the API server takes a write, its answer arrives | `ObjectWriter::write`, `Writes::write_step` |
//! | a comparison | `Drift::compare` |
//!
//! A call of a term that has ended changes the cloud no more (`--shutdown-grace-period`, the lease's duration); a write of
//! such a term may still arrive.

mod server;
mod term;

use jiff::Timestamp;
use outrigger_core::{
    node::NodeView,
    service::{
        ServiceView,
        capability::Capability,
        last_applied::{Hash, LastApplied},
        ownership::Ownership,
        plan::{Progress, ServiceFacts, Step},
    },
    targets::Targets,
};
use serde_json::json;
use std::sync::Arc;

use self::{
    server::{Server, Store, Write},
    term::Term,
};
use crate::{
    hashed::Hashed,
    scope::Scope,
    search::{Add, Model},
};

/// UIDs of the Service and of the one that is made again under its name.
const UIDS: [&str; 2] = ["first", "second"];

pub(crate) struct Services {
    scope: Scope,
    targets: [Targets; 2],
    capabilities: [Capability; 2],
    time: Timestamp,
}

/// A load balancer in the cloud, by what it was made from.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) struct LoadBalancer {
    inputs: Hash,
    /// Place in [`Services::targets`].
    targets: usize,
}

/// Decisions of an operator or a user outside of the Service.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) struct World {
    /// Place of the cluster's Nodes in [`Services::targets`].
    nodes: usize,
    /// True if the provider serves Services without a class.
    serves: bool,
    /// True if the cloud's next work takes longer than a call.
    is_slow: bool,
}

#[derive(Clone, Hash)]
pub(crate) struct State {
    left: Scope,
    server: Server,
    world: World,
    cloud: [Option<LoadBalancer>; 2],
    /// By UID: true if a user has deleted the Service or changed its type.
    may_delete: [bool; 2],
    is_created_again: bool,
    /// The annotation `outrigger.dev/load-balancer-targets`.
    lease: Option<usize>,
    /// The leader, or the last one.
    leader: Store,
    standby: Store,
    term: Option<Hashed<Term>>,
    /// Writes of terms that have ended.
    late: Vec<Write>,
    violation: Option<&'static str>,
}

impl Services {
    pub(crate) fn new(scope: Scope) -> Self {
        let nodes = |names: &[&str]| {
            Targets::among(names.iter().map(|name| {
                let node = json!({"metadata": {"name": name, "uid": name}});
                Arc::new(serde_json::from_value::<NodeView>(node).unwrap())
            }))
        };
        let capability = |serves: bool| Capability {
            provider: "mock".into(),
            without_default_class: !serves,
            ..Capability::default()
        };
        Self {
            scope,
            targets: [nodes(&["a"]), nodes(&["a", "b"])],
            capabilities: [capability(false), capability(true)],
            time: Timestamp::UNIX_EPOCH,
        }
    }

    fn capability(&self, world: World) -> &Capability {
        &self.capabilities[usize::from(world.serves)]
    }

    fn facts(&self, world: World, targets: usize, applied: Option<usize>) -> ServiceFacts<'_> {
        ServiceFacts {
            capability: self.capability(world),
            targets: &self.targets[targets],
            applied: applied.map(|at| self.targets[at].revision()),
            time_of_day: self.time,
        }
    }

    fn service(uid: &str) -> ServiceView {
        let service = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": uid},
            "spec": {
                "type": "LoadBalancer",
                "ports": [{"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080}],
            },
        });
        serde_json::from_value(service).unwrap()
    }

    fn created(&self) -> State {
        let server = Server::with(Self::service(UIDS[0]));
        State {
            left: self.scope,
            world: World {
                nodes: 0,
                serves: true,
                is_slow: false,
            },
            cloud: [None, None],
            may_delete: [false, false],
            is_created_again: false,
            lease: None,
            leader: Store::listed(&server),
            standby: Store::listed(&server),
            server,
            term: None,
            late: Vec::new(),
            violation: None,
        }
    }

    /// The changes that users, operators and the cloud may make.
    fn edits(&self, state: &State, add: &mut Add<'_, State>) {
        let mut base = state.clone();
        base.left.edits -= 1;
        let live = state.server.live();
        if let Some(live) = live.as_ref().filter(|live| live.service.deleted.is_none()) {
            let service = live.view();
            let mut edit = |what: &str, deletes: bool, change: &dyn Fn(&mut ServiceView)| {
                let mut after = base.clone();
                let mut service = (**service).clone();
                change(&mut service);
                let place = place(&service.uid);
                after.may_delete[place] |= deletes;
                let is_gone = service.deleted.is_some() && service.finalizers.is_empty();
                after.server.put((!is_gone).then_some(service));
                add(format_args!("a user {what}"), after);
            };
            edit("changes a port", false, &|service| {
                service.spec.ports[0].port ^= 1;
            });
            if service.is_load_balancer() {
                edit("changes the type to ClusterIP", true, &|service| {
                    service.spec.kind = "ClusterIP".into();
                    service.ingress = [].into();
                });
            } else {
                edit("changes the type to LoadBalancer", false, &|service| {
                    service.spec.kind = "LoadBalancer".into();
                });
            }
            edit("deletes the Service", true, &|service| {
                service.deleted = Some(self.time);
            });
            edit("pauses the Service, or no longer", false, &|service| {
                let value = (!service.is_paused()).then(|| "true".into());
                service.annotations = service
                    .annotations
                    .changed(&[("outrigger.dev/paused".into(), value)]);
            });
        } else if live.is_none() && !state.is_created_again {
            let mut after = base.clone();
            after.is_created_again = true;
            after.server.put(Some(Self::service(UIDS[1])));
            add(format_args!("a user creates the Service again"), after);
        }
        let mut after = base.clone();
        after.world.nodes ^= 1;
        add(format_args!("a Node joins or leaves"), after);
        let mut after = base.clone();
        after.world.is_slow = true;
        add(format_args!("the cloud gets slow"), after);
        let mut after = base;
        after.world.serves ^= true;
        self.other_process(&mut after);
        add(format_args!("the provider declares other classes"), after);
    }

    /// Another process of the provider, perhaps with other declarations (`Sessions::apply`).
    fn other_process(&self, state: &mut State) {
        Self::in_term(state, |term, state| {
            term.calls_fail(self, state);
            term.provider_changed(self, state);
        });
    }

    /// Changes what the leader has in memory, if there is a leader.
    fn in_term(state: &mut State, change: impl FnOnce(&mut Term, &mut State)) {
        if let Some(term) = state.term.take() {
            let mut term = Term::clone(&term);
            change(&mut term, state);
            state.term = Some(Hashed::new(term));
        }
    }

    /// The lease term ends: its writes may still arrive.
    fn end_term(state: &mut State) {
        if let Some(term) = state.term.take()
            && state.left.late_writes > 0
        {
            state.late.extend(term.writes_on_their_way());
            state.late.dedup();
        }
    }

    /// The next term of the last leader, or of the `other` replica.
    fn next_terms(&self, state: &State, other: bool, add: &mut Add<'_, State>) {
        let mut before = state.clone();
        if other {
            std::mem::swap(&mut before.leader, &mut before.standby);
        }
        let who = if other { "other" } else { "same" };
        let mut begin = |mut after: State, has_all: bool| {
            if has_all {
                after.leader.relisted(&state.server, true);
            }
            let term = Term::begin(self, &after);
            after.term = Some(Hashed::new(term));
            let store = if has_all {
                ""
            } else {
                " with a store that lags"
            };
            add(format_args!("the {who} replica leads{store}"), after);
        };
        begin(before.clone(), true);
        if before.left.late_writes > 0 && before.leader.next < state.server.events.len() {
            before.left.late_writes -= 1;
            begin(before, false);
        }
    }

    fn faults(&self, state: &State, add: &mut Add<'_, State>) {
        if state.left.edits > 0 {
            self.edits(state, add);
        }
        if state.left.crashes > 0 && state.term.is_some() {
            let mut after = state.clone();
            after.left.crashes -= 1;
            Self::end_term(&mut after);
            after.leader = Store::listed(&after.server);
            add(
                format_args!("the leader dies, and its successor lists"),
                after,
            );
            let mut after = state.clone();
            after.left.crashes -= 1;
            self.other_process(&mut after);
            add(format_args!("the provider dies, and begins again"), after);
        }
        if state.left.leader_changes > 0 && state.term.is_some() {
            let mut after = state.clone();
            after.left.leader_changes -= 1;
            Self::end_term(&mut after);
            self.next_terms(&after, true, add);
        }
        if state.left.stale_reads > 0 && state.term.is_some() {
            let mut after = state.clone();
            after.left.stale_reads -= 1;
            let changes = after.leader.relisted(&state.server, false);
            Self::in_term(&mut after, |term, state| term.changed(self, state, changes));
            add(
                format_args!("a list of the leader lacks the Service"),
                after,
            );
        }
    }
}

/// The place of what is kept by UID.
fn place(uid: &str) -> usize {
    usize::from(uid == UIDS[1])
}

impl Model for Services {
    type State = State;

    /// A Service that was just made, and one that is as it should be.
    fn begin(&self) -> Vec<State> {
        let created = self.created();
        let mut settled = self.calm(&created);
        loop {
            let mut next = None;
            self.steps(&settled, &mut |_, after| _ = next.get_or_insert(after));
            match next {
                Some(after) => settled = after,
                None => break,
            }
        }
        settled.left = self.scope;
        vec![created, settled]
    }

    fn steps(&self, state: &State, add: &mut Add<'_, State>) {
        let mut add = |words: std::fmt::Arguments<'_>, mut after: State| {
            after.tidy();
            add(words, after);
        };
        if state.leader.next < state.server.events.len() {
            let mut after = state.clone();
            let changes = after.leader.watched(&state.server);
            Self::in_term(&mut after, |term, state| term.changed(self, state, changes));
            add(format_args!("the leader's store has the next event"), after);
        } else if state.leader.held.is_none() && state.server.live().is_some() {
            let mut after = state.clone();
            let changes = after.leader.relisted(&state.server, true);
            Self::in_term(&mut after, |term, state| term.changed(self, state, changes));
            add(format_args!("the leader lists again"), after);
        }
        if state.term.is_some() {
            Term::steps(self, state, &mut add);
        } else {
            self.next_terms(state, false, &mut add);
            self.next_terms(state, true, &mut add);
        }
        if state.standby.next < state.server.events.len() {
            let mut after = state.clone();
            after.standby.watched(&state.server);
            add(
                format_args!("the standby's store has the next event"),
                after,
            );
        }
        let may_arrive = state.left.late_writes > 0;
        for nth in (0..state.late.len()).filter(|_| may_arrive) {
            let mut after = state.clone();
            after.left.late_writes -= 1;
            let write = after.late.remove(nth);
            let answer = after.server.write(&write);
            add(
                format_args!("a write of an earlier term arrives: {answer:?}"),
                after,
            );
        }
        self.faults(state, &mut add);
    }

    fn violation(&self, state: &State) -> Option<&'static str> {
        state.violation
    }

    fn calm(&self, state: &State) -> State {
        let mut calm = state.clone();
        calm.left = Scope::NONE;
        calm.late.clear();
        calm.world.is_slow = false;
        if !calm.world.serves {
            calm.world.serves = true;
            self.other_process(&mut calm);
        }
        if let Some(live) = calm.server.live().filter(|live| live.service.is_paused()) {
            let paused = [("outrigger.dev/paused".into(), None)];
            let annotations = live.service.annotations.changed(&paused);
            let service = ServiceView {
                annotations,
                ..(**live.view()).clone()
            };
            calm.server.put(Some(service));
        }
        calm.tidy();
        calm
    }

    fn missing(&self, state: &State) -> Option<&'static str> {
        let live = state.server.live();
        let capability = self.capability(state.world);
        for (uid, in_cloud) in UIDS.iter().zip(state.cloud) {
            let service = live.as_ref().filter(|live| *live.service.uid == **uid);
            let ownership = service.map(|live| Ownership::of(&live.service, Some(capability)));
            match (service, ownership) {
                (Some(live), Some(Ownership::Provide)) => {
                    let inputs = Hash::of(&live.service, capability);
                    let desired = LoadBalancer {
                        inputs,
                        targets: state.world.nodes,
                    };
                    let record = LastApplied::own(&live.service, capability);
                    if in_cloud != Some(desired) {
                        return Some("the load balancer is not what its Service wants");
                    }
                    if live.service.ingress.is_empty() || !live.service.has_finalizer() {
                        return Some("the Service lacks its address or its finalizer");
                    }
                    if !record.is_some_and(|record| record.has_hash()) {
                        return Some("the Service has no record of its load balancer");
                    }
                    let facts = self.facts(state.world, state.world.nodes, state.lease);
                    if Progress::default().next(self.time, &live.service, &facts) != Step::Idle {
                        return Some("a restart would not leave a settled Service alone");
                    }
                }
                _ if in_cloud.is_some() => {
                    return Some("a load balancer is left that no Service wants");
                }
                (Some(live), _) if live.service.has_finalizer() => {
                    return Some("a Service that wants no load balancer keeps the finalizer");
                }
                _ => {}
            }
        }
        None
    }
}

impl State {
    /// Forgets what no replica can see any more, and numbers the versions again, so that equal states are one.
    fn tidy(&mut self) {
        let read = self
            .leader
            .next
            .min(self.standby.next)
            .min(self.server.events.len() - 1);
        self.server.events.drain(..read);
        self.leader.next -= read;
        self.standby.next -= read;
        self.late
            .sort_by_key(|write| (write.planned_on.version, format!("{:?}", write.patch)));
        self.late.dedup();
        let mut versions = Vec::new();
        self.each_version(&mut |version| versions.push(*version));
        versions.sort_unstable();
        versions.dedup();
        if versions.iter().copied().eq(1..=versions.len() as u16) {
            return;
        }
        self.each_version(&mut |version| {
            *version = 1 + versions.partition_point(|other| *other < *version) as u16;
        });
    }

    fn each_version(&mut self, act: &mut dyn FnMut(&mut u16)) {
        self.server
            .events
            .iter_mut()
            .for_each(|event| act(&mut event.version));
        let held = [&mut self.leader.held, &mut self.standby.held];
        held.into_iter()
            .flatten()
            .for_each(|held| act(&mut held.version));
        self.late
            .iter_mut()
            .for_each(|write| act(&mut write.planned_on.version));
        if let Some(term) = &self.term {
            let mut changed = Term::clone(term);
            let mut is_other = false;
            changed.each_version(&mut |version| {
                let before = *version;
                act(version);
                is_other |= before != *version;
            });
            if is_other {
                self.term = Some(Hashed::new(changed));
            }
        }
    }
}
