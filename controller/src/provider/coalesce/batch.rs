//! Which questions leave together, and when.

use std::{
    collections::{HashMap, VecDeque},
    sync::atomic::Ordering,
    time::Duration,
};

use tokio::time::Instant;

use super::{Error, Leave, Question, Reply, Session, Subject, Urgency};

/// A batch leaves when nothing has joined it for this long: the time in which one event makes many
/// workers ask, and far below a cloud call.
const IDLE: Duration = Duration::from_millis(25);
/// A batch leaves this long after its first question, whatever joins.
const LONGEST: Duration = Duration::from_millis(250);

/// Questions that have not left, oldest first.
pub(super) struct Batches<S: Subject>(VecDeque<Batch<S>>);

/// Questions that leave together.
pub(in super::super) struct Batch<S: Subject> {
    pub(in super::super) group: S::Group,
    pub(in super::super) asks: Vec<Ask<S>>,
    by_key: HashMap<S::Key, usize>,
    full: bool,
    opened: Instant,
    joined: Instant,
}

/// One subject, and all its callers.
pub(in super::super) struct Ask<S: Subject> {
    pub(in super::super) subject: S,
    replies: Vec<Reply<S>>,
    leave: Leave,
}

impl<S: Subject> Default for Batches<S> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<S: Subject> Batches<S> {
    /// Takes in a question. A batch is full with `size` subjects.
    pub(super) fn join(&mut self, question: Question<S>, now: Instant, size: usize) {
        let mut refused = Box::new(question);
        for batch in &mut self.0 {
            match batch.join(*refused, now, size) {
                Ok(()) => return,
                Err(question) => refused = question,
            }
        }
        let mut batch = Batch::new(*refused, now);
        batch.full = size <= 1;
        self.0.push_back(batch);
    }

    /// When the next batch becomes due after `now`.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = self.0.iter().map(Batch::due);
        due.filter(|due| *due > now).min()
    }

    /// The urgency of the batch that leaves next, if one is due.
    pub(super) fn most_urgent(&mut self, now: Instant) -> Option<Urgency> {
        let at = self.next(now)?;
        self.0.get(at).map(|batch| S::urgency(&batch.group))
    }

    /// Takes out the batch that leaves next, if one is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Batch<S>> {
        let at = self.next(now)?;
        self.0.remove(at)
    }

    /// Place of the batch that leaves next, without subjects whose callers are gone: of those that are
    /// due the most urgent, and of these the oldest.
    fn next(&mut self, now: Instant) -> Option<usize> {
        loop {
            let batches = self.0.iter().enumerate();
            let due = batches.filter(|(_, batch)| batch.due() <= now);
            let (at, _) = due.min_by_key(|(_, batch)| S::urgency(&batch.group))?;
            let batch = self.0.get_mut(at)?;
            batch.drop_abandoned();
            if !batch.asks.is_empty() {
                return Some(at);
            }
            self.0.remove(at);
        }
    }

    /// Takes back a batch that could not leave. It stays due, and before the others.
    pub(super) fn put_back(&mut self, batch: Batch<S>) {
        self.0.push_front(batch);
    }
}

impl<S: Subject> Batch<S> {
    fn new(question: Question<S>, now: Instant) -> Self {
        Self {
            group: question.group,
            by_key: HashMap::from([(question.subject.key(), 0)]),
            asks: vec![Ask::new(question.subject, question.reply, question.leave)],
            full: false,
            opened: now,
            joined: now,
        }
    }

    fn join(
        &mut self,
        question: Question<S>,
        now: Instant,
        size: usize,
    ) -> Result<(), Box<Question<S>>> {
        if self.group != question.group {
            return Err(Box::new(question));
        }
        let key = question.subject.key();
        let known = self.by_key.get(&key);
        if let Some(ask) = known.and_then(|at| self.asks.get_mut(*at)) {
            return ask.share(question);
        }
        if self.full {
            return Err(Box::new(question));
        }
        self.by_key.insert(key, self.asks.len());
        self.asks
            .push(Ask::new(question.subject, question.reply, question.leave));
        self.joined = now;
        self.full = self.asks.len() >= size;
        Ok(())
    }

