//! Two replicas over one Lease, with clocks that run at different rates.
//!
//! | step of the model | function of `controller/kubernetes/src/leader/election` |
//! |---|---|
//! | a replica sends a request | `Elector::decide`, `send`, with `core::lease::decide` |
//! | the API server carries it out, the answer arrives or is lost | `answered`, `learn`, `acknowledged`, `failed` |
//! | the watch delivers a change | `observed` |
//! | the leader ends, and its successor begins | `lost` |
//!
//! Time passes in steps, in which replicas do all that is due, unless they are frozen: one that is frozen does nothing, its
//! clock goes on, and its requests may still be carried out. No clock is faster than another by a fifth: the lease lasts
//! half as long again as the leader acts without a renewal.
//!
//! A Lease that a user deletes is left out: a process that finds none at its first look takes it for one that never was, and claims it
//! though another one may not know yet.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use outrigger_core::lease::{
    Candidacy, Decision, Durations, LeaseRecord, LeaseTerm, ObservedLease, ReplicaState, decide,
};

use crate::{
    hashed::Hashed,
    scope::Scope,
    search::{Add, Model},
};

const STEP: u64 = 500;
/// Milliseconds that the clocks of both show for a step.
const RATES: [[u64; 2]; 3] = [[STEP, STEP], [STEP, STEP * 6 / 5], [STEP * 6 / 5, STEP]];
/// Steps in which faults happen.
const HORIZON: u8 = 12;
/// Steps without a fault after which one leads.
const REST: u8 = 24;

pub(crate) struct Lease {
    scope: Scope,
    start: Instant,
    durations: Durations,
}

#[derive(Clone, Hash)]
pub(crate) struct State {
    left: Scope,
    rates: [u64; 2],
    steps: u8,
    /// With its resourceVersion.
    lease: Option<Hashed<LeaseRecord>>,
    version: u64,
    replicas: [Hashed<Replica>; 2],
    /// Requests that no replica waits for any more.
    late: Vec<Hashed<Request>>,
    is_calm: bool,
}

#[derive(Clone, Debug)]
struct Replica {
    identity: String,
    /// Processes before it, if its identity file is left.
    predecessors: Vec<String>,
    is_frozen: bool,
    observed: ObservedLease,
    /// The version of the Lease that `observed` has.
    object: Option<u64>,
    candidacy: Candidacy,
    term: Option<LeaseTerm>,
    not_before: Instant,
    request: Option<(Request, Option<Answer>)>,
    /// Changes that the watch has not delivered.
    coming: Vec<(Option<LeaseRecord>, u64)>,
}

#[derive(Clone, Debug)]
struct Request {
    sent: Instant,
    /// A read has none.
    record: Option<LeaseRecord>,
    /// The version that it is written over; none: it must not exist.
    over: Option<u64>,
}

#[derive(Clone, Debug)]
enum Answer {
    Lease(Option<LeaseRecord>, u64),
    Conflict,
}

