//! `BatchGetInstances`: each Node waits for the next call of its purpose, which is no larger than the provider accepts.
//!
//! ```text
//!  ask ─► waiting, for 25 to 250 ms ─► admission ─► send ─► one result for each
//!   ▲                                                             │
//!   └─────────────────────── Asked::answer ◄──────────────────────┘
//! ```
//!
//! [`crate::Instances::look_up`] is the only caller. Each lookup gets exactly one answer, also when the batcher ends. A
//! call that fails because of its request is repeated by halves, so that one Node does not fail the others; a Node that
//! hangs is asked about alone.

use std::{future, mem, sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all, stream};
use outrigger_api::v1::ErrorReason;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Error, Shared,
    admission::Slot,
    call::Caller,
    lookup::{LookupAnswer, METHOD, NodeLookup, RPC, read_answers, request},
};

/// Nodes in a call before a provider has declared how many it accepts.
const BATCH: usize = 100;

/// A call is due when no Node has joined it for this long: the time in which one event makes many workers
/// ask, and far below a cloud call.
const IDLE: Duration = Duration::from_millis(25);
/// A call is due this long after its first Node, whatever joins.
const LONGEST: Duration = Duration::from_millis(250);

/// How often a batch is split whose call fails because of its request: often enough to find one Node among 200, which is
/// the largest batch, and no storm if every call fails.
const SPLITS: usize = 8;

/// Calls about one Node at once, after a call that left several without an answer: a Node that hangs delays the others
/// of its call by one deadline, and leaves places to other calls.
const ALONE_AT_ONCE: usize = 2;

/// A Node that waits longer for a call of its own fails: its caller has to know, and asks again.
const LONGEST_WAIT: Duration = Duration::from_mins(2);

/// A lookup, and where its answer goes.
pub(super) struct Asked {
    lookup: NodeLookup,
    caller: Caller,
    answer: oneshot::Sender<LookupAnswer>,
}

impl Asked {
    /// Returns true if its caller still waits.
    fn is_wanted(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Returns true if both may be in one call: it is for one purpose and of one lease term, and has one result for each
    /// name.
    fn may_join(&self, other: &Self) -> bool {
        mem::discriminant(&self.lookup.purpose) == mem::discriminant(&other.lookup.purpose)
            && self.caller.fence == other.caller.fence
            && self.lookup.node.name != other.lookup.node.name
    }

    /// Answers its caller, if it still waits.
    fn answer(self, answer: impl Into<LookupAnswer>) {
        let _ = self.answer.send(answer.into());
    }
}

fn fail_all(items: Vec<Asked>, error: &Error) {
    for item in items {
        item.answer(Err(error.clone()));
    }
}

/// Where lookups are sent to. Callers are bounded by the keys that their loop has in flight.
pub(super) type Lookups = mpsc::UnboundedSender<Asked>;

/// The way to the batcher, and the future that is its work. It ends when cancelled; callers that still wait then get
/// an error.
pub(super) fn batcher(
    shared: &Arc<Shared>,
    cancel: CancellationToken,
) -> (Lookups, impl Future<Output = ()> + Send + use<>) {
    let (lookups, arriving) = mpsc::unbounded_channel();
    let batcher = Batcher {
        shared: Arc::clone(shared),
        arriving,
        waiting: Vec::new(),
    };
    let run = async move {
        cancel.run_until_cancelled(batcher.run()).await;
    };
    (lookups, run)
}

/// Hands the lookup to the batcher, and waits for its answer. The stop withdraws the lookup, which changes nothing in
/// the cloud, and so does dropping the future.
pub(super) async fn ask(lookups: &Lookups, lookup: NodeLookup, caller: Caller) -> LookupAnswer {
    let (answer, answered) = oneshot::channel();
    // A batcher that has ended drops it.
    let _ = lookups.send(Asked {
        lookup,
        caller: caller.clone(),
        answer,
    });
    let ending = |_dropped| {
        let reason = "the controller is ending".into();
        Err(Error::Unavailable { reason }).into()
    };
    match caller.wait(RPC, answered).await {
        Ok(answered) => answered.unwrap_or_else(ending),
        Err(stopped) => Err(stopped).into(),
    }
}

/// Makes the calls.
struct Batcher {
    shared: Arc<Shared>,
    arriving: mpsc::UnboundedReceiver<Asked>,
    /// Lookups that have not gone out, oldest first.
    waiting: Vec<Asked>,
}

impl Batcher {
    async fn run(mut self) {
        let mut calls = JoinSet::new();
        loop {
            self.gather().await;
            let admitted = self.shared.admit(METHOD).await;
            // All that wait by now may join.
            while let Ok(lookup) = self.arriving.try_recv() {
                self.waiting.push(lookup);
            }
            self.waiting.retain(Asked::is_wanted);
            match admitted {
                Ok(slot) => {
                    let batch = self.take_batch();
                    if !batch.is_empty() {
                        calls.spawn(send_batch(slot, batch));
                    }
                }
                Err(error) => fail_all(mem::take(&mut self.waiting), &error),
            }
            while calls.try_join_next().is_some() {}
        }
    }

    /// Waits until a call is due.
    async fn gather(&mut self) {
        if self.waiting.is_empty() {
            self.arrived().await;
        }
        let begin = Instant::now();
        while self.waiting.len() < self.most() {
            let due = (Instant::now() + IDLE).min(begin + LONGEST);
            if timeout_at(due, self.arrived()).await.is_err() {
                return;
            }
        }
    }