    fn due(&self) -> Instant {
        if self.full {
            return self.opened;
        }
        (self.joined + IDLE).min(self.opened + LONGEST)
    }

    fn drop_abandoned(&mut self) {
        let before = self.asks.len();
        self.asks.retain_mut(|ask| {
            ask.replies.retain(|reply| !reply.to.is_closed());
            !ask.replies.is_empty()
        });
        if self.asks.len() < before {
            self.index();
        }
    }

    fn index(&mut self) {
        let keys = self.asks.iter().map(|ask| ask.subject.key());
        self.by_key = keys.zip(0..).collect();
    }

    /// Cuts it to what the provider takes in one call. Returns that and what is left. A subject
    /// that would not even fit alone is answered here.
    pub(super) fn fit(mut self, session: &Session) -> (Self, Option<Self>) {
        let limit = session.max_send_bytes;
        let envelope = S::envelope(&self.group, session);
        let most = S::most(Some(session));
        let mut room = limit.saturating_sub(envelope);
        let mut count = 0;
        while let Some(ask) = self.asks.get(count).filter(|_| count < most) {
            let bytes = ask.subject.bytes(session);
            if envelope + bytes > limit {
                let error = Error::TooLarge {
                    rpc: S::RPC,
                    bytes: envelope + bytes,
                    limit,
                };
                self.remove(count).answer(&Err(error));
                continue;
            }
            if bytes > room {
                break;
            }
            room -= bytes;
            count += 1;
        }
        let rest = self.split_off(count);
        (self, rest)
    }

    /// Keeps the first `count` and returns the others.
    fn split_off(&mut self, count: usize) -> Option<Self> {
        if count >= self.asks.len() {
            return None;
        }
        let mut rest = Self {
            group: self.group.clone(),
            asks: self.asks.split_off(count),
            by_key: HashMap::new(),
            full: true,
            opened: self.opened,
            joined: self.joined,
        };
        rest.index();
        self.index();
        Some(rest)
    }

    /// Takes one out.
    fn remove(&mut self, at: usize) -> Ask<S> {
        let ask = self.asks.remove(at);
        self.index();
        ask
    }

    /// Leave for the call: one loop asks all questions of a batch.
    pub(in super::super) fn leave(&self) -> Leave {
        let first = self.asks.first();
        first.map(|ask| ask.leave.of_all()).unwrap_or_default()
    }

    /// The call is about to be made.
    pub(super) fn leaves(&self) {
        for reply in self.asks.iter().flat_map(|ask| &ask.replies) {
            reply.has_left.store(true, Ordering::Release);
        }
    }

    /// Sends the failure to all callers.
    pub(in super::super) fn fail(self, error: &Error) {
        for ask in self.asks {
            ask.answer(&Err(error.clone()));
        }
    }
}

impl<S: Subject> Ask<S> {
    fn new(subject: S, reply: Reply<S>, leave: Leave) -> Self {
        Self {
            subject,
            replies: vec![reply],
            leave,
        }
    }

    /// Two who mean the same get one answer, about what the later of them sees.
    fn share(&mut self, question: Question<S>) -> Result<(), Box<Question<S>>> {
        if !question.subject.is_as_good_as(&self.subject) {
            return Err(Box::new(question));
        }
        self.subject = question.subject;
        self.leave = question.leave;
        self.replies.push(question.reply);
        Ok(())
    }

    /// Sends the answer to all callers. A caller that is gone does not mind.
    pub(in super::super) fn answer(self, result: &Result<S::Answer, Error>) {
        for reply in self.replies {
            let _ = reply.to.send(result.clone());
        }
    }
}