impl Lease {
    pub(crate) fn new(scope: Scope) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "a start for clocks that the model moves"
        )]
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let durations = Durations::new(seconds(3), seconds(2), seconds(1)).unwrap();
        Self {
            scope,
            start,
            durations,
        }
    }

    fn now(&self, state: &State, at: usize) -> Instant {
        self.start + Duration::from_millis(state.rates[at] * u64::from(state.steps))
    }

    fn replica(&self, identity: String, now: Instant) -> Replica {
        let mut candidacy = Candidacy::default();
        candidacy.allow(self.start, true);
        Replica {
            identity,
            predecessors: Vec::new(),
            is_frozen: false,
            observed: ObservedLease::default(),
            object: None,
            candidacy,
            term: None,
            not_before: now,
            request: None,
            coming: Vec::new(),
        }
    }

    fn decision(&self, state: &State, at: usize) -> Decision {
        let replica = &state.replicas[at];
        let own = ReplicaState {
            identity: &replica.identity,
            predecessors: &replica.predecessors,
            durations: &self.durations,
            lease_term: replica.term,
            contends_at: replica.candidacy.contends_at(),
            not_before: replica.not_before,
            renew_early: false,
        };
        let wall = Timestamp::UNIX_EPOCH + Duration::from_millis(STEP * u64::from(state.steps));
        decide(self.now(state, at), wall, &replica.observed, &own)
    }

    /// True if the fence of the replica is open.
    fn leads(&self, state: &State, at: usize) -> bool {
        let term = state.replicas[at].term;
        term.is_some_and(|term| self.now(state, at) < term.deadline(&self.durations))
    }

    fn with(state: &State, at: usize, act: impl FnOnce(&mut Replica)) -> State {
        let mut after = state.clone();
        let mut replica = Replica::clone(&after.replicas[at]);
        act(&mut replica);
        after.replicas[at] = Hashed::new(replica);
        after
    }

    /// A new process in place of the replica, whose request may still be carried out; with the identity file or, in a
    /// new Pod, without it.
    fn restarted(&self, state: &State, at: usize, has_file: bool) -> State {
        let mut after = state.clone();
        let old = &state.replicas[at];
        if let Some((request, None)) = &old.request {
            after.late.push(Hashed::new(request.clone()));
        }
        let mut next = self.replica(format!("{}'", old.identity), self.now(state, at));
        if has_file {
            next.predecessors.clone_from(&old.predecessors);
            next.predecessors.push(old.identity.clone());
        }
        after.replicas[at] = Hashed::new(next);
        after
    }

    /// Requests of a replica that runs, and its end.
    fn acts(&self, state: &State, at: usize, add: &mut Add<'_, State>) -> bool {
        let replica = &state.replicas[at];
        let decision = self.decision(state, at);
        if let Decision::Lost(lost) = &decision {
            add(
                format_args!("replica {at} ends: {lost}"),
                self.restarted(state, at, true),
            );
            return true;
        }
        if let Some((_, Some(_))) = &replica.request {
            add(
                format_args!("an answer reaches replica {at}"),
                self.answered(state, at),
            );
            return true;
        }
        if replica.request.is_some() {
            return false;
        }
        let now = self.now(state, at);
        let request = match decision {
            Decision::Read | Decision::Confirm => Request {
                sent: now,
                record: None,
                over: None,
            },
            Decision::Create(record) => Request {
                sent: now,
                record: Some(record),
                over: None,
            },
            Decision::Update(record) | Decision::Release(record) => Request {
                sent: now,
                record: replica.object.map(|_| record),
                over: replica.object,
            },
            Decision::Wait(_) | Decision::Lost(_) => return false,
        };
        let words = match &request.record {
            None => "reads the Lease",
            Some(record) if record.holder.is_empty() => "releases the Lease",
            Some(_) => "writes the Lease",
        };
        let after = Self::with(state, at, |replica| replica.request = Some((request, None)));
        add(format_args!("replica {at} {words}"), after);
        true
    }

    /// `Elector::answered`.
    fn answered(&self, state: &State, at: usize) -> State {
        let now = self.now(state, at);
        Self::with(state, at, |replica| {
            let Some((request, Some(answer))) = replica.request.take() else {
                return;
            };
            match answer {
                Answer::Lease(record, version) => {
                    let text = version.to_string();
                    let shown = record.clone().map(|record| (record, &*text));
                    if replica.observed.answered(request.sent, now, shown) {
                        replica.object = record.as_ref().map(|_| version);
                    }
                    match record {
                        Some(record)
                            if request.record.is_some() && record.holder == replica.identity =>
                        {
                            let durations = &self.durations;
                            match &mut replica.term {
                                Some(term) => _ = term.extend(request.sent, now, durations),
                                None => {
                                    replica.term =
                                        LeaseTerm::begin(request.sent, now, &record, durations);
                                }
                            }
                        }
                        _ => replica.stands_by(),
                    }
                }
                Answer::Conflict => replica.observed.invalidate(),
            }
        })
    }
}

impl Replica {
    fn stands_by(&mut self) {
        let holder = self.observed.holder();
        if self.term.is_none() && holder.is_some_and(|holder| holder != self.identity) {
            self.candidacy.observe_rival();
        }
    }
}

impl State {
    fn put(&mut self, record: Option<&LeaseRecord>) {
        self.version += 1;
        self.lease = record.map(|record| Hashed::new(record.clone()));
        for at in 0..2 {
            let mut replica = Replica::clone(&self.replicas[at]);
            replica.coming.push((record.cloned(), self.version));
            self.replicas[at] = Hashed::new(replica);
        }
    }

    /// The API server carries out a request.
    fn carry_out(&mut self, request: &Request) -> Answer {
        let current = self.lease.as_ref().map(|_| self.version);
        match &request.record {
            Some(_) if request.over != current => Answer::Conflict,
            Some(record) => {
                self.put(Some(record));
                Answer::Lease(Some(record.clone()), self.version)
            }
            None => {
                let record = self.lease.as_deref().cloned();
                Answer::Lease(record, self.version)
            }
        }
    }
}

