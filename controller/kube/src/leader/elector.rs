//! The elector: one loop that decides, sends a request or waits.
//!
//! It asks [`outrigger_core::lease::decide()`] after each answer, command, event of the watch and passage of time, and has
//! one request in flight at most. It publishes [`Leadership`] and ends the term before anything else when the lease is
//! lost.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt, future::OptionFuture, stream::BoxStream};
use outrigger_core::{
    event::{EventContent, ObjectRef},
    lease::{Decision, Lost, ObservedLease, ReplicaState, decide},
    targets::{ANNOTATION_TARGETS, TargetsRecord},
};
use outrigger_runtime::{clock::time_of_day, log_repeated, telemetry::Repeats};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tracing::{debug, error, info, warn};

use super::{
    EVENT_REASON, Handle, LeaderConfig, LeaderMetrics, Leadership, LeaseTerm, OnEvent,
    handle::{Annotation, Annotations, Command},
    lease::{LeaseAnswer, LeaseApi, LeaseObject},
};
use crate::{api::Api, error::ApiError, store::is_older, watch::EtcdRevision};

/// Contends for one lease and holds it.
pub struct Elector {
    config: Arc<LeaderConfig>,
    api: LeaseApi,
    metrics: LeaderMetrics,
    on_event: OnEvent,
    annotations: Annotations,
    /// In the order in which they were asked for.
    unwritten: Vec<Annotation>,
    leadership: watch::Sender<Leadership>,
    commands: mpsc::UnboundedReceiver<Command>,
    may_contend: watch::Receiver<bool>,
    /// Versions of the Lease, by a watch.
    versions: BoxStream<'static, String>,

