use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    BalancerCall, BalancerRecord, Consequence, Effects, Ensure, EnsureCause, Failure, HoldReason,
    Manner, Progress, ServiceFacts, Step,
};
use crate::{
    error_class::{ErrorClass, Requeue},
    event::EventType,
    fixture::{capability, load_balancer, registered},
    forbidden_addresses::ForbiddenAddresses,
    service::{
        ANNOTATION_PAUSED, FINALIZER, Ingress, ServiceView,
        answer::{Disposition, LoadBalancerAnswer, LoadBalancerCall, RawAnswer},
        capability::Capability,
        change::needs_sync,
        condition::{ACCEPTED, PROVISIONED, TARGETS_IN_SYNC, WAITING},
        last_applied::{ANNOTATION_LAST_APPLIED, LastApplied},
        ownership::Ownership,
        patch_plan::{StatusPatch, is_same},
    },
    string_map::StringMap,
    targets::{ANNOTATION_NODE_SELECTOR, Inheritance, Targets},
};

mod classes;
mod cleanup;
mod ensure;
mod failures;
mod holds;
mod options;
mod properties;
mod records;
mod targets;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + secs).unwrap()
}

fn nodes(names: &str) -> Targets {
    let names = names.split_whitespace();
    Targets::among(names.map(|name| Arc::new(registered(name))))
}

fn ip(ip: &str) -> Ingress {
    Ingress {
        ip: ip.into(),
        ..Ingress::default()
    }
}

fn answer(call: LoadBalancerCall, disposition: Disposition, addresses: &str) -> LoadBalancerAnswer {
    let ingress: Vec<_> = addresses.split_whitespace().map(ip).collect();
    let raw = RawAnswer {
        disposition: Some(disposition),
        ingress: Some(ingress),
        ..RawAnswer::default()
    };
    raw.check(call, &ForbiddenAddresses::default()).unwrap()
}

fn failure(class: ErrorClass) -> Failure {
    Failure {
        class,
        reason: "".into(),
        message: "no luck".into(),
        effects: Effects::default(),
    }
}

/// The next step is an Ensure that is no change of the Service.
fn is_background(stage: &Stage) -> bool {
    matches!(stage.next(), Step::Ensure(ensure) if ensure.manner == Manner::Background)
}

fn holds_up(stage: &Stage) -> bool {
    let progress = &stage.progress;
    progress.counts_for_lease(&stage.service, &stage.capability)
        && !progress.has_targets(&stage.facts())
}

fn needs_targets(stage: &Stage) -> bool {
    stage.progress.needs_targets(&stage.service, &stage.facts())
}

/// One Service with its controller: what is written is there at once.
#[derive(Clone)]
struct Stage {
    now: Timestamp,
    service: ServiceView,
    progress: Progress,
    capability: Capability,
    targets: Targets,
}

impl Stage {
    fn new(service: ServiceView) -> Self {
        Self {
            now: at(0),
            service,
            progress: Progress::default(),
            capability: capability(),
            targets: nodes("n1 n2"),
        }
    }

    /// A Service whose load balancer is ready at 192.0.2.7.
    fn settled() -> Self {
        let mut stage = Self::new(load_balancer("web"));
        stage.ensured(Disposition::Ready, "192.0.2.7");
        stage
    }