impl Model for Lease {
    type State = State;

    fn begin(&self) -> Vec<State> {
        let replica = |name: &str| Hashed::new(self.replica(name.to_owned(), self.start));
        let state = |rates| State {
            left: self.scope,
            rates,
            steps: 0,
            lease: None,
            version: 0,
            replicas: [replica("a"), replica("b")],
            late: Vec::new(),
            is_calm: false,
        };
        RATES.map(state).into()
    }

    fn steps(&self, state: &State, add: &mut Add<'_, State>) {
        let mut is_busy = false;
        for at in 0..2 {
            let replica = &state.replicas[at];
            if !replica.is_frozen {
                if let Some((record, version)) = replica.coming.first().cloned() {
                    let now = self.now(state, at);
                    let after = Self::with(state, at, |replica| {
                        replica.coming.remove(0);
                        let is_there = record.is_some();
                        if replica.observed.watched(now, record, &version.to_string()) {
                            replica.object = is_there.then_some(version);
                            replica.stands_by();
                        }
                    });
                    add(
                        format_args!("the watch of replica {at} delivers a change"),
                        after,
                    );
                    is_busy = true;
                }
                is_busy |= self.acts(state, at, add);
            }
            if let Some((request, None)) = &replica.request {
                let mut after = state.clone();
                let answer = after.carry_out(request);
                let words = format!("{answer:?}");
                let request = request.clone();
                let after = Self::with(&after, at, |replica| {
                    replica.request = Some((request, Some(answer)));
                });
                add(
                    format_args!("the API server answers replica {at}: {words}"),
                    after,
                );
                is_busy |= !replica.is_frozen;
            }
            if let Some((request, answer)) = &replica.request
                && state.left.lost_answers > 0
            {
                let now = self.now(state, at);
                let mut after = Self::with(state, at, |replica| {
                    let leads = replica.term.is_some();
                    replica.request = None;
                    replica.observed.invalidate();
                    let retry = self.durations.retry_period();
                    replica.not_before = if leads {
                        now.max(request.sent + retry)
                    } else {
                        now + retry
                    };
                });
                after.left.lost_answers -= 1;
                if answer.is_none() {
                    after.late.push(Hashed::new(request.clone()));
                }
                add(format_args!("the answer to replica {at} is lost"), after);
            }
            if state.left.crashes > 0 && (state.lease.is_some() || state.version == 0) {
                for (has_file, words) in [(true, "again"), (false, "in a new Pod")] {
                    let mut after = self.restarted(state, at, has_file);
                    after.left.crashes -= 1;
                    add(format_args!("replica {at} dies, and begins {words}"), after);
                }
            }
            if state.left.leader_changes > 0 && !replica.is_frozen {
                let mut after = Self::with(state, at, |replica| replica.is_frozen = true);
                after.left.leader_changes -= 1;
                add(format_args!("replica {at} is frozen"), after);
            }
            if replica.is_frozen {
                let after = Self::with(state, at, |replica| replica.is_frozen = false);
                add(format_args!("replica {at} goes on"), after);
                is_busy |= state.is_calm;
            }
        }
        for nth in 0..state.late.len() {
            let mut after = state.clone();
            let request = after.late.remove(nth);
            after.carry_out(&request);
            add(format_args!("a request from before is carried out"), after);
        }
        // A watch may be late: the change is not delivered in this step.
        let may_pass = !is_busy || (state.left.stale_reads > 0 && !state.is_calm);
        if may_pass
            && state.steps
                < if state.is_calm {
                    HORIZON + REST
                } else {
                    HORIZON
                }
        {
            let mut after = state.clone();
            after.steps += 1;
            after.left.stale_reads -= u8::from(is_busy);
            add(format_args!("time passes"), after);
        }
    }

    fn violation(&self, state: &State) -> Option<&'static str> {
        (self.leads(state, 0) && self.leads(state, 1)).then_some("two replicas lead at one time")
    }

    fn calm(&self, state: &State) -> State {
        State {
            left: Scope::NONE,
            is_calm: true,
            late: Vec::new(),
            ..state.clone()
        }
    }

    fn missing(&self, state: &State) -> Option<&'static str> {
        let leads = self.leads(state, 0) || self.leads(state, 1);
        (!leads).then_some("no replica leads")
    }
}
