//! One stage: a cluster whose Services, targets and routes follow a trace, with a look at the provider after each turn.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use futures::future::join_all;
use ipnet::IpNet;
use outrigger_api::v1::{LoadBalancerAnswer, LoadBalancerStatus, Node, Route, Service};
use tokio::time::sleep;

use super::{
    desired::{Act, Desired, Spec},
    job::{Done, Job, Nodes, complete, delete, perform},
    look,
    rule::Rule,
    state::Identities,
    trace::{Change, Fault, Field, Mark, Name, Target, Turn},
    world::World,
};
use crate::{
    call_error::CallError,
    subject::{NAMESPACE, Subject, destination, leads_to, uid_of},
    verdict::{Failure, Stop, Verdict},
};

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule.
    pub rule: Rule,
    /// The turn after which it does not, from 1; none: at the end.
    pub turn: Option<usize>,
    /// The answer that the contract asks for.
    pub expected: String,
    /// The answer of the provider.
    pub actual: String,
}

impl Broken {
    pub(super) fn new(rule: Rule, expected: impl fmt::Display, actual: impl fmt::Display) -> Self {
        Self {
            rule,
            turn: None,
            expected: expected.to_string(),
            actual: actual.to_string(),
        }
    }

    pub(super) fn stopped(rule: Rule, stop: &Stop) -> Self {
        match stop {
            Stop::Failed(Failure { expected, actual }) => Self::new(rule, expected, actual),
            Stop::Skipped(reason) => Self::new(rule, "there is something to judge", reason),
        }
    }
}

/// The cluster of a stage, and what the provider said of it.
pub(super) struct Stage<'a> {
    pub(super) subject: Subject,
    world: &'a World,
    pub(super) desired: Desired,
    pub(super) lives: BTreeMap<Name, Life>,
    /// Load balancers of deleted Services that may be there still.
    dying: Vec<(Name, Service)>,
    /// All Services that have been deleted for good.
    pub(super) gone: Vec<(Name, Service)>,
    pub(super) routes: BTreeMap<usize, Way>,
    destinations: Vec<IpNet>,
    names: BTreeMap<Name, String>,
    /// Machines as targets of routes.
    machines: Vec<Node>,
    /// `LoadBalancersCapability.configuration_revision` of the process.
    revision: String,
    /// UIDs of load balancers that were listed before.
    pub(super) others: BTreeSet<String>,
}

/// One Service from its first call to its deletion.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) service: Service,
    /// The last fields that were READY, while there is a load balancer.
    served: Option<Spec>,
    /// The last answer READY.
    pub(super) ready: LoadBalancerAnswer,
    /// The last call about it has ended.
    pub(super) settled: bool,
    /// A load balancer is desired.
    pub(super) balanced: bool,
}

/// A route.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The Node that it leads to.
    pub(super) node: Option<Node>,
    /// The last call about it has ended.
    pub(super) settled: bool,
}

impl<'a> Stage<'a> {
    /// Nothing is there yet.
    pub(super) async fn new(
        subject: &Subject,
        world: &'a World,
        destinations: Vec<IpNet>,
    ) -> Verdict<Self> {
        let subject = subject.connect().await?;
        let mut others = BTreeSet::new();
        if subject.load_balancers().list {
            let listed = subject.listed_services(None).await?;
            others.extend(listed.into_iter().map(|tag| tag.uid));
        }
        let machines = if destinations.is_empty() {
            Vec::new()
        } else {
            subject.route_targets().await?
        };
        let names = world.names.iter().map(|name| (*name, subject.name()));
        Ok(Self {
            names: names.collect(),
            desired: Desired::new(world),
            lives: BTreeMap::new(),
            dying: Vec::new(),
            gone: Vec::new(),
            routes: BTreeMap::new(),
            machines,
            revision: subject.load_balancers().configuration_revision,
            subject,
            world,
            destinations,
            others,
        })
    }

