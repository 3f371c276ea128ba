//! The elector: one task that decides, asks and listens.

mod exits;
mod inputs;

use std::{future::pending, sync::Arc};

use futures::{StreamExt, future::OptionFuture};
use outrigger_core::lease::{
    Candidacy, Decision, LeaseRecord, LeaseTerm, Lost, ObservedLease, ReplicaState, Unbroken,
    decide,
};
use outrigger_runtime::clock::time_of_day;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tracing::info;

use super::{
    Handle, LeaderConfig, LeaderMetrics, Leadership, Leading, OnEvent, TERMS_ANNOTATION,
    handle::{Command, ElectorState},
    object::LeaseObject,
    requests::{LeaseAnswer, Purpose, Request, Requests},
    watching::{LeaseObservation, Watching, watch},
};
use crate::{api::Api, watch::EtcdRevision};

/// Why an elector ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The lease was lost: the process has to end with exit code 1 (PROC-13).
    Lost(Lost),
    /// [`Handle::release`] asked for it.
    Released,
}

/// Contends for one lease and holds it.
pub struct Elector {
    api: Api,
    config: LeaderConfig,
    requests: Requests,
    metrics: LeaderMetrics,
    on_event: OnEvent,
    shared: Arc<ElectorState>,
    leadership: watch::Sender<Leadership>,
    commands: mpsc::UnboundedReceiver<Command>,
    may_contend: watch::Receiver<bool>,

    candidacy: Candidacy,
    observed: ObservedLease,
    /// The Lease whose record and version `observed` has.
    object: Option<LeaseObject>,
    /// Present as long as `leadership` is [`Leadership::Leading`].
    lease_term: Option<LeaseTerm>,
    request: Option<Request>,
    /// No request before then: the last one failed.
    not_before: Instant,
    failures: u32,
    watching: Watching,
    /// The newest of the Lease, by answers.
    revision: EtcdRevision,
    /// While the watch is broken: when to look at the lease ourselves.
    poll_at: Option<Instant>,
}

/// The cause of a wake-up.
enum Wake {
    Time,
    Answer(LeaseAnswer),
    Command(Command),
    Observed(LeaseObservation),
    Contend(bool),
}

impl Elector {
    /// An elector, which does nothing until it is [run](Self::run). `api` should have a client of
    /// its own without a budget: a renewal must not wait behind other requests. `may_contend` says
    /// whether this process could do the work; a leader goes on leading while it is false, until it
    /// is asked to release the lease.
    pub fn new(
        api: Api,
        config: LeaderConfig,
        metrics: LeaderMetrics,
        may_contend: watch::Receiver<bool>,
        on_event: OnEvent,
    ) -> (Self, Handle) {
        metrics.leading(&config.name, false);
        let (leadership, receiver) = watch::channel(Leadership::Standby { holder: None });
        let (sender, commands) = mpsc::unbounded_channel();
        let handle = Handle {
            namespace: config.namespace.as_str().into(),
            lease: config.name.as_str().into(),
            lease_duration: config.durations.lease_duration(),
            leadership: receiver,
            commands: sender,
            shared: Arc::default(),
        };
        let elector = Self {
            requests: Requests::new(api.clone(), &config),
            watching: watch(api.clone(), &config),
            revision: EtcdRevision::new("Leases", &config.sight),
            api,
            config,
            metrics,
            on_event,
            shared: Arc::clone(&handle.shared),
            leadership,
            commands,
            may_contend,
            candidacy: Candidacy::default(),
            observed: ObservedLease::default(),
            object: None,
            lease_term: None,
            request: None,
            not_before: Instant::now(),
            failures: 0,
            poll_at: None,
        };
        (elector, handle)
    }

    /// Contends, leads and stands by until the lease is lost or released. Dropping it ends the time
    /// in its term, but leaves the lease held until it expires.
    pub async fn run(mut self) -> Ended {
        info!(
            lease = self.config.name,
            identity = self.config.identity.own,
            "attempting to acquire leader lease"
        );
        let allowed = *self.may_contend.borrow_and_update();
        self.allow(allowed);
        loop {
            let wait = match self.decide() {
                Decision::Lost(lost) => return self.lost(lost),
                Decision::Wait(until) => until.map(Instant::from_std),
                // There is one request at a time.
                _ if self.request.is_some() => None,
                decision => {
                    self.request = Some(self.send(decision));
                    None
                }
            };
            let woken = self.wait(wait).await;
            // An answer that waited while this process could not run does not revive what is over.
            if let Decision::Lost(lost) = self.decide() {
                return self.lost(lost);
            }
            match woken {
                Wake::Time => {}
                Wake::Answer(answer) => {
                    self.request = None;
                    self.answered(answer);
                }
                Wake::Observed(observation) => self.observed(observation),
                Wake::Contend(allowed) => self.allow(allowed),
                Wake::Command(Command::Write) => {
                    // A command outside the lease term is dropped.
                    if self.lease_term.is_none() {
                        self.shared.annotations.clear();
                    }
                }
                Wake::Command(Command::StepDown { hold_off, done }) => {
                    self.step_down(hold_off, done).await;
                }
                Wake::Command(Command::Release { done }) => {
                    self.release().await;
                    let _ = done.send(());
                    return Ended::Released;
                }
            }
        }
    }

