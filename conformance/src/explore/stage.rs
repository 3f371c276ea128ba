//! One stage: a cluster whose Services and targets follow a trace, with a look at the provider after each turn.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use outrigger_api::v1::{LoadBalancerAnswer, LoadBalancerStatus, Node, Service};

use super::{
    job::{Done, Job, StepCaller},
    look, options,
    rule::{Broken, Rule},
    state::Identities,
    trace::{Change, Fault, Port, Spec, Step, Target, Turn},
    world::Desired,
};
use crate::subject::{Subject, describe, port};

/// The cluster of a stage, and what the provider said of it.
pub(super) struct Stage {
    pub(super) subject: Subject,
    pub(super) desired: Desired,
    pub(super) lives: BTreeMap<char, Life>,
    /// All Services that have been deleted for good.
    pub(super) gone: Vec<(char, Service)>,
    /// UIDs of load balancers that were listed before.
    pub(super) others: BTreeSet<String>,
}

/// One Service from its first call to its deletion.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) service: Service,
    /// The fields that were READY, if the last call has ended so.
    served: Option<Spec>,
    /// The last answer READY.
    pub(super) ready: LoadBalancerAnswer,
    /// The last call about it has ended.
    pub(super) settled: bool,
    pub(super) aim: Aim,
}

/// The load balancer that a Service asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    Balanced,
    /// No load balancer: the Service stays, with another type.
    OtherType,
    /// No load balancer: the Service is deleted.
    Deleted,
}

impl Stage {
    /// The words that stand for what is another one in each stage.
    pub(super) fn identities(&self) -> Identities {
        let mut identities = Identities::default();
        let lives = self.lives.iter().map(|(name, life)| (name, &life.service));
        for (name, service) in lives.chain(self.gone.iter().map(|(name, one)| (name, one))) {
            identities.uid(&service.uid, &format!("UID of {name}"));
            identities.text(&service.name, &name.to_string());
        }
        for (name, life) in &self.lives {
            let identity = life.ready.identity.clone().unwrap_or_default();
            identities.text(&identity.id, &format!("ID of {name}"));
            identities.text(&identity.name, &format!("name of {name}"));
            identities.points(life.ready.status.as_ref(), *name);
        }
        identities
    }

    /// Carries a turn out, and looks at the provider.
    pub(super) async fn turn(&mut self, turn: &Turn) -> Result<(), Broken> {
        // A call that was not waited for may run still, and its end be the answer to the next one.
        let run_others = !self.unsettled().is_empty();
        for Step { change, .. } in &turn.0 {
            // The Service of before is deleted first.
            if let Change::Service(name, _) = change
                && self
                    .lives
                    .get(name)
                    .is_some_and(|life| life.aim == Aim::Deleted)
            {
                Box::pin(self.turn(&Turn::of(Change::Delete(*name)))).await?;
            }
        }
        let mut jobs = Vec::new();
        for Step { change, fault } in &turn.0 {
            self.desired.apply(change);
            let of_change = self.jobs(change);
            jobs.extend(of_change.into_iter().map(|job| (job, *fault)));
        }
        let targets = Rule::ENDED.of(self.subject.targets(&self.nodes()).await)?;
        let caller = StepCaller {
            subject: self.subject.clone(),
            targets,
            races: jobs.len() > 1 || run_others,
        };
        let calls = jobs.iter().map(|(job, fault)| caller.perform(job, *fault));
        let places = match self.subject.load_balancers().max_in_flight {
            0 => 16,
            declared => declared as usize,
        };
        let done: Vec<_> = stream::iter(calls).buffered(places).collect().await;
        let mut refused = Vec::new();
        for (done, (job, fault)) in done.into_iter().zip(jobs) {
            refused.extend(self.take(&job, done?)?);
            if matches!(fault, Some(Fault::Kill(_))) {
                self.subject = Rule::PROCESS.of(self.subject.connect().await)?;
                let lives = self.lives.values_mut();
                for life in lives.filter(|life| life.aim == Aim::Balanced) {
                    // It may have ended with the process, whose successor then has another configuration_revision.
                    life.settled = false;
                    life.served = None;
                }
                Box::pin(self.settle()).await?;
            }
        }
        // The user deletes what is refused.
        for name in refused {
            Box::pin(self.turn(&Turn::of(Change::Delete(name)))).await?;
        }
        look::after_turn(self).await
    }

