//! The elector: one task that decides, asks and listens.

use std::{collections::BTreeMap, fmt, future::pending, sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use outrigger_core::lease::{Candidacy, Decision, Lost, Own, Record, Sight, decide};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, error, info, warn};

use super::{
    Handle, LeaderConfig, LeaderMetrics, Leadership, LeaseEvent, OnEvent,
    handle::{Command, Shared},
    object::LeaseObject,
    office::Office,
    requests::{Answer, Purpose, Request, Requests},
    watching::{Seen, Watching, watch},
};
use crate::kube::{api::Api, error::Error};

/// Why an elector ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The lease was lost: the process has to end with exit code 1 (PROC-13).
    Lost(Lost),
    /// As [`Handle::release`] asked for.
    Released,
}

/// Contends for one lease and holds it.
pub struct Elector {
    api: Api,
    config: LeaderConfig,
    requests: Requests,
    metrics: LeaderMetrics,
    on_event: OnEvent,
    shared: Arc<Shared>,
    leadership: watch::Sender<Leadership>,
    /// None when nobody can ask any more.
    commands: Option<mpsc::UnboundedReceiver<Command>>,
    /// None when the answer can no longer change.
    may_contend: Option<watch::Receiver<bool>>,

    candidacy: Candidacy,
    sight: Sight,
    /// The Lease whose record and version `sight` has.
    object: Option<LeaseObject>,
    office: Option<Office>,
    request: Option<Request>,
    /// No request before then: the last one failed.
    not_before: Instant,
    failures: u32,
    watching: Watching,
    /// While the watch is broken: when to look at the lease ourselves.
    poll_at: Option<Instant>,
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("config", &self.config)
            .field("leadership", &*self.leadership.borrow())
            .finish_non_exhaustive()
    }
}

/// What ended a wait.
enum Wake {
    Time,
    Answer(Answer),
    Command(Option<Command>),
    Seen(Seen),
    Contend(Option<bool>),
}

impl Elector {
    /// An elector, which does nothing until it is [run](Self::run). `api` should have a client of
    /// its own without a budget: a renewal must not wait behind other requests. `may_contend` says
    /// whether this process could do the work; a leader goes on leading while it is false, until
    /// it is told to give up.
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
            lease: config.name.as_str().into(),
            lease_duration: config.terms.lease_duration(),
            leadership: receiver,
            commands: sender,
            shared: Arc::default(),
        };
        let elector = Self {
            requests: Requests::new(api.clone(), &config),
            watching: watch(api.clone(), &config),
            api,
            config,
            metrics,
            on_event,
            shared: Arc::clone(&handle.shared),
            leadership,
            commands: Some(commands),
            may_contend: Some(may_contend),
            candidacy: Candidacy::default(),
            sight: Sight::default(),
            object: None,
            office: None,
            request: None,
            not_before: Instant::now(),
            failures: 0,
            poll_at: None,
        };
        (elector, handle)
    }

    /// Contends, leads and stands by until the lease is lost or released. Dropping it ends the time
    /// in office, but leaves the lease held until it expires.
    pub async fn run(mut self) -> Ended {
        info!(
            lease = self.config.name,
            identity = self.config.identity,
            "attempting to acquire leader lease"
        );
        let allowed = self
            .may_contend
            .as_mut()
            .map(|may| *may.borrow_and_update());
        self.allow(allowed.unwrap_or(false));
        loop {
            let wait = match self.decide() {
                Decision::Lost(lost) => return self.lost(lost),
                Decision::Wait(until) => until.map(Instant::from_std),
                // One request at a time.
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
                Wake::Seen(seen) => self.saw(seen),
                Wake::Contend(Some(allowed)) => self.allow(allowed),
                Wake::Contend(None) => self.may_contend = None,
                Wake::Command(None) => self.commands = None,
                Wake::Command(Some(Command::GiveUp { hold_off, done })) => {
                    self.give_up(hold_off, done).await;
                }
                Wake::Command(Some(Command::Release { done })) => {
                    self.release().await;
                    let _ = done.send(());
                    return Ended::Released;
                }
            }
        }
    }

    fn decide(&mut self) -> Decision {
        let now = Instant::now();
        if self.poll_at.is_some_and(|at| at <= now) && self.office.is_none() {
            self.sight.doubt();
            self.poll_at = Some(now + self.config.terms.retry(fastrand::f64()));
        }
        let cancelled = self
            .office
            .as_ref()
            .is_some_and(|office| office.leading.token().is_cancelled());
        if cancelled {
            return Decision::Lost(Lost::RenewDeadline);
        }
        let own = Own {
            identity: &self.config.identity,
            terms: &self.config.terms,
            tenure: self.office.as_ref().map(|office| office.tenure),
            contends_at: self.candidacy.contends_at(),
            not_before: self.not_before.into_std(),
        };
        decide(now.into_std(), Timestamp::now(), &self.sight, &own)
    }

    async fn wait(&mut self, until: Option<Instant>) -> Wake {
        let Self {
            office,
            request,
            commands,
            may_contend,
            watching,
            poll_at,
            config,
            ..
        } = self;
        let terms = &config.terms;
        let deadline = office
            .as_ref()
            .map(|office| office.tenure.deadline(terms).into());
        let poll_at = poll_at.filter(|_| office.is_none());
        let over = async {
            match &*office {
                Some(office) => office.leading.token().cancelled().await,
                None => pending().await,
            }
        };
        let answer = async {
            match request {
                Some(request) => request.await,
                None => pending().await,
            }
        };
        let command = async {
            match commands {
                Some(commands) => commands.recv().await,
                None => pending().await,
            }
        };
        let contend = async {
            match may_contend {
                Some(may) => may.changed().await.ok().map(|()| *may.borrow_and_update()),
                None => pending().await,
            }
        };
        let seen = async {
            match watching.next().await {
                Some(seen) => seen,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = at(deadline) => Wake::Time,
            () = over => Wake::Time,
            answer = answer => Wake::Answer(answer),
            seen = seen => Wake::Seen(seen),
            allowed = contend => Wake::Contend(allowed),
            command = command => Wake::Command(command),
            () = at(until) => Wake::Time,
            () = at(poll_at) => Wake::Time,
        }
    }

    fn send(&self, decision: Decision) -> Request {
        match decision {
            Decision::Create(record) => self
                .requests
                .create(self.prepared(LeaseObject::new(&self.config, &record))),
            Decision::Update(record) => self.replace(Purpose::Update, &record),
            Decision::Release(record) => self.replace(Purpose::Release, &record),
            Decision::Confirm => self.requests.read(Purpose::Confirm),
            Decision::Read | Decision::Wait(_) | Decision::Lost(_) => {
                self.requests.read(Purpose::Read)
            }
        }
    }

    fn replace(&self, purpose: Purpose, record: &Record) -> Request {
        match &self.object {
            Some(object) => self
                .requests
                .update(purpose, self.prepared(object.clone().with(record))),
            None => self.requests.read(Purpose::Read),
        }
    }

    fn prepared(&self, mut lease: LeaseObject) -> LeaseObject {
        if self.office.is_some() {
            self.shared
                .annotations
                .apply(&mut lease.metadata.annotations);
        }
        lease
    }

    fn allow(&mut self, allowed: bool) {
        self.candidacy.allow(Instant::now().into_std(), allowed);
    }
}

