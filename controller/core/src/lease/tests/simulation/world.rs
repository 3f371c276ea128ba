//! One lease, its replicas and the network between them.

use std::time::{Duration, Instant};

use super::{
    super::{super::*, start},
    TROUBLE,
    plan::{Fate, Plan, SMOOTH, Trouble},
};

#[derive(Clone, Debug)]
enum Ask {
    Read,
    Create(LeaseRecord),
    Update(LeaseRecord, u64),
}

/// 409 or no such object to update: look again.
type Reply = Result<Option<(LeaseRecord, u64)>, ()>;

#[derive(Debug)]
enum Letter {
    ToServer {
        from: usize,
        life: u32,
        number: u32,
        ask: Ask,
        fate: Fate,
    },
    Reply {
        to: usize,
        life: u32,
        number: u32,
        reply: Reply,
    },
    Watch {
        to: usize,
        life: u32,
        version: u64,
    },
}

pub(super) struct Replica {
    identity: String,
    life: u32,
    offset: Duration,
    rate: f64,
    wall: i64,
    frozen_until: u64,
    observed: ObservedLease,
    version: u64,
    /// The newest version that a watch showed.
    shown: u64,
    renewed: Option<Instant>,
    pub(super) may_contend: bool,
    contends_from: Instant,
    /// It gave the lease up, and has not released it yet.
    releases: bool,
    not_before: Instant,
    /// The request under way: number, sent at, whether it is a read, whether it claims.
    request: Option<(u32, Instant, bool, bool)>,
    requests: u32,
    mail: Vec<Letter>,
}

pub(super) struct World {
    deletes: bool,
    start: Instant,
    pub(super) millis: u64,
    pub(super) replicas: Vec<Replica>,
    lease: Option<(LeaseRecord, u64)>,
    version: u64,
    /// By the time at which they arrive.
    letters: Vec<(u64, Letter)>,
    /// Watch events come in order.
    watched: Vec<u64>,
    fates: Vec<Fate>,
    fate: usize,
}

impl Replica {
    fn clock(&self, start: Instant, millis: u64) -> Instant {
        start + self.offset + Duration::from_millis(millis).mul_f64(self.rate)
    }

    fn leads(&self, now: Instant) -> bool {
        self.renewed
            .is_some_and(|sent| now < Durations::DEFAULT.deadline(sent))
    }
}

impl World {
    pub(super) fn new(plan: &Plan, deletes: bool) -> Self {
        let start = start();
        let replicas = plan
            .clocks
            .iter()
            .enumerate()
            .map(|(index, (millis, percent))| {
                let offset = Duration::from_millis(u64::from(millis.unsigned_abs()));
                Replica {
                    identity: format!("replica-{index}-0"),
                    life: 0,
                    offset,
                    rate: 1.0 + f64::from(*percent) / 100.0,
                    wall: i64::from(*millis),
                    frozen_until: 0,
                    observed: ObservedLease::default(),
                    version: 0,
                    shown: 0,
                    renewed: None,
                    may_contend: true,
                    contends_from: start,
                    releases: false,
                    not_before: start,
                    request: None,
                    requests: 0,
                    mail: Vec::new(),
                }
            });
        Self {
            deletes,
            start,
            millis: 0,
            replicas: replicas.collect(),
            lease: None,
            version: 0,
            letters: Vec::new(),
            watched: vec![0; plan.clocks.len()],
            fates: plan.fates.clone(),
            fate: 0,
        }
    }

    fn fate(&mut self) -> Fate {
        if self.millis >= TROUBLE {
            return SMOOTH;
        }
        self.fate += 1;
        self.fates[self.fate % self.fates.len()]
    }

    pub(super) fn now(&self, index: usize) -> Instant {
        self.replicas[index].clock(self.start, self.millis)
    }

