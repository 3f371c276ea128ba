//! The loop over such a world, as its executor will be: a store that lags behind, one question at a
//! time for each node, and an observer that knows better than the loop what it may do.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    super::at,
    plan::{Fate, Kind, Plan, SMOOTH},
    world::World,
};
use crate::node::{
    NodeView, Ready,
    change::TaintAddition,
    deletion_limit::{Counts, DeletionLimits, Release},
    initialize::Policy,
    instance::{Instance, Lookup, PowerState},
    lifecycle::{Check, Deletion, Lifecycle, LifecycleAction, LifecycleFacts},
    ownership::{NodeScope, Prefixes},
    refresh,
};

const WINDOW: u64 = 300;
/// All nodes are refreshed once in so many seconds, mostly, from a snapshot that is so old.
pub(super) const REFRESH: u64 = 300;
pub(super) const SNAPSHOT: u64 = 30;

/// Work in flight for one node.
enum Job {
    Question(Question),
    Deletion(Deletion, u64, Box<Question>),
    OutOfService(TaintAddition, u64, Arc<NodeView>),
}

struct Question {
    node: Arc<NodeView>,
    asked_at: u64,
    fate: Fate,
    /// When the cloud was asked, and what it said.
    answer: Option<(u64, Option<Lookup>)>,
}

pub(super) struct Controller {
    lifecycle: Lifecycle,
    confirm: u32,
    visible: u64,
    refresh: u64,
    prefixes: Prefixes,
    foreign_prefix_seen: bool,
    out_of_service_after: u64,
    fates: Vec<Fate>,
    fate: usize,
    /// True once nothing goes wrong any more.
    calm: bool,
    store: BTreeMap<String, Arc<NodeView>>,
    /// News on its way, in order.
    news: VecDeque<(u64, String, Option<NodeView>)>,
    jobs: HashMap<String, Job>,
    /// When each name is looked at next; woken by news.
    due: HashMap<String, u64>,
    not_managed: HashMap<String, (Box<str>, Box<str>)>,
    /// By UID, when the store last showed it ready.
    ready: HashMap<Box<str>, u64>,
    /// By UID, how often in a row the cloud confirmed its absence.
    confirmed: HashMap<Box<str>, u32>,
    /// By UID, how many such answers have come since any answer, to either loop, was another.
    agreed: HashMap<Box<str>, u32>,
    /// By UID, since when all answers, to either loop, were that it is stopped, and how many there were.
    stopped: HashMap<Box<str>, (u64, u32)>,
    /// Name, when, and why the rate limit allowed it.
    pub(super) deletions: Vec<(String, u64, Release)>,
}

impl Controller {
    pub(super) fn new(plan: &Plan) -> Self {
        let limits = DeletionLimits {
            confirm: plan.confirm,
            ..DeletionLimits::default()
        };
        assert_eq!(limits.window, Duration::from_secs(WINDOW));
        Self {
            lifecycle: Lifecycle::new(limits),
            confirm: plan.confirm,
            visible: plan.visible,
            refresh: plan.refresh,
            prefixes: Prefixes::new("mock", [""; 0]).unwrap(),
            foreign_prefix_seen: plan.foreign_prefix_seen,
            out_of_service_after: plan.out_of_service_after,
            fates: plan.fates.clone(),
            fate: 0,
            calm: false,
            store: BTreeMap::new(),
            news: VecDeque::new(),
            jobs: HashMap::new(),
            due: HashMap::new(),
            not_managed: HashMap::new(),
            ready: HashMap::new(),
            confirmed: HashMap::new(),
            agreed: HashMap::new(),
            stopped: HashMap::new(),
            deletions: Vec::new(),
        }
    }

    fn fate(&mut self) -> Fate {
        if self.calm {
            return SMOOTH;
        }
        self.fate += 1;
        self.fates[self.fate % self.fates.len()]
    }

    /// Another process serves from now on, without faults: all questions are asked again.
    pub(super) fn calm(&mut self, now: u64) {
        self.calm = true;
        self.not_managed.clear();
        for job in self.jobs.values_mut() {
            if let Job::Question(question) = job {
                question.answer = Some((now, None));
            }
        }
        self.due = self.store.keys().map(|name| (name.clone(), now)).collect();
    }