    /// The words that stand for what is another one in each stage.
    pub(super) fn identities(&self) -> Identities {
        let mut identities = Identities::default();
        let lives = self.lives.iter().map(|(name, life)| (*name, &life.service));
        for (name, service) in lives.chain(self.gone.iter().map(|(name, one)| (*name, one))) {
            identities.uid(&service.uid, &format!("UID of {name}"));
        }
        for (name, text) in &self.names {
            identities.text(text, &name.to_string());
        }
        for (number, to) in self.destinations.iter().enumerate() {
            identities.text(
                &to.to_string(),
                &format!("destination{}{number}", look::OF_ROUTE),
            );
        }
        for (name, life) in &self.lives {
            let identity = life.ready.identity.clone().unwrap_or_default();
            identities.text(&identity.id, &format!("ID of {name}"));
            identities.text(&identity.name, &format!("name of {name}"));
            for point in ingress(&life.ready) {
                identities.text(&point.ip, &format!("address of {name}"));
                identities.text(&point.hostname, &format!("host of {name}"));
            }
        }
        identities
    }

    /// Carries a turn out, and looks at the provider.
    pub(super) async fn turn(&mut self, turn: &Turn) -> Result<(), Broken> {
        let world = self.world;
        let mut acts = Vec::new();
        for step in &turn.0 {
            let act = self.desired.apply(&step.change, world);
            let keeps = keeps_addresses(&step.change);
            acts.push((act, step.fault, keeps));
        }
        self.carry_out(acts).await
    }

    /// Ends all that was left unsettled.
    pub(super) async fn settle(&mut self) -> Result<(), Broken> {
        let mut acts: Vec<_> = self
            .lives
            .iter()
            .filter(|(_, life)| !life.settled)
            .map(|(name, life)| {
                if life.balanced {
                    Act::Ensure(*name)
                } else {
                    Act::Delete(*name)
                }
            })
            .collect();
        let routes = self.routes.iter().filter(|(_, way)| !way.settled);
        acts.extend(routes.map(|(number, way)| match way.node {
            Some(_) => Act::Route(*number),
            None => Act::NoRoute(*number),
        }));
        for act in acts {
            self.carry_out(vec![(act, None, false)]).await?;
        }
        self.end_dying(None).await
    }

    /// Makes what a stage that has ended desires, one after the other.
    pub(super) async fn make(&mut self, desired: Desired) -> Result<(), Broken> {
        let services = desired.balanced().map(|(name, _)| Act::Ensure(name));
        let routes = desired.routes.keys().map(|number| Act::Route(*number));
        let acts: Vec<_> = services.chain(routes).collect();
        let before = desired.clone();
        self.desired = desired;
        for act in acts {
            self.carry_out(vec![(act, None, false)]).await?;
        }
        if before == self.desired {
            return Ok(());
        }
        let expected = "a new Service is taken with the fields that a changed one has";
        Err(Broken::new(Rule::Fresh, expected, "it is refused"))
    }

    async fn carry_out(&mut self, acts: Vec<(Act, Option<Fault>, bool)>) -> Result<(), Broken> {
        let mut jobs = Vec::new();
        // A call that was not waited for may run still, and its end be the answer to the next one.
        let others_run = !self.unsettled().is_empty();
        let mut restarted = false;
        for (act, fault, keeps) in acts {
            restarted |= matches!(fault, Some(Fault::Kill(_))) || act == Act::Restart;
            if let Some(job) = self.job(act).await? {
                jobs.push((job, fault, keeps));
            }
        }
        let nodes = Nodes {
            now: self.nodes(),
            races: jobs.len() > 1 || others_run,
        };
        let calls = jobs
            .iter()
            .map(|(job, fault, _)| perform(&self.subject, job, &nodes, *fault));
        let done = join_all(calls).await;
        if restarted {
            let again = self.subject.connect().await;
            self.subject = again.map_err(|stop| Broken::stopped(Rule::Process, &stop))?;
            self.ensure_reconfigured(&nodes.now).await?;
        }
        for (done, (job, _, keeps)) in done.into_iter().zip(jobs) {
            self.take(job, done?, keeps && !restarted).await?;
        }
        look::after_turn(self).await
    }

    /// Ensures all load balancers of a new process that has another `configuration_revision`, as the controller does.
    async fn ensure_reconfigured(&mut self, nodes: &[Node]) -> Result<(), Broken> {
        let revision = self.subject.load_balancers().configuration_revision;
        if std::mem::replace(&mut self.revision, revision.clone()) == revision {
            return Ok(());
        }
        let nodes = Nodes {
            now: nodes.to_vec(),
            ..Nodes::default()
        };
        let lost: Vec<_> = self
            .lives
            .iter()
            .filter(|(_, life)| life.balanced && life.served.is_some())
            .map(|(name, life)| Job::Ensure(*name, life.service.clone()))
            .collect();
        for job in lost {
            let done = complete(&self.subject, &job, &nodes).await?;
            self.take(job, done, false).await?;
        }
        Ok(())
    }