    /// The lease changed: every watch gets the event, unless it gets lost.
    fn changed(&mut self, record: Option<&LeaseRecord>) {
        self.version += 1;
        self.lease = record.cloned().map(|record| (record, self.version));
        for to in 0..self.replicas.len() {
            let fate = self.fate();
            if fate.arrives {
                let at = (self.millis + u64::from(fate.there)).max(self.watched[to]);
                self.watched[to] = at;
                let life = self.replicas[to].life;
                let version = self.version;
                self.letters.push((at, Letter::Watch { to, life, version }));
            }
        }
    }

    fn serve(&mut self, ask: Ask) -> Reply {
        match (ask, &self.lease) {
            (Ask::Read, _) => {}
            (Ask::Create(record), None) => self.changed(Some(&record)),
            (Ask::Update(record, version), Some((_, held))) if version == *held => {
                self.changed(Some(&record));
            }
            _ => return Err(()),
        }
        Ok(self.lease.clone())
    }

    pub(super) fn deliver(&mut self) {
        let due: Vec<_> = self
            .letters
            .extract_if(.., |(at, _)| *at <= self.millis)
            .collect();
        for (_, letter) in due {
            match letter {
                Letter::ToServer {
                    from,
                    life,
                    number,
                    ask,
                    fate,
                } => {
                    let reply = self.serve(ask);
                    if fate.returns {
                        let at = self.millis + u64::from(fate.back);
                        let reply = Letter::Reply {
                            to: from,
                            life,
                            number,
                            reply,
                        };
                        self.letters.push((at, reply));
                    }
                }
                Letter::Reply { to, life, .. } | Letter::Watch { to, life, .. } => {
                    if self.replicas[to].life == life {
                        self.replicas[to].mail.push(letter);
                    }
                }
            }
        }
    }

    /// One step of the elector between two waits.
    pub(super) fn run(&mut self, index: usize) {
        let now = self.now(index);
        let replica = &mut self.replicas[index];
        if replica.frozen_until > self.millis {
            return;
        }
        if replica.renewed.is_some() && !replica.leads(now) {
            return self.crash(index);
        }
        for letter in std::mem::take(&mut replica.mail) {
            match letter {
                Letter::Watch { version, .. } => replica.shown = replica.shown.max(version),
                Letter::Reply { number, reply, .. } => {
                    let Some((_, sent, _, claims)) = replica
                        .request
                        .take_if(|(under_way, ..)| *under_way == number)
                    else {
                        continue;
                    };
                    let Ok(answer) = reply else {
                        replica.observed.invalidate();
                        continue;
                    };
                    let record = answer.as_ref().map(|(record, _)| record.clone());
                    replica.observed.answered(sent, now, record);
                    let Some((record, version)) = answer else {
                        replica.version = replica.shown;
                        continue;
                    };
                    replica.version = version;
                    let contends = replica.may_contend && replica.contends_from <= now;
                    let is_acknowledged = claims && record.holder == replica.identity;
                    if is_acknowledged
                        && now < Durations::DEFAULT.deadline(sent)
                        && (replica.renewed.is_some() || contends)
                    {
                        replica.renewed = Some(sent);
                    }
                }
                Letter::ToServer { .. } => unreachable!(),
            }
        }
        if replica.shown > replica.version {
            replica.observed.invalidate();
        }
        let late = replica
            .request
            .filter(|(_, sent, ..)| now - *sent >= Durations::DEFAULT.request_timeout());
        if late.is_some() {
            replica.request = None;
            replica.observed.invalidate();
            replica.not_before = now + Durations::DEFAULT.retry_period();
        }
        let own = ReplicaState {
            identity: &replica.identity,
            durations: &Durations::DEFAULT,
            renewed: replica.renewed,
            contends_at: replica.may_contend.then_some(replica.contends_from),
            not_before: replica.not_before,
            renew_early: false,
        };
        let millis = i64::try_from(self.millis).unwrap() + replica.wall;
        let wall = jiff::Timestamp::from_millisecond(1_700_000_000_000 + millis).unwrap();
        let version = replica.version;
        let decision = decide(now, wall, &replica.observed, &own);
        let is_released = std::mem::take(&mut replica.releases);
        let released = replica.observed.record().filter(|_| is_released);
        let released = released.filter(|record| record.holder == replica.identity);
        let (ask, claims) = match decision {
            _ if let Some(record) = released => {
                (Ask::Update(record.released(wall), version), false)
            }
            Decision::Lost(_) => return self.crash(index),
            Decision::Wait(until) => {
                assert!(until.is_none_or(|until| until > now), "a wait that is over");
                return;
            }
            Decision::Read => (Ask::Read, false),
            Decision::Create(record) => (Ask::Create(record), true),
            Decision::Update(record) => (Ask::Update(record, version), true),
        };
        if replica.request.is_some() {
            return;
        }
        replica.requests += 1;
        let (number, life) = (replica.requests, replica.life);
        replica.request = Some((number, now, matches!(ask, Ask::Read), claims));
        let fate = self.fate();
        self.replicas[index].frozen_until = self.millis + u64::from(fate.freezes);
        if fate.arrives {
            let at = self.millis + u64::from(fate.there);
            self.letters.push((
                at,
                Letter::ToServer {
                    from: index,
                    life,
                    number,
                    ask,
                    fate,
                },
            ));
        }
    }