/// What comes in.
impl Elector {
    fn answered(&mut self, answer: Answer) {
        let Answer { purpose, sent, .. } = answer;
        let knew = self.object.as_ref().map(LeaseObject::record);
        match self.learn(answer) {
            Ok(Some(record)) if !purpose.reads() && record.holder == self.config.identity => {
                self.acknowledged(sent, &record);
            }
            Ok(record) => {
                if purpose == Purpose::Confirm && record != knew && self.poll_at.is_none() {
                    debug!(
                        lease = self.config.name,
                        "the watch missed a change; starting it again"
                    );
                    self.watching = watch(self.api.clone(), &self.config);
                }
                self.standby();
            }
            Err(error) => self.failed(purpose, sent, &error),
        }
    }

    /// Takes in what an answer shows of the lease: its record, or none if there is no lease.
    fn learn(&mut self, answer: Answer) -> Result<Option<Record>, Error> {
        let now = Instant::now().into_std();
        let sent = answer.sent.into_std();
        match answer.result {
            Ok(lease) => {
                let record = lease.record();
                let version = lease.metadata.resource_version.as_str();
                self.sight
                    .answered(sent, now, Some((record.clone(), version)));
                self.shared.annotations.saw(&lease.metadata.annotations);
                self.object = Some(lease);
                Ok(Some(record))
            }
            Err(error) if answer.purpose.reads() && error.is_not_found() => {
                self.sight.answered(sent, now, None);
                self.shared.annotations.saw(&BTreeMap::new());
                self.object = None;
                Ok(None)
            }
            Err(error) => {
                self.sight.doubt();
                Err(error)
            }
        }
    }

    /// A claim or a renewal was acknowledged.
    fn acknowledged(&mut self, sent: Instant, record: &Record) {
        let now = Instant::now();
        self.recovered();
        let terms = &self.config.terms;
        if let Some(office) = &mut self.office {
            if office.extend(sent.into_std(), now.into_std(), terms) {
                *self.shared.renewed.lock() = Some(sent);
            }
            // Else the next decision ends it.
            return;
        }
        let contends = self
            .candidacy
            .contends_at()
            .is_some_and(|at| at <= now.into_std());
        let office = Office::begin(sent.into_std(), now.into_std(), record, terms);
        let Some(office) = office.filter(|_| contends) else {
            return;
        };
        info!(
            lease = self.config.name,
            epoch = record.transitions,
            "successfully acquired lease"
        );
        self.metrics.leading(&self.config.name, true);
        *self.shared.renewed.lock() = Some(sent);
        self.leadership
            .send_replace(Leadership::Leading(office.leading.clone()));
        self.office = Some(office);
        self.tell("became leader");
    }