    /// The calls that an act asks for.
    async fn job(&mut self, act: Act) -> Result<Option<Job>, Broken> {
        let stopped = |stop| Broken::stopped(Rule::Process, &stop);
        Ok(match act {
            Act::Nothing => None,
            Act::Wait(time) => {
                sleep(Duration::from_millis(time)).await;
                None
            }
            Act::Restart => {
                self.subject.restart().await.map_err(stopped)?;
                self.subject = self.subject.connect().await.map_err(stopped)?;
                None
            }
            Act::Ensure(name) => {
                self.end_dying(Some(name)).await?;
                let service = self.service(name);
                Some(Job::Ensure(name, service))
            }
            Act::Delete(name) => {
                let for_good = !self.desired.services.contains_key(&name);
                self.lives.get_mut(&name).map(|life| {
                    life.balanced = false;
                    life.settled = false;
                    if !for_good {
                        "ClusterIP".clone_into(&mut life.service.r#type);
                    }
                    Job::Delete(name, life.service.clone(), for_good)
                })
            }
            Act::Update => {
                let lives = self.lives.iter();
                let served = lives.filter(|(_, life)| life.balanced && life.settled);
                let services: Vec<_> = served
                    .map(|(name, life)| (*name, life.service.clone()))
                    .collect();
                (!services.is_empty()).then_some(Job::Update(services))
            }
            Act::Route(number) | Act::NoRoute(number) => Some(self.route(number).await?),
            Act::Blackhole(number) => {
                look::blackhole(self, number).await?;
                Some(self.route(number).await?)
            }
        })
    }

    /// The Service of a name as it is desired, with its status.
    fn service(&mut self, name: Name) -> Service {
        let spec = self.desired.services.get(&name).cloned();
        let spec = spec.unwrap_or_else(|| Spec::new(name, self.world));
        let deleted = self.gone.iter().filter(|(other, _)| *other == name).count();
        let named = self.names.get(&name).cloned().unwrap_or_default();
        let life = self.lives.entry(name).or_insert_with(|| Life {
            service: Service {
                namespace: NAMESPACE.to_owned(),
                uid: uid_of(&format!("{named}/{deleted}")),
                name: named,
                ..Service::default()
            },
            served: None,
            ready: LoadBalancerAnswer::default(),
            settled: false,
            balanced: true,
        });
        life.balanced = true;
        life.settled = false;
        let inputs = self.subject.inputs();
        let other = spec.annotations.checked_sub(1);
        let other = other.and_then(|index| inputs.explore.annotations.get(index));
        let annotations = inputs.services.annotations.iter();
        let annotations = annotations.chain(other.into_iter().flatten());
        let service = &mut life.service;
        service.annotations = annotations.map(|(k, v)| (k.clone(), v.clone())).collect();
        "LoadBalancer".clone_into(&mut service.r#type);
        service.ports = spec
            .ports
            .iter()
            .map(super::trace::Port::of_service)
            .collect();
        service.load_balancer_class.clone_from(&spec.class);
        let policy = spec.local.map_or("Cluster", |_| "Local");
        policy.clone_into(&mut service.external_traffic_policy);
        service.health_check_node_port = spec.local.unwrap_or_default();
        let affinity = spec.affinity.map_or("None", |_| "ClientIP");
        affinity.clone_into(&mut service.session_affinity);
        service.session_affinity_timeout = spec
            .affinity
            .map(|seconds| prost_types::Duration { seconds, nanos: 0 });
        service.load_balancer_source_ranges.clone_from(&spec.ranges);
        service.ip_families.clone_from(&spec.families);
        let stack = if spec.families.len() > 1 {
            "RequireDualStack"
        } else {
            "SingleStack"
        };
        stack.clone_into(&mut service.ip_family_policy);
        self.subject.leftovers().expect(service.clone());
        service.clone()
    }

    /// The nodes that load balancers send to.
    pub(super) fn nodes(&self) -> Vec<Node> {
        let machines = self.subject.target_nodes();
        let node = |target: &Target| {
            let index = machines.iter().position(|node| node.name == target.node)?;
            let mut node = machines.get(index)?.clone();
            match target.mark {
                None => {}
                Some(Mark::Moved) => {
                    for address in &mut node.addresses {
                        address.address = address.address.replacen("10.0.", "10.1.", 1);
                    }
                }
                Some(Mark::New) => node.provider_id.clear(),
                Some(Mark::Replaced) => {
                    let next = machines.get(index + 1)?;
                    node.provider_id.clone_from(&next.provider_id);
                    node.system_uuid.clone_from(&next.system_uuid);
                    node.addresses.clone_from(&next.addresses);
                }
            }
            Some(node)
        };
        self.desired.nodes.iter().filter_map(node).collect()
    }

    /// The calls that make a route as it is desired, from the list.
    async fn route(&mut self, number: usize) -> Result<Job, Broken> {
        let Some(to) = self.destinations.get(number).copied() else {
            let expected =
                format!("cluster.podCIDRs has a part without a route, for route {number}");
            return Err(Broken::new(Rule::Routes, expected, "it has none"));
        };
        let desired = self.desired.routes.get(&number);
        let node = desired.and_then(|name| self.machines.iter().find(|node| node.name == *name));
        let node = node.cloned();
        let listed = self.subject.list_routes().await;
        let listed = listed.map_err(|stop| Broken::stopped(Rule::Routes, &stop))?;
        let is_wrong = |route: &Route| {
            let leads = node.as_ref().is_some_and(|node| leads_to(route, node));
            !leads || route.blackhole
        };
        let wrong = listed
            .into_iter()
            .filter(|route| destination(route) == Some(to));
        let wrong = wrong.filter(is_wrong).collect();
        let create = node.as_ref().map(|node| self.subject.route(to, node));
        let settled = false;
        self.routes.insert(number, Way { node, settled });
        Ok(Job::Routes(number, wrong, create))
    }

    /// The destination of a route.
    pub(super) fn destination(&self, number: usize) -> Option<IpNet> {
        self.destinations.get(number).copied()
    }

    /// Takes the end of a step.
    async fn take(&mut self, job: Job, done: Done, keeps_addresses: bool) -> Result<(), Broken> {
        match (done, job) {
            (Done::Ready(answers), _) => {
                for (name, answer) in answers {
                    self.take_ready(name, answer, keeps_addresses)?;
                }
            }
            (Done::Refused(name, error), _) => self.undo(name, &error).await?,
            (Done::Gone(name, for_good), _) => self.take_gone(name, for_good),
            (Done::Routed(number), _) => {
                if let Some(way) = self.routes.get_mut(&number) {
                    way.settled = true;
                }
            }
            (Done::RouteRefused(number, error), _) => self.take_refused_route(number, &error)?,
            (Done::Unsettled, Job::Delete(name, service, true)) => {
                self.lives.remove(&name);
                self.dying.push((name, service));
            }
            (Done::Unsettled, Job::Update(services)) => {
                for (name, _) in services {
                    if let Some(life) = self.lives.get_mut(&name) {
                        life.settled = false;
                    }
                }
            }
            (Done::Unsettled, _) => {}
        }
        Ok(())
    }

    fn take_ready(
        &mut self,
        name: Name,
        answer: LoadBalancerAnswer,
        keeps_addresses: bool,
    ) -> Result<(), Broken> {
        let Some(life) = self.lives.get_mut(&name) else {
            return Ok(());
        };
        let was_served = life.served.is_some();
        life.settled = true;
        life.served = self.desired.services.get(&name).cloned();
        // An update need not say the status.
        if ingress(&answer).is_empty() {
            if was_served {
                return Ok(());
            }
            let expected = format!("{name}: READY with an address");
            return Err(Broken::new(
                Rule::Get,
                expected,
                crate::subject::describe(&answer),
            ));
        }
        let before = addresses(&life.ready);
        let now = addresses(&answer);
        if keeps_addresses && was_served && before != now {
            let expected = format!("{name}: the addresses {before:?} stay");
            return Err(Broken::new(Rule::Addresses, expected, format!("{now:?}")));
        }
        let identity = answer.identity.clone().or(life.ready.identity.clone());
        life.service.status.clone_from(&answer.status);
        life.ready = LoadBalancerAnswer { identity, ..answer };
        self.subject.leftovers().expect(life.service.clone());
        Ok(())
    }

    fn take_gone(&mut self, name: Name, for_good: bool) {
        if for_good {
            let life = self.lives.remove(&name);
            self.gone.extend(life.map(|life| (name, life.service)));
        } else if let Some(life) = self.lives.get_mut(&name) {
            life.settled = true;
            life.served = None;
            life.service.status = Some(LoadBalancerStatus::default());
            life.ready = LoadBalancerAnswer::default();
        }
    }

    /// A route that lies in another one, or has another one in it, may be refused.
    fn take_refused_route(&mut self, number: usize, error: &CallError) -> Result<(), Broken> {
        let own = self.destination(number);
        let overlaps = |other: &usize| {
            let other = self.destination(*other);
            let both = own.zip(other);
            both.is_some_and(|(own, other)| {
                own != other && (own.contains(&other) || other.contains(&own))
            })
        };
        if !self.routes.keys().any(overlaps) {
            let expected = format!("route {number}: CreateRoute makes it");
            return Err(Broken::new(Rule::Ended, expected, error));
        }
        self.desired.routes.remove(&number);
        let way = Way {
            node: None,
            settled: true,
        };
        self.routes.insert(number, way);
        Ok(())
    }

    /// The user takes a change back that was refused, or deletes the new Service.
    async fn undo(&mut self, name: Name, error: &CallError) -> Result<(), Broken> {
        let refused = self.desired.services.get(&name).cloned();
        let served = self.lives.get(&name).and_then(|life| life.served.clone());
        if refused.is_some_and(|spec| spec.is_usual(served.as_ref(), self.world)) {
            let expected = format!("{name}: a Service with TCP ports and no more is served");
            return Err(Broken::new(Rule::Ended, expected, error));
        }
        let job = if let Some(spec) = served {
            self.desired.services.insert(name, spec);
            Job::Ensure(name, self.service(name))
        } else {
            self.desired.services.remove(&name);
            Job::Delete(name, self.service(name), true)
        };
        let nodes = Nodes {
            now: self.nodes(),
            ..Nodes::default()
        };
        match complete(&self.subject, &job, &nodes).await? {
            Done::Refused(name, error) => {
                let expected =
                    format!("{name}: what was served before a refused change is served after it");
                Err(Broken::new(Rule::Ended, expected, error))
            }
            Done::Ready(answers) => {
                for (name, answer) in answers {
                    self.take_ready(name, answer, false)?;
                }
                Ok(())
            }
            Done::Gone(name, for_good) => {
                self.take_gone(name, for_good);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends the deletions of a name, or all.
    async fn end_dying(&mut self, name: Option<Name>) -> Result<(), Broken> {
        let is_of = |dying: &mut (Name, Service)| name.is_none_or(|name| dying.0 == name);
        let dying: Vec<_> = self.dying.extract_if(.., is_of).collect();
        for (name, service) in dying {
            delete(&self.subject, name, &service, true).await?;
            self.gone.push((name, service));
        }
        Ok(())
    }

    /// UIDs of load balancers that may or may not be there.
    pub(super) fn unsettled(&self) -> BTreeSet<&str> {
        let lives = self.lives.values().filter(|life| !life.settled);
        let lives = lives.map(|life| &life.service);
        let dying = self.dying.iter().map(|(_, service)| service);
        lives.chain(dying).map(|service| &*service.uid).collect()
    }

    /// Deletes everything, one after the other.
    pub(super) async fn end(&mut self) -> Result<(), Broken> {
        for name in self.lives.keys().copied().collect::<Vec<_>>() {
            self.desired.services.remove(&name);
            if let Some(job) = self.job(Act::Delete(name)).await? {
                let done = complete(&self.subject, &job, &Nodes::default()).await?;
                self.take(job, done, false).await?;
            }
        }
        for number in std::mem::take(&mut self.desired.routes).into_keys() {
            let job = self.route(number).await?;
            let done = complete(&self.subject, &job, &Nodes::default()).await?;
            self.take(job, done, false).await?;
        }
        look::after_turn(self).await
    }
}

/// A step after which the addresses must be as before it.
fn keeps_addresses(change: &Change) -> bool {
    match change {
        Change::Service(_, fields) => {
            !fields.is_empty() && fields.iter().all(|field| matches!(field, Field::Ports(_)))
        }
        Change::Nodes(_) => true,
        _ => false,
    }
}

/// The points of a status.
pub(super) fn ingress(answer: &LoadBalancerAnswer) -> &[outrigger_api::v1::LoadBalancerIngress] {
    answer.status.as_ref().map_or(&[], |status| &status.ingress)
}

fn addresses(answer: &LoadBalancerAnswer) -> Vec<String> {
    let points = ingress(answer).iter();
    points
        .map(|point| format!("{}{}", point.ip, point.hostname))
        .collect()
}