    /// Waits for lookups.
    async fn arrived(&mut self) {
        if self.arriving.recv_many(&mut self.waiting, BATCH).await == 0 {
            // The handle is gone, and no caller is left.
            future::pending::<()>().await;
        }
    }

    /// Nodes in one call.
    fn most(&self) -> usize {
        let session = self.shared.session.borrow();
        let offered = session
            .as_ref()
            .and_then(|session| session.instances.as_ref());
        offered.map_or(BATCH, |offered| offered.max_batch_size)
    }

    /// The first of the lookups that wait, and those that may join it.
    fn take_batch(&mut self) -> Vec<Asked> {
        let most = self.most();
        let mut batch: Vec<Asked> = Vec::new();
        for item in mem::take(&mut self.waiting) {
            if batch.len() < most && batch.iter().all(|other| item.may_join(other)) {
                batch.push(item);
            } else {
                self.waiting.push(item);
            }
        }
        batch
    }
}

/// Sends a batch, and each caller its answer. A call that fails because of its request is repeated by halves, so that
/// one Node does not fail the others. A Node that was not answered until the deadline is asked about again alone.
async fn send_batch(slot: Slot, items: Vec<Asked>) {
    let is_alone = items.len() == 1;
    let mut slot = Some(slot);
    // True while the call was about several Nodes and all of them met the same error.
    let mut is_common = !is_alone;
    let mut splits = SPLITS;
    let mut parts = vec![items];
    let mut unanswered = Vec::new();
    while let Some(items) = parts.pop() {
        let is_last = parts.is_empty() && (items.len() == 1 || splits == 0);
        match call_batch(slot.take(), items, is_common && is_last).await {
            Ok(answers) => {
                is_common = false;
                for (item, answer) in answers {
                    match answer.result {
                        Err(error) if error.is_no_answer() && !is_alone => {
                            unanswered.push((item, error));
                        }
                        result => item.answer(LookupAnswer { result, ..answer }),
                    }
                }
            }
            // A Node whose call was its own already fails.
            Err((items, error)) if error.is_no_answer() && !is_alone => {
                unanswered.extend(items.into_iter().map(|item| (item, error.clone())));
            }
            Err((mut items, error))
                if error.is_about_request() && items.len() > 1 && splits > 0 =>
            {
                // A request that is too large was not sent.
                splits -= usize::from(!matches!(error, Error::TooLarge { .. }));
                let rest = items.split_off(items.len() / 2);
                parts.extend([rest, items]);
            }
            Err((items, error)) => fail_all(items, &error),
        }
    }
    let until = Instant::now() + LONGEST_WAIT;
    let ask_alone = |(item, error): (Asked, Error)| async move {
        if Instant::now() >= until {
            return item.answer(Err(error));
        }
        match call_batch(None, vec![item], false).await {
            Ok(answers) => answers
                .into_iter()
                .for_each(|(item, answer)| item.answer(answer)),
            Err((items, error)) => fail_all(items, &error),
        }
    };
    let unanswered = stream::iter(unanswered);
    unanswered
        .for_each_concurrent(ALONE_AT_ONCE, ask_alone)
        .await;
}

/// Makes one call about Nodes of one purpose and one lease term, after its admission if it has none. Returns those whose
/// callers still wait, with their answers. `is_common`: if it fails, it has the error of all calls about these Nodes.
async fn call_batch(
    slot: Option<Slot>,
    mut items: Vec<Asked>,
    is_common: bool,
) -> Result<Vec<(Asked, LookupAnswer)>, (Vec<Asked>, Error)> {
    items.retain(Asked::is_wanted);
    // The cloud is asked as the strictest of them wants it.
    let purpose = items.iter().map(|item| item.lookup.purpose).min();
    let (Some(purpose), Some(first)) = (purpose, items.first()) else {
        return Ok(Vec::new());
    };
    let caller = first.caller.clone();
    let admitted = match slot {
        Some(slot) => Ok(slot),
        None => caller
            .wait(RPC, caller.shared.admit(METHOD))
            .await
            .flatten(),
    };
    let slot = match admitted {
        Ok(slot) => slot,
        Err(error) => return Err((items, error)),
    };
    let session = slot.begin();
    let Some(instances) = &session.instances else {
        return Err((items, Error::NotOffered { rpc: RPC }));
    };
    let shared = &caller.shared;
    let began = Instant::now();
    let request = request(purpose, items.iter().map(|item| &item.lookup), session);
    let all_gone = join_all(items.iter_mut().map(|item| item.answer.closed()));
    let ended = tokio::select! {
        biased;
        ended = caller.unary(session, request) => ended,
        _ = all_gone => return Ok(Vec::new()),
    };
    let results = match ended {
        Ok(response) => response.results,
        Err(error) => {
            slot.permit.ended(Some(&error));
            if is_common && error.is_opaque() {
                let reason = ErrorReason::CloudUnavailable;
                slot.permit.pause(&error, reason, None);
            }
            return Err((items, error));
        }
    };
    let lookups = items.iter().map(|item| &item.lookup);
    let answers = read_answers(
        lookups,
        results,
        began.elapsed(),
        instances,
        &shared.repeats,
    );
    let none_answered = answers.iter().all(|answer| answer.result.is_err());
    let mut errors = answers
        .iter()
        .filter_map(|answer| answer.result.as_ref().err());
    slot.permit
        .ended(errors.find(|error| error.speaks_for_all(none_answered)));
    // The next batch may be admitted before the callers go on.
    Ok(items.into_iter().zip(answers).collect())
}