    /// Ends all that was left unsettled.
    pub(super) async fn settle(&mut self) -> Result<(), Broken> {
        let lives = self.lives.iter().filter(|(_, life)| !life.settled);
        let changes = lives.map(|(name, life)| match (life.aim, self.desired.spec(*name)) {
            (Aim::Balanced, Some(spec)) => Change::Service(*name, spec.clone()),
            (Aim::OtherType, _) => Change::ClusterIp(*name),
            _ => Change::Delete(*name),
        });
        for change in changes.collect::<Vec<_>>() {
            self.turn(&Turn::of(change)).await?;
        }
        Ok(())
    }

    /// Makes all that is desired, one after the other.
    pub(super) async fn make(&mut self, desired: Desired) -> Result<(), Broken> {
        self.desired.nodes = desired.nodes;
        for (name, spec) in desired.services {
            if let Some(spec) = spec {
                self.turn(&Turn::of(Change::Service(name, spec))).await?;
            }
        }
        Ok(())
    }

    /// Deletes everything, one after the other.
    pub(super) async fn end(&mut self) -> Result<(), Broken> {
        for name in self.lives.keys().copied().collect::<Vec<_>>() {
            self.turn(&Turn::of(Change::Delete(name))).await?;
        }
        Ok(())
    }

    /// The calls that a change asks for.
    fn jobs(&mut self, change: &Change) -> Vec<Job> {
        match change {
            Change::Service(name, spec) => {
                vec![Job::Ensure(*name, self.service(*name, spec))]
            }
            Change::ClusterIp(name) | Change::Delete(name) => {
                let Some(life) = self.lives.get_mut(name) else {
                    return Vec::new();
                };
                life.settled = false;
                life.aim = Aim::Deleted;
                if matches!(change, Change::ClusterIp(_)) {
                    life.aim = Aim::OtherType;
                    "ClusterIP".clone_into(&mut life.service.r#type);
                }
                vec![Job::Delete(*name, life.service.clone())]
            }
            Change::Nodes(_) => {
                let lives = self.lives.iter();
                let served = lives.filter(|(_, life)| life.aim == Aim::Balanced && life.settled);
                let job = |(name, life): (&char, &Life)| Job::Update(*name, life.service.clone());
                served.map(job).collect()
            }
        }
    }

    /// The Service of a name with these fields.
    fn service(&mut self, name: char, spec: &Spec) -> Service {
        let subject = &self.subject;
        let life = self.lives.entry(name).or_insert_with(|| {
            let mut service = subject.service();
            let mut before = self.gone.iter().filter(|(other, _)| *other == name);
            if let Some((_, one)) = before.next() {
                service.name.clone_from(&one.name);
            }
            Life {
                service,
                served: None,
                ready: LoadBalancerAnswer::default(),
                settled: false,
                aim: Aim::Balanced,
            }
        });
        life.aim = Aim::Balanced;
        life.settled = false;
        let inputs = subject.inputs();
        let number = spec.annotations.parse::<usize>().unwrap_or_default();
        let sets = &inputs.explore.annotations;
        let set = number.checked_sub(1).and_then(|index| sets.get(index));
        let annotations = [&inputs.services.annotations].into_iter().chain(set);
        let annotations = annotations
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()));
        let service = &mut life.service;
        service.annotations = annotations.collect();
        "LoadBalancer".clone_into(&mut service.r#type);
        let ports = spec.ports_of(name).into_iter();
        let of_service = |one: Port| port(&one.protocol, one.port, one.node_port);
        service.ports = ports.map(of_service).collect();
        let policy = spec.local.map_or("Cluster", |_| "Local");
        policy.clone_into(&mut service.external_traffic_policy);
        service.health_check_node_port = spec.local.unwrap_or_default();
        subject.reset_options(service);
        options::ask(&spec.annotations, &subject.load_balancers(), service);
        let affinity = spec.affinity.map_or("None", |_| "ClientIP");
        affinity.clone_into(&mut service.session_affinity);
        let timeout = |seconds| prost_types::Duration { seconds, nanos: 0 };
        service.session_affinity_timeout = spec.affinity.map(timeout);
        service.load_balancer_source_ranges.clone_from(&spec.ranges);
        service.ip_families.clone_from(&spec.families);
        if spec.families.is_empty() {
            let first = inputs.services.ip_families.first().cloned();
            service
                .ip_families
                .push(first.unwrap_or_else(|| "IPv4".to_owned()));
        }
        let is_dual = service.ip_families.len() > 1;
        let stack = if is_dual {
            "RequireDualStack"
        } else {
            "SingleStack"
        };
        stack.clone_into(&mut service.ip_family_policy);
        subject.leftovers().expect(service.clone());
        service.clone()
    }