    observed: ObservedLease,
    /// The Lease in the last answer.
    object: Option<LeaseObject>,
    /// As long as `leadership` is [`Leadership::Leading`]: when the last renewal was sent that was acknowledged.
    renewed: Option<Instant>,
    /// The others' chance after this replica gave the lease up.
    contends_from: Instant,
    /// No request before then: the last one failed.
    not_before: Instant,
    /// When a standby looks at the Lease, whatever the watch shows.
    poll_at: Instant,
    failures: Repeats,
    /// The newest of the Lease, by answers.
    revision: EtcdRevision,
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
        let config = Arc::new(config);
        let handle = Handle {
            config: Arc::clone(&config),
            leadership: receiver,
            commands: sender,
            annotations: Arc::default(),
        };
        let lease = LeaseApi::new(api.clone(), &config);
        let now = Instant::now();
        let elector = Self {
            versions: lease.versions(api),
            api: lease,
            revision: EtcdRevision::new("Leases", &config.sight),
            config,
            metrics,
            on_event,
            annotations: Arc::clone(&handle.annotations),
            unwritten: Vec::new(),
            leadership,
            commands,
            may_contend,
            observed: ObservedLease::default(),
            object: None,
            renewed: None,
            contends_from: now,
            not_before: now,
            poll_at: now,
            failures: Repeats::default(),
        };
        (elector, handle)
    }

    /// Contends, leads and stands by until the lease is lost or [released](Handle::release). Dropping it ends the
    /// time in its term, but leaves the lease held until it expires.
    pub async fn run(mut self) {
        info!(
            lease = self.config.name,
            identity = self.config.identity.own,
            "attempting to acquire leader lease"
        );
        loop {
            let until = match self.decide() {
                Decision::Lost(reason) => return self.lost(reason),
                Decision::Wait(until) => until.map(Instant::from_std),
                decision => {
                    self.carry_out(decision).await;
                    continue;
                }
            };
            let polls = self.renewed.is_none() && !self.observed.must_read();
            // A branch whose other end is gone takes no part.
            tokio::select! {
                biased;
                Some(command) = self.commands.recv() => match command {
                    Command::Annotate(annotation) if self.renewed.is_some() => self.unwritten.push(annotation),
                    // Outside the lease term it is dropped.
                    Command::Annotate(_) => {}
                    Command::StepDown(done) => {
                        self.step_down().await;
                        let _ = done.send(());
                    }
                    Command::Release(done) => {
                        self.release().await;
                        let _ = done.send(());
                        return;
                    }
                },
                Some(version) = self.versions.next() => self.shown(&version),
                Ok(()) = self.may_contend.changed() => {}
                Some(()) = OptionFuture::from(until.map(sleep_until)) => {}
                () = sleep_until(self.poll_at), if polls => self.observed.invalidate(),
            }
        }
    }

    fn decide(&self) -> Decision {
        if self.term().is_some_and(|term| !term.is_valid_now()) {
            return Decision::Lost(Lost::RenewDeadline);
        }
        let replica = ReplicaState {
            identity: &self.config.identity.own,
            durations: &self.config.durations,
            renewed: self.renewed.map(Instant::into_std),
            contends_at: self.contends_at().map(Instant::into_std),
            not_before: self.not_before.into_std(),
            renew_early: !self.unwritten.is_empty(),
        };
        let now = Instant::now().into_std();
        decide(now, time_of_day(), &self.observed, &replica)
    }

    fn contends_at(&self) -> Option<Instant> {
        let may_contend = *self.may_contend.borrow();
        may_contend.then_some(self.contends_from)
    }

    fn term(&self) -> Option<LeaseTerm> {
        self.leadership.borrow().leading().cloned()
    }

    /// Sends the request of `decision` and applies its answer. From the end of the term on no answer is waited for.
    async fn carry_out(&mut self, decision: Decision) {
        let reads = decision == Decision::Read;
        let lease = self.written(decision);
        let request = self.api.send(lease, self.renewed.is_none());
        let (sent, renew_deadline) = (Instant::now(), self.config.durations.renew_deadline());
        let answer = match self.renewed {
            None => request.await,
            Some(renewed) => match timeout_at(renewed + renew_deadline, request).await {
                Ok(answer) => answer,
                Err(_) => return,
            },
        };
        match self.learn(sent, answer) {
            Ok(()) if !reads && self.observed.holder() == Some(&self.config.identity.own) => {
                match self.term() {
                    // An expired term is not extended: its token may have been cancelled.
                    Some(term) if term.is_valid_now() => {
                        term.extend(sent + renew_deadline);
                        self.acknowledged(sent);
                    }
                    Some(_) => {}
                    None => self.begin(sent, sent + renew_deadline),
                }
            }
            Ok(()) => self.standby(),
            Err(error) => self.failed(reads, sent, &error),
        }
    }

    /// The Lease that `decision` writes; none: it is read. A claim carries the record of targets on, so that a term that
    /// ends before its loops begin leaves no gap.
    fn written(&self, decision: Decision) -> Option<LeaseObject> {
        let (mut lease, record) = match (decision, &self.object) {
            (Decision::Update(record), Some(object)) => (object.clone(), record),
            (Decision::Create(record), _) => (LeaseObject::new(&self.config), record),
            _ => return None,
        };
        self.annotate(&mut lease);
        if let Some(value) = lease.metadata.annotations.get_mut(ANNOTATION_TARGETS)
            && let Some(carried) =
                TargetsRecord::carry(value, lease.spec.transitions, record.transitions)
        {
            *value = carried;
        }
        lease.spec = record;
        Some(lease)
    }

    /// Changes the annotations of `lease`, which is about to be sent.
    fn annotate(&self, lease: &mut LeaseObject) {
        let annotations = &mut lease.metadata.annotations;
        for Annotation { key, value, .. } in &self.unwritten {
            match value {
                Some(value) => annotations.insert(key.clone(), value.clone()),
                None => annotations.remove(key),
            };
        }
    }

    /// Stores the lease in the answer to a request that was sent at `sent`.
    fn learn(&mut self, sent: Instant, answer: LeaseAnswer) -> Result<(), ApiError> {
        let now = Instant::now();
        self.poll_at = now + self.config.durations.retry(fastrand::f64());
        let lease = answer.inspect_err(|_| self.observed.invalidate())?;
        let record = lease.as_ref().map(|lease| lease.spec.clone());
        self.observed
            .answered(sent.into_std(), now.into_std(), record);
        let mut annotations = BTreeMap::new();
        if let Some(lease) = &lease {
            self.revision.answered(&lease.metadata.resource_version);
            annotations.clone_from(&lease.metadata.annotations);
        }
        *self.annotations.lock() = annotations;
        self.object = lease;
        Ok(())
    }

    /// A watch shows a version of the Lease: one that no answer had is read.
    fn shown(&mut self, version: &str) {
        let held = self.object.as_ref();
        let held = held.map_or("", |object| &*object.metadata.resource_version);
        if version != held && !is_older(version, held) {
            self.observed.invalidate();
        }
    }

    /// A renewal was acknowledged.
    fn acknowledged(&mut self, sent: Instant) {
        self.renewed = Some(sent);
        for annotation in self.unwritten.drain(..) {
            let _ = annotation.written.send(());
        }
    }

    /// A claim was acknowledged: the term begins, unless that took too long to act on.
    fn begin(&mut self, sent: Instant, deadline: Instant) {
        let since = Instant::now();
        if since >= deadline || self.contends_at().is_none() {
            return;
        }
        let killed = self.config.identity.killed.map(Instant::into_std);
        let quiet_at = self.config.durations.quiet_at(since.into_std(), killed);
        let record = self.observed.record();
        let epoch = record.map_or(0, |record| record.transitions);
        let term = LeaseTerm::new(quiet_at.into(), epoch, deadline);
        let lease = &self.config.name;
        info!(lease, epoch, "successfully acquired lease");
        self.metrics.leading(lease, true);
        self.renewed = Some(sent);
        self.leadership.send_replace(Leadership::Leading(term));
        self.record_event("became leader");
    }

    fn failed(&mut self, reads: bool, sent: Instant, error: &ApiError) {
        let leads = self.renewed.is_some();
        let lease = &self.config.name;
        if leads && !reads {
            self.metrics.slow.of([lease.clone()]).inc();
        }
        // Another client wrote, or deleted it: it is read immediately.
        let is_there = self.object.is_some();
        if error.code() == Some(409) || (error.is_not_found() && is_there) {
            debug!(lease, %error, "lease is not the version written on");
            return;
        }
        let durations = &self.config.durations;
        let now = Instant::now();
        self.not_before = if leads {
            now.max(sent + durations.retry_period())
        } else {
            now + durations.retry(fastrand::f64())
        };
        log_repeated!(
            warn, self.failures, &error.cause(), lease, %error, leads,
            "lease cannot be reached; trying again"
        );
    }

    /// Tells who leads, if we do not.
    fn standby(&self) {
        if self.renewed.is_some() {
            return;
        }
        let holder = self.observed.holder();
        let changed = self
            .leadership
            .send_if_modified(|leadership| match leadership {
                Leadership::Standby { holder: last } if last.as_deref() == holder => false,
                _ => {
                    let holder = holder.map(Arc::from);
                    *leadership = Leadership::Standby { holder };
                    true
                }
            });
        if changed && let Some(holder) = holder {
            info!(lease = self.config.name, holder, "new leader elected");
        }
    }

    /// From now on nothing is sent.
    fn lost(mut self, reason: Lost) {
        error!(lease = self.config.name, error = %reason, "leaderelection lost");
        self.end_term();
        self.leadership.send_replace(Leadership::Lost { reason });
    }

    async fn step_down(&mut self) {
        if self.renewed.is_some() {
            self.release().await;
            // A standby sees the release immediately, or polls.
            self.contends_from = Instant::now() + self.config.durations.retry_period() * 3;
            info!(lease = self.config.name, "lease given up");
        }
    }

    /// Gives the lease back, if it is ours.
    async fn release(&mut self) {
        let Some(term) = self.term() else { return };
        term.end();
        let limit = self.config.durations.request_timeout();
        let lease = self.config.name.clone();
        match timeout(limit, self.release_lease()).await {
            Ok(Ok(())) => info!(lease, "lease released"),
            Ok(Err(error)) => warn!(lease, %error, "lease cannot be released; it will expire"),
            Err(_) => warn!(lease, "lease could not be released in time; it will expire"),
        }
        self.end_term();
        self.standby();
    }

    /// Writes the empty holder.
    async fn release_lease(&mut self) -> Result<(), ApiError> {
        if self.observed.must_read() {
            let answer = self.api.send(None, false).await;
            self.learn(Instant::now(), answer)?;
        }
        let own = &self.config.identity.own;
        let Some(object) = self.object.as_ref().filter(|it| it.spec.holder == *own) else {
            return Ok(());
        };
        let mut lease = object.clone();
        lease.spec = lease.spec.released(time_of_day());
        self.annotate(&mut lease);
        let answer = self.api.send(Some(lease), false).await;
        self.learn(Instant::now(), answer)
    }

    /// Ends the lease term for every holder of its token.
    fn end_term(&mut self) {
        if let Some(term) = self.term() {
            term.end();
            self.record_event("stopped leading");
        }
        self.renewed = None;
        self.unwritten.clear();
        self.metrics.leading(&self.config.name, false);
    }

    /// An event about the Lease.
    fn record_event(&self, change: &str) {
        let object = self.object.as_ref();
        let uid = object.map_or("", |object| &object.metadata.uid);
        let config = &self.config;
        let lease = ObjectRef::lease(&config.namespace, &config.name, uid);
        let message = format!("{} {change}", config.identity.own);
        (self.on_event)(lease, EventContent::normal(EVENT_REASON, &message));
    }
}

/// An elector that is aborted ends its lease term: all work stops.
impl Drop for Elector {
    fn drop(&mut self) {
        if let Some(term) = self.term() {
            term.end();
        }
    }
}