    fn decide(&mut self) -> Decision {
        let now = Instant::now();
        if self.poll_at.is_some_and(|at| at <= now) && self.lease_term.is_none() {
            self.observed.invalidate();
            self.poll_at = Some(now + self.config.durations.retry(fastrand::f64()));
        }
        if self
            .leading()
            .is_some_and(|leading| !leading.is_valid_now())
        {
            return Decision::Lost(Lost::RenewDeadline);
        }
        let replica = ReplicaState {
            identity: &self.config.identity.own,
            predecessors: &self.config.identity.predecessors,
            durations: &self.config.durations,
            lease_term: self.lease_term,
            contends_at: self.candidacy.contends_at(),
            not_before: self.not_before.into_std(),
            renew_early: self.shared.annotations.has_pending(),
        };
        decide(now.into_std(), time_of_day(), &self.observed, &replica)
    }

    async fn wait(&mut self, until: Option<Instant>) -> Wake {
        let leading = self.leading();
        let durations = &self.config.durations;
        let deadline = self
            .lease_term
            .map(|lease_term| lease_term.deadline(durations).into());
        let poll_at = self.poll_at.filter(|_| self.lease_term.is_none());
        let over = leading.as_ref().map(|leading| leading.token().cancelled());
        // A branch whose other end is gone takes no part.
        tokio::select! {
            biased;
            () = at(deadline) => Wake::Time,
            Some(()) = OptionFuture::from(over) => Wake::Time,
            Some(answer) = OptionFuture::from(self.request.as_mut()) => Wake::Answer(answer),
            Some(observation) = self.watching.next() => Wake::Observed(observation),
            Ok(()) = self.may_contend.changed() => {
                Wake::Contend(*self.may_contend.borrow_and_update())
            }
            Some(command) = self.commands.recv() => Wake::Command(command),
            () = at(until) => Wake::Time,
            () = at(poll_at) => Wake::Time,
        }
    }

    fn send(&self, decision: Decision) -> Request {
        match decision {
            Decision::Create(record) => {
                let mut lease = LeaseObject::new(&self.config, &record);
                if self.lease_term.is_some() {
                    // It was deleted: what it said is still so.
                    lease.metadata.annotations = self.shared.annotations.actual();
                }
                self.requests.create(self.prepared(lease, &record))
            }
            Decision::Update(record) => self.replace(Purpose::Update, &record),
            Decision::Release(record) => self.replace(Purpose::Release, &record),
            Decision::Confirm => self.requests.read(Purpose::Confirm),
            Decision::Read | Decision::Wait(_) | Decision::Lost(_) => {
                self.requests.read(Purpose::Read)
            }
        }
    }

    fn replace(&self, purpose: Purpose, record: &LeaseRecord) -> Request {
        match &self.object {
            Some(object) => {
                let lease = self.prepared(object.clone(), record).with(record);
                if purpose == Purpose::Update && self.lease_term.is_none() {
                    self.requests.claim(lease)
                } else {
                    self.requests.update(purpose, lease)
                }
            }
            None => self.requests.read(Purpose::Read),
        }
    }

    /// The Lease with its annotations for a write of `record`: a claim says whether another program has led.
    fn prepared(&self, mut lease: LeaseObject, record: &LeaseRecord) -> LeaseObject {
        let held = lease.record().transitions;
        let annotations = &mut lease.metadata.annotations;
        if self.lease_term.is_some() {
            self.shared.annotations.apply(annotations);
        } else if record.holder == self.config.identity.own {
            let before = annotations.get(TERMS_ANNOTATION).map(String::as_str);
            let claimed = Unbroken::claimed(before, held, record.transitions);
            annotations.insert(TERMS_ANNOTATION.to_owned(), claimed.to_string());
        }
        lease
    }

    fn leading(&self) -> Option<Leading> {
        self.leadership.borrow().leading().cloned()
    }

    fn allow(&mut self, allowed: bool) {
        self.candidacy.allow(Instant::now().into_std(), allowed);
    }
}

/// An elector that is aborted ends its lease term: all work stops.
impl Drop for Elector {
    fn drop(&mut self) {
        if let Some(leading) = self.leading() {
            leading.end();
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
