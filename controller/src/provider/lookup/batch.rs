//! Which questions leave together, and when.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use outrigger_core::{instance::Lookup, node::NodeView};
use tokio::time::Instant;

use super::{Error, Purpose, Question, Reply};

/// A batch leaves when nothing has joined it for this long: the time in which one event makes many
/// workers ask, and far below a cloud call.
const IDLE: Duration = Duration::from_millis(25);
/// A batch leaves this long after its first question, whatever joins.
const LONGEST: Duration = Duration::from_millis(250);

/// Questions that have not left, oldest first.
#[derive(Debug, Default)]
pub(super) struct Batches(VecDeque<Batch>);

/// Questions that leave together.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) purpose: Purpose,
    pub(super) asks: Vec<Ask>,
    by_name: HashMap<Arc<str>, usize>,
    full: bool,
    opened: Instant,
    joined: Instant,
}

/// One node, and everybody who asked about it.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) node: Arc<NodeView>,
    replies: Vec<Reply>,
}

impl Batches {
    /// Takes in a question. A batch is full with `size` nodes.
    pub(super) fn join(&mut self, question: Question, now: Instant, size: usize) {
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

    /// When the next batch is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.iter().map(Batch::due).min()
    }

    /// Takes a batch that is due out, without those whom nobody waits for: the most urgent, and of
    /// these the oldest.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Batch> {
        loop {
            let batches = self.0.iter().enumerate();
            let due = batches.filter(|(_, batch)| batch.due() <= now);
            let (at, _) = due.min_by_key(|(_, batch)| batch.purpose)?;
            let mut batch = self.0.remove(at)?;
            batch.drop_abandoned();
            if !batch.asks.is_empty() {
                return Some(batch);
            }
        }
    }

    /// Takes back a batch that could not leave. It stays due, and before the others.
    pub(super) fn put_back(&mut self, batch: Batch) {
        self.0.push_front(batch);
    }
}

impl Batch {
    fn new(question: Question, now: Instant) -> Self {
        let by_name = HashMap::from([(Arc::clone(&question.node.name), 0)]);
        Self {
            purpose: question.purpose,
            asks: vec![Ask::new(question)],
            by_name,
            full: false,
            opened: now,
            joined: now,
        }
    }

    fn join(&mut self, question: Question, now: Instant, size: usize) -> Result<(), Box<Question>> {
        if self.purpose != question.purpose {
            return Err(Box::new(question));
        }
        if let Some(ask) = self
            .by_name
            .get(&question.node.name)
            .and_then(|at| self.asks.get_mut(*at))
        {
            return ask.share(question);
        }
        if self.full {
            return Err(Box::new(question));
        }
        self.by_name
            .insert(Arc::clone(&question.node.name), self.asks.len());
        self.asks.push(Ask::new(question));
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
        self.asks.retain_mut(|ask| {
            ask.replies.retain(|reply| !reply.is_closed());
            !ask.replies.is_empty()
        });
        self.index();
    }

    fn index(&mut self) {
        let names = self.asks.iter().map(|ask| Arc::clone(&ask.node.name));
        self.by_name = names.zip(0..).collect();
    }

    /// Keeps the first `count` nodes and returns the others.
    pub(super) fn split_off(&mut self, count: usize) -> Option<Self> {
        if count >= self.asks.len() {
            return None;
        }
        let mut rest = Self {
            purpose: self.purpose,
            asks: self.asks.split_off(count),
            by_name: HashMap::new(),
            full: true,
            opened: self.opened,
            joined: self.joined,
        };
        rest.index();
        self.index();
        Some(rest)
    }

    /// Takes one node out.
    pub(super) fn remove(&mut self, at: usize) -> Ask {
        let ask = self.asks.remove(at);
        self.index();
        ask
    }

    /// Tells everybody that the call failed.
    pub(super) fn fail(self, error: &Error) {
        for ask in self.asks {
            ask.answer(&Err(error.clone()));
        }
    }
}

impl Ask {
    fn new(question: Question) -> Self {
        Self {
            node: question.node,
            replies: vec![question.reply],
        }
    }

    /// Two who mean the same machine get one answer. A node that was made again under its name, or
    /// got a provider id meanwhile, is another question.
    fn share(&mut self, question: Question) -> Result<(), Box<Question>> {
        let (known, asked) = (&self.node, &question.node);
        if known.uid != asked.uid || known.provider_id != asked.provider_id {
            return Err(Box::new(question));
        }
        self.node = question.node;
        self.replies.push(question.reply);
        Ok(())
    }

    /// Tells everybody who asked. Who has gone does not mind.
    pub(super) fn answer(self, result: &Result<Lookup, Error>) {
        for reply in self.replies {
            let _ = reply.send(result.clone());
        }
    }
}