    /// The process ends and another takes its place.
    fn crash(&mut self, index: usize) {
        let now = self.now(index);
        let replica = &mut self.replicas[index];
        if self.deletes {
            // A process that never saw the lease makes it at once, beside a holder that still acts.
            // This test is about those that saw it.
            replica.frozen_until = self.millis + 20_000;
        }
        replica.life += 1;
        // The identity file of every other replica is kept.
        if !index.is_multiple_of(2) {
            replica.identity = format!("replica-{index}-{}", replica.life);
        }
        replica.observed = ObservedLease::default();
        replica.version = 0;
        replica.shown = 0;
        replica.renewed = None;
        replica.may_contend = true;
        replica.contends_from = now;
        replica.releases = false;
        replica.not_before = now;
        replica.request = None;
        replica.mail.clear();
    }

    pub(super) fn suffer(&mut self, index: usize, trouble: Trouble) {
        let now = self.now(index);
        let replica = &mut self.replicas[index];
        match trouble {
            Trouble::Freeze { millis } => replica.frozen_until = self.millis + u64::from(millis),
            // A new process knows of no lease that was deleted.
            Trouble::Crash if !self.deletes => self.crash(index),
            Trouble::GiveUp if replica.renewed.take().is_some() => {
                replica.contends_from = now + Duration::from_secs(6);
                replica.releases = true;
            }
            Trouble::MayContend(may) => replica.may_contend = may,
            Trouble::Touch => {
                if let Some((record, _)) = self.lease.clone() {
                    self.changed(Some(&record));
                }
            }
            Trouble::Delete if self.deletes && self.known_to_all() => self.changed(None),
            Trouble::Crash | Trouble::GiveUp | Trouble::Delete => {}
        }
    }

    /// Returns true if all replicas have observed the lease, and no earlier POST is in flight.
    fn known_to_all(&self) -> bool {
        let making = |(_, letter): &(u64, Letter)| {
            matches!(
                letter,
                Letter::ToServer {
                    ask: Ask::Create(_),
                    ..
                }
            )
        };
        self.replicas
            .iter()
            .all(|replica| replica.observed.holder().is_some())
            && !self.letters.iter().any(making)
    }

    pub(super) fn leaders(&self) -> Vec<&str> {
        let leads = |index: &usize| self.replicas[*index].leads(self.now(*index));
        let indices = (0..self.replicas.len()).filter(leads);
        indices
            .map(|index| &*self.replicas[index].identity)
            .collect()
    }
}