    /// One second.
    pub(super) fn run(&mut self, world: &mut World) {
        self.observe(world);
        for name in self.jobs.keys().cloned().collect::<Vec<_>>() {
            self.go_on(world, &name);
        }
        let is_due =
            |name: &String, due: &mut u64| *due <= world.now && !self.jobs.contains_key(name);
        let due: Vec<String> = self.due.extract_if(is_due).map(|(name, _)| name).collect();
        for name in due {
            self.look(world, &name);
        }
        if world.now.is_multiple_of(self.refresh) {
            self.refresh(world);
        }
    }

    fn observe(&mut self, world: &mut World) {
        for name in std::mem::take(&mut world.changed) {
            let lag = u64::from(self.fate().lag);
            let due = (world.now + lag).max(self.news.back().map_or(0, |(due, ..)| *due));
            let node = world.nodes.get(&name).cloned();
            self.news.push_back((due, name, node));
        }
        let now = at(world.now as i64);
        while let Some((_, name, node)) = self.news.pop_front_if(|(due, ..)| *due <= world.now) {
            self.due.insert(name.clone(), world.now);
            for node in [self.store.get(&name).map(|node| &**node), node.as_ref()] {
                if let Some(node) = node.filter(|node| node.ready == Ready::True) {
                    self.ready.insert(node.uid.clone(), world.now);
                }
            }
            if let Some(node) = node {
                self.store.insert(name, Arc::new(node));
            } else {
                self.store.remove(&name);
                self.not_managed.remove(&name);
                self.lifecycle.removed(now, &name);
            }
        }
    }