    /// The nodes that load balancers send to.
    pub(super) fn nodes(&self) -> Vec<Node> {
        let mut machines = self.subject.target_nodes();
        let node = |target: &Target| {
            let mut of_name = machines.extract_if(.., |node| node.name == target.node);
            let mut node = of_name.next()?;
            for one in node.addresses.iter_mut().filter(|_| target.is_moved) {
                one.address = one.address.replacen("10.0.", "10.1.", 1);
            }
            Some(node)
        };
        self.desired.nodes.iter().filter_map(node).collect()
    }

    /// Takes the end of a step; the name of a Service that was refused.
    fn take(&mut self, job: &Job, done: Done) -> Result<Option<char>, Broken> {
        let (Job::Ensure(name, _) | Job::Update(name, _) | Job::Delete(name, _)) = job;
        let spec = self.desired.spec(*name).cloned().unwrap_or_default();
        let Some(life) = self.lives.get_mut(name) else {
            return Ok(None);
        };
        let served = life.served.take();
        // A Service that is refused is deleted in a turn of its own, while others are looked at.
        life.settled = !matches!(done, Done::Unsettled | Done::Refused(_));
        match done {
            Done::Ready(answer) => {
                let before = addresses(&life.ready);
                let now = addresses(&answer);
                let other_ports = Spec {
                    ports: spec.ports.clone(),
                    ..served.clone().unwrap_or_default()
                };
                let keeps = served.is_some() && other_ports == spec;
                life.served = Some(spec);
                // An update need not say the status.
                if now.is_empty() && (!before.is_empty() || answer.address_elsewhere) {
                    return Ok(None);
                }
                if now.is_empty() {
                    let expected = format!("{name}: READY with an address");
                    return Err(Rule::GET.broken(expected, describe(&answer)));
                }
                if keeps && before != now {
                    let expected = format!("{name}: the addresses {before:?} stay");
                    return Err(Rule::ADDRESSES.broken(expected, format!("{now:?}")));
                }
                let identity = answer.identity.clone().or(life.ready.identity.clone());
                life.service.status.clone_from(&answer.status);
                life.ready = LoadBalancerAnswer { identity, ..answer };
                self.subject.leftovers().expect(life.service.clone());
            }
            Done::Refused(error) if spec.is_usual() => {
                let expected = format!("{name}: a Service with TCP ports and no more is served");
                return Err(Rule::ENDED.broken(expected, error));
            }
            Done::Refused(_) => return Ok(Some(*name)),
            Done::Gone => {
                life.service.status = Some(LoadBalancerStatus::default());
                life.ready = LoadBalancerAnswer::default();
                if life.aim == Aim::Deleted {
                    self.gone.push((*name, life.service.clone()));
                    self.lives.remove(name);
                }
            }
            Done::Unsettled => {}
        }
        Ok(None)
    }

    /// UIDs of load balancers that may or may not be there.
    pub(super) fn unsettled(&self) -> BTreeSet<&str> {
        let lives = self.lives.values().filter(|life| !life.settled);
        lives.map(|life| &*life.service.uid).collect()
    }
}

/// The addresses and host names of an answer.
fn addresses(answer: &LoadBalancerAnswer) -> Vec<String> {
    let points = answer.status.iter().flat_map(|status| &status.ingress);
    points
        .map(|one| format!("{}{}", one.ip, one.hostname))
        .collect()
}