    fn failed(&mut self, purpose: Purpose, sent: Instant, error: &Error) {
        let leads = self.office.is_some();
        if leads && purpose == Purpose::Update {
            self.metrics.slow(&self.config.name);
        }
        let lease = &self.config.name;
        // Somebody else wrote, or deleted it: look at once. But a collection is never absent.
        if error.code() == Some(409) || (error.is_not_found() && purpose != Purpose::Create) {
            debug!(lease, ?purpose, %error, "the lease is not what it was");
            return;
        }
        let now = Instant::now();
        self.not_before = if leads {
            now.max(sent + self.config.terms.retry_period())
        } else {
            now + self.config.terms.retry(fastrand::f64())
        };
        if self.failures == 0 {
            warn!(lease, ?purpose, %error, leads, "cannot reach the lease; trying again");
        } else {
            debug!(lease, ?purpose, %error, leads, failures = self.failures, "still cannot reach the lease");
        }
        self.failures = self.failures.saturating_add(1);
    }

    fn recovered(&mut self) {
        if self.failures > 0 {
            info!(
                lease = self.config.name,
                failures = self.failures,
                "reached the lease again"
            );
            self.failures = 0;
        }
    }

    fn saw(&mut self, seen: Seen) {
        let now = Instant::now();
        match seen {
            Seen::Opened => self.poll_at = None,
            Seen::Broken(error) => {
                debug!(
                    lease = self.config.name,
                    ?error,
                    "the watch of the lease ended"
                );
                self.poll_at = Some(now + self.config.terms.retry(fastrand::f64()));
            }
            Seen::Lease(lease) => {
                let version = lease.metadata.resource_version.as_str();
                if self
                    .sight
                    .watched(now.into_std(), Some(lease.record()), version)
                {
                    self.shared.annotations.saw(&lease.metadata.annotations);
                    self.object = Some(*lease);
                    self.standby();
                }
            }
            Seen::Deleted(version) => {
                if self.sight.watched(now.into_std(), None, &version) {
                    self.object = None;
                    self.standby();
                }
            }
        }
    }

    /// Tells who leads, if we do not.
    fn standby(&mut self) {
        self.recovered();
        if self.office.is_some() {
            return;
        }
        let holder = self.sight.holder();
        let changed = self
            .leadership
            .send_if_modified(|leadership| match leadership {
                Leadership::Standby { holder: known } if known.as_deref() == holder => false,
                _ => {
                    *leadership = Leadership::Standby {
                        holder: holder.map(Arc::from),
                    };
                    true
                }
            });
        if changed && let Some(holder) = holder {
            info!(lease = self.config.name, holder, "new leader elected");
        }
    }
}

/// The ways out.
impl Elector {
    /// From now on nothing is sent.
    fn lost(mut self, reason: Lost) -> Ended {
        self.request = None;
        self.leave();
        error!(lease = self.config.name, %reason, "leaderelection lost");
        self.leadership.send_replace(Leadership::Lost {
            reason: reason.clone(),
        });
        self.tell("stopped leading");
        Ended::Lost(reason)
    }

    async fn give_up(&mut self, hold_off: Duration, done: oneshot::Sender<()>) {
        if self.office.is_some() {
            self.release().await;
            self.candidacy.hold_off(Instant::now().into_std(), hold_off);
            info!(lease = self.config.name, ?hold_off, "gave the lease up");
        }
        let _ = done.send(());
    }

    /// Gives back what is or may be ours.
    async fn release(&mut self) {
        let led = self.office.is_some();
        if let Some(office) = &self.office {
            office.leading.end();
        }
        let limit = self.config.terms.renew_deadline();
        if timeout(limit, self.free()).await.is_err() {
            warn!(
                lease = self.config.name,
                "could not release the lease in time; it will expire"
            );
        }
        self.request = None;
        if led {
            self.leave();
            self.tell("stopped leading");
        }
        self.standby();
    }

    /// Writes the empty holder; once more if somebody else wrote in between.
    async fn free(&mut self) {
        // A claim or renewal under way might be carried out after ours.
        if let Some(request) = self.request.take() {
            let _ = self.learn(request.await);
        }
        for _ in 0..2 {
            if self.sight.is_doubtful() {
                let _ = self.learn(self.requests.read(Purpose::Read).await);
            }
            if self.sight.holder() != Some(&self.config.identity) {
                return;
            }
            let Some(object) = &self.object else { return };
            let record = object.record().released(Timestamp::now());
            let answer = self.replace(Purpose::Release, &record).await;
            match self.learn(answer) {
                Ok(_) => {
                    info!(lease = self.config.name, "released the lease");
                    return;
                }
                Err(error) => warn!(lease = self.config.name, %error, "cannot release the lease"),
            }
        }
    }

    /// Ends the time in office for everybody.
    fn leave(&mut self) {
        self.office = None;
        *self.shared.renewed.lock() = None;
        self.shared.annotations.forget();
        self.metrics.leading(&self.config.name, false);
    }

    fn tell(&self, what: &str) {
        let config = &self.config;
        (self.on_event)(LeaseEvent {
            namespace: config.namespace.clone(),
            name: config.name.clone(),
            uid: self
                .object
                .as_ref()
                .map_or_else(String::new, |object| object.metadata.uid.clone()),
            message: format!("{} {what}", config.identity),
        });
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