    fn with<T>(
        &mut self,
        now: Timestamp,
        node: &NodeView,
        call: impl FnOnce(&mut Lifecycle, &LifecycleFacts<'_>) -> T,
    ) -> T {
        let scope = NodeScope {
            prefixes: &self.prefixes,
            selector: None,
            foreign_prefix_seen: self.foreign_prefix_seen,
        };
        let answered_for = self.not_managed.get(&*node.name);
        let facts = LifecycleFacts {
            scope,
            nodes: self.store.values().filter(|node| scope.owns(node)).count(),
            visibility_delay: Duration::from_secs(self.visible),
            time_of_day: now,
            out_of_service_after: Duration::from_secs(self.out_of_service_after),
            not_managed: answered_for
                .is_some_and(|(uid, id)| (uid, id) == (&node.uid, &node.provider_id)),
        };
        call(&mut self.lifecycle, &facts)
    }

    fn look(&mut self, world: &mut World, name: &str) {
        let Some(node) = self.store.get(name).cloned() else {
            return;
        };
        let now = at(world.now as i64);
        let check = self.with(now, &node, |lifecycle, facts| {
            lifecycle.check(now, &node, facts)
        });
        self.next(world, &node, check);
    }

    fn next(&mut self, world: &mut World, node: &Arc<NodeView>, check: Check) {
        let name = node.name.to_string();
        match check {
            Check::Ask => {
                let question = Question {
                    node: Arc::clone(node),
                    asked_at: world.now,
                    fate: self.fate(),
                    answer: None,
                };
                self.jobs.insert(name, Job::Question(question));
            }
            Check::RemoveTaints(change) => {
                assert_eq!(node.ready, Ready::True);
                world.remove_taints(&name, &change);
            }
            Check::At(time) => {
                let wait = time.duration_since(at(world.now as i64)).as_secs();
                assert!(wait > 0, "a wait that is over");
                let due = self.due.entry(name).or_insert(u64::MAX);
                *due = (*due).min(world.now + wait as u64);
            }
            Check::Idle(_) => {}
        }
    }

    fn go_on(&mut self, world: &mut World, name: &str) {
        match self.jobs.remove(name).unwrap() {
            Job::Question(mut question) => {
                let asks = question.asked_at + u64::from(question.fate.there);
                if question.answer.is_none() && world.now >= asks {
                    question.answer = Some((world.now, self.answer(world, &question)));
                }
                if question.answer.is_some() && world.now >= asks + u64::from(question.fate.back) {
                    self.answered(world, name, question);
                } else {
                    self.jobs.insert(name.to_owned(), Job::Question(question));
                }
            }
            Job::Deletion(deletion, due, why) if due <= world.now => {
                let trouble = self.fate().kind == Kind::Error;
                let said = trouble.then(|| "degraded".into());
                let look = self.lifecycle.last_look(&why.node, &deletion, said);
                if look.is_err() {
                    return;
                }
                let is_agreed = self.agreed.get(&deletion.uid) >= Some(&self.confirm);
                let by_operator = deletion.release == Release::Operator;
                assert!(
                    by_operator || (is_agreed && !trouble),
                    "found since the first absence, or {trouble}: {name}"
                );
                if let Some(node) = world.delete(name, &deletion) {
                    self.lifecycle.deleted(at(world.now as i64), &node);
                    self.inspect_deleted(world, &node, &deletion, &why);
                }
            }
            Job::OutOfService(taint, due, node) if due <= world.now => {
                if self.lifecycle.last_look_at_stop(&node, None).is_err() {
                    return;
                }
                let (since, answers) = self.stopped[&taint.uid];
                let lasted = world.now - since;
                assert!(
                    lasted >= self.out_of_service_after && answers >= 2,
                    "{name} was stopped for {lasted} s, by {answers} answers"
                );
                world.add_taint(name, &taint);
                let held = world.nodes.get(name);
                if held.is_some_and(|held| held.taints.contains(&taint.taint)) {
                    assert_ne!(held.unwrap().ready, Ready::True);
                    let now = at(world.now as i64);
                    self.lifecycle.taken_out_of_service(now, &node.name);
                }
            }
            job @ (Job::Deletion(..) | Job::OutOfService(..)) => {
                self.jobs.insert(name.to_owned(), job);
            }
        }
    }

    fn answer(&mut self, world: &World, question: &Question) -> Option<Lookup> {
        let node = &question.node;
        match question.fate.kind {
            Kind::Right => {
                let lookup = world.lookup(node, world.now);
                if lookup == (Lookup::Absent { confirmed: true }) {
                    *self.confirmed.entry(node.uid.clone()).or_default() += 1;
                }
                Some(lookup)
            }
            Kind::Stale(age) => Some(stale(world, node, u64::from(age))),
            Kind::NotVisible => Some(Lookup::Absent { confirmed: false }),
            Kind::Mistaken => Some(Lookup::Found(Box::new(Instance {
                provider_id: "mock://another".into(),
                ..Instance::default()
            }))),
            Kind::NotManaged => Some(Lookup::NotManaged { reason: "".into() }),
            Kind::Error => None,
        }
    }

    fn answered(&mut self, world: &mut World, name: &str, question: Question) {
        let Some(node) = self.store.get(name).cloned() else {
            return;
        };
        let now = at(world.now as i64);
        let (_, answer) = question.answer.as_ref().unwrap();
        if let Some(Lookup::Found(_) | Lookup::Absent { confirmed: false }) = answer {
            self.confirmed.remove(&node.uid);
            self.agreed.remove(&node.uid);
        }
        if let Some(Lookup::Absent { confirmed: true }) = answer {
            *self.agreed.entry(node.uid.clone()).or_default() += 1;
        }
        if answer
            .as_ref()
            .is_some_and(|answer| answer.is_stopped(&node))
        {
            let (_, answers) = self
                .stopped
                .entry(node.uid.clone())
                .or_insert((world.now, 0));
            *answers += 1;
        } else {
            self.stopped.remove(&node.uid);
        }
        let verdict = self.with(now, &node, |lifecycle, facts| {
            lifecycle.answered(now, &node, &question.node, answer.as_ref(), facts)
        });
        match verdict.action {
            LifecycleAction::Delete(deletion) => {
                self.inspect(world, &node, &question);
                let due = world.now + u64::from(question.fate.lag);
                let why = Box::new(question);
                let job = Job::Deletion(deletion, due, why);
                self.jobs.insert(name.to_owned(), job);
            }
            LifecycleAction::AddShutdownTaint(addition) => {
                assert_ne!(node.ready, Ready::True);
                world.add_taint(name, &addition);
            }
            LifecycleAction::NotManaged { .. } => {
                let question = (node.uid.clone(), node.provider_id.clone());
                self.not_managed.insert(name.to_owned(), question);
            }
            LifecycleAction::TakeOutOfService(taint) => {
                let what = format!("{node:?} at {}", world.now);
                assert_eq!(node.ready, Ready::Unknown, "{what}");
                assert_eq!(question.node.ready_since, node.ready_since, "{what}");
                assert!(!node.is_paused() && node.is_shut_down(), "{what}");
                assert!(
                    !(node.provider_id.is_empty() && self.foreign_prefix_seen),
                    "{what}"
                );
                let due = world.now + u64::from(question.fate.lag);
                self.jobs.insert(
                    name.to_owned(),
                    Job::OutOfService(taint, due, Arc::clone(&node)),
                );
            }
            LifecycleAction::Keep
            | LifecycleAction::KeepInService(_)
            | LifecycleAction::Withhold(_)
            | LifecycleAction::Inconclusive(_) => {}
        }
        self.next(world, &node, verdict.next);
    }

    /// Invariants of a decision to delete.
    fn inspect(&self, world: &World, node: &NodeView, question: &Question) {
        let now = world.now;
        let (sampled, _) = question.answer.as_ref().unwrap();
        let what = format!("{node:?} at {now}");
        assert_eq!(question.fate.kind, Kind::Right, "{what}");
        assert!(
            world.machine_of(&question.node, *sampled).is_none(),
            "the instance existed: {what}"
        );
        assert_eq!(question.node.uid, node.uid, "{what}");
        assert_eq!(question.node.provider_id, node.provider_id, "{what}");
        assert_ne!(node.ready, Ready::True, "{what}");
        let ready = self.ready.get(&node.uid);
        assert!(
            ready.is_none_or(|ready| *ready <= question.asked_at),
            "ready since the question: {what}"
        );
        assert!(self.confirmed[&node.uid] >= self.confirm, "{what}");
        assert!(!node.is_paused(), "{what}");
        assert!(
            !(node.provider_id.is_empty() && self.foreign_prefix_seen),
            "{what}"
        );
        let visible = node.created + Duration::from_secs(self.visible);
        assert!(at(now as i64) >= visible, "too young: {what}");
    }

    /// Invariants of a deletion in the API server.
    fn inspect_deleted(
        &mut self,
        world: &World,
        node: &NodeView,
        deletion: &Deletion,
        question: &Question,
    ) {
        let now = world.now;
        let id_comes_again = !node.provider_id.contains('-');
        assert!(
            id_comes_again || world.machine_of(node, now).is_none(),
            "the instance exists: {node:?} at {now}, asked at {}",
            question.asked_at
        );
        assert_eq!(deletion.resource_version, node.resource_version);
        // A node that came back at the very last moment no longer counts.
        if node.ready == Ready::True {
            return;
        }
        let deletion = (node.name.to_string(), now, deletion.release);
        self.deletions.push(deletion);
        let within = self
            .deletions
            .iter()
            .filter(|(_, at, release)| *release == Release::WithinLimit && at + WINDOW > now);
        let within = within.count();
        let nodes = world.nodes.len() + within;
        let limit = (nodes / 10).max(3);
        assert!(within <= limit, "{within} of {nodes} deleted at {now}");
    }

    /// The other loop's snapshot.
    fn refresh(&mut self, world: &mut World) {
        for node in self.store.values().cloned().collect::<Vec<_>>() {
            let kind = self.fate().kind;
            let lookup = match kind {
                Kind::Right | Kind::Stale(_) => stale(world, &node, SNAPSHOT),
                Kind::NotVisible => Lookup::Absent { confirmed: false },
                Kind::Mistaken | Kind::NotManaged | Kind::Error => continue,
            };
            let now = at(world.now as i64);
            self.lifecycle.observed(now, &node, &lookup);
            if let Lookup::Found(instance) = &lookup {
                self.agreed.remove(&node.uid);
                if instance.power_state == PowerState::Running && !instance.is_other_than(&node) {
                    self.stopped.remove(&node.uid);
                }
                let plan = refresh::plan(&node, instance, &Policy::default());
                world.refresh(&node, &plan);
            }
        }
    }

    pub(super) fn counts(&mut self, world: &World) -> Counts {
        let now = at(world.now as i64);
        self.lifecycle.counts(now, world.nodes.len())
    }
}

/// An answer from a cache: an absence is never certain.
fn stale(world: &World, node: &NodeView, age: u64) -> Lookup {
    match world.lookup(node, world.now.saturating_sub(age)) {
        Lookup::Absent { .. } => Lookup::Absent { confirmed: false },
        lookup => lookup,
    }
}