    fn facts(&self) -> ServiceFacts<'_> {
        ServiceFacts {
            capability: &self.capability,
            targets: self.targets.revision(),
            now: self.now,
            time_of_day: self.now,
        }
    }

    fn next(&self) -> Step {
        self.progress.next(&self.service, &self.facts())
    }

    /// The next step once all that has to be written first is written.
    fn step(&mut self) -> Step {
        match self.next() {
            Step::Write(patch) => {
                self.write(&patch);
                let next = self.next();
                assert!(!matches!(next, Step::Write(_)), "{next:?}");
                next
            }
            Step::Hold { patch, .. } => {
                if let Some(patch) = patch {
                    self.write(&patch);
                }
                // It is written once, with one event.
                assert!(self.is_held(), "{:?}", self.next());
                self.next()
            }
            step => step,
        }
    }

    /// Returns true if nothing is done, and the Service says why.
    fn is_held(&self) -> bool {
        matches!(self.next(), Step::Hold { patch: None, events, .. } if events.is_empty())
    }

    fn annotate(&mut self, key: &str, value: &str) {
        self.service.annotations = self.service.annotations.with([(key, value)]);
    }

    fn pause(&mut self, is_paused: bool) {
        self.annotate(ANNOTATION_PAUSED, if is_paused { "true" } else { "false" });
    }

    /// The write before a call that is next.
    fn prepare(&self) -> Option<StatusPatch> {
        match self.next() {
            Step::Write(patch) => Some(patch),
            _ => None,
        }
    }

    fn question(&mut self) -> Ensure {
        match self.step() {
            Step::Ensure(ensure) => ensure,
            step => panic!("{step:?}"),
        }
    }

    fn write(&mut self, patch: &StatusPatch) {
        assert_eq!(patch.uid, self.service.uid);
        self.service = patch.applied_to(&self.service, "w");
        self.progress.write(Some(BalancerRecord::of(&self.service)));
    }

    fn ensure(&mut self, result: Result<&LoadBalancerAnswer, &Failure>) -> Consequence {
        let question = self.question();
        self.answer(&question, result)
    }

    fn answer(
        &mut self,
        question: &Ensure,
        result: Result<&LoadBalancerAnswer, &Failure>,
    ) -> Consequence {
        let targets = self.targets.clone();
        self.conclude(&BalancerCall::Ensure(question, &targets), result)
    }

    fn update(&mut self, result: Result<&LoadBalancerAnswer, &Failure>) -> Consequence {
        let targets = self.targets.clone();
        self.conclude(&BalancerCall::Update(&targets), result)
    }

    /// An Ensure with this answer.
    fn ensured(&mut self, disposition: Disposition, addresses: &str) -> Consequence {
        self.ensure(Ok(&answer(
            LoadBalancerCall::Ensure,
            disposition,
            addresses,
        )))
    }

    /// An update with this answer.
    fn updated(&mut self, disposition: Disposition, addresses: &str) -> Consequence {
        self.update(Ok(&answer(
            LoadBalancerCall::Update,
            disposition,
            addresses,
        )))
    }

    /// A comparison with this answer; returns true if it differs.
    fn observed(&mut self, answer: &LoadBalancerAnswer) -> bool {
        let progress = &mut self.progress;
        progress.observed(&self.service, &self.capability, answer)
    }

    fn delete(&mut self, result: Result<&LoadBalancerAnswer, &Failure>) -> Consequence {
        let (service, capability) = (&self.service, &self.capability);
        let unproven = result.map(|answer| Failure::of_withdrawn(answer, service, capability));
        let unproven = unproven.ok().flatten();
        let result = unproven.as_ref().map_or(result, Err);
        self.conclude(&BalancerCall::Delete { is_gone: false }, result)
    }

    fn conclude(
        &mut self,
        call: &BalancerCall<'_>,
        result: Result<&LoadBalancerAnswer, &Failure>,
    ) -> Consequence {
        let result = result.cloned().map_err(|failure| Box::new(failure.clone()));
        let facts = ServiceFacts {
            capability: &self.capability,
            targets: self.targets.revision(),
            now: self.now,
            time_of_day: self.now,
        };
        let progress = &mut self.progress;
        let outcome = progress.concluded(&self.service, call, &result, &facts);
        if let Some(patch) = &outcome.patch {
            self.write(patch);
        }
        outcome
    }

    /// Another process: by the Lease all load balancers have the present targets.
    fn restart(&mut self) {
        self.begin_term(Inheritance::InSync);
    }

    fn begin_term(&mut self, inheritance: Inheritance) {
        let mut progress = Progress::default();
        progress.begin_term(inheritance, &self.service, &self.facts());
        progress.check_record(&self.service);
        self.progress = progress;
    }

    fn conditions(&self) -> String {
        let of = |kind: &str| {
            let condition = self.service.condition(kind)?;
            Some(format!("{}:{}", condition.status, condition.reason))
        };
        let states: Vec<_> = [ACCEPTED, PROVISIONED, TARGETS_IN_SYNC]
            .into_iter()
            .map(|kind| of(kind).unwrap_or_default())
            .collect();
        states.join(" ")
    }
}

fn reasons(outcome: &Consequence) -> Vec<&str> {
    outcome.events.iter().map(|event| &*event.reason).collect()
}
