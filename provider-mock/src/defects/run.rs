//! Makes the steps of a mistake in a call.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_api::v1::ErrorReason;
use parking_lot::Mutex;
use prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};
use tokio::time::sleep;
use tonic::Code;

use super::act::{Effect, said};
use super::hook::Next;
use super::odd::Cancelled;
use super::reason;
use super::scope::Scope;
use super::step::{Held, Shared, Step, When, keep};
use crate::exchange::{Answer, Call};
use crate::message::{Fate, Side, blank, each, edit as change};

/// A call in which steps are made.
pub(super) struct Run {
    pub(super) call: Call,
    /// Its request, as it came.
    pub(super) request: Option<DynamicMessage>,
    /// All its messages, as they came.
    pub(super) came: Vec<Vec<u8>>,
    pub(super) code: Code,
    pub(super) reason: Option<ErrorReason>,
    pub(super) error: String,
    pub(super) answers: BTreeMap<String, (Code, Option<DynamicMessage>)>,
    held: Mutex<Vec<Held>>,
    pub(super) memory: Shared,
}

/// Serves a call with its steps.
pub(super) async fn serve(steps: Arc<[Step]>, memory: Shared, call: Call, next: Next) -> Answer {
    let path = call.head.uri.path().to_owned();
    let steps: Vec<_> = { steps.iter() }
        .filter(|step| step.on.iter().any(|on| on.is_about(&path)))
        .cloned()
        .collect();
    let mut run = Run {
        request: decoded(&path, Side::Request, call.first()),
        came: call.messages.clone(),
        call,
        code: Code::Ok,
        reason: None,
        error: String::new(),
        answers: BTreeMap::new(),
        held: Mutex::default(),
        memory,
    };
    for step in steps.iter().filter(|step| step.when == When::Request) {
        let mut messages = std::mem::take(&mut run.call.messages);
        let effects = run.visit(step, &path, Side::Request, &mut messages);
        run.call.messages = messages;
        for effect in effects {
            if let Some(answer) = run.perform(&path, effect, &next).await {
                return answer;
            }
        }
    }
    let mut answer = run.serve(&steps, &path, &next).await;
    for step in steps.iter().filter(|step| step.when == When::Answer) {
        run.code = answer.code();
        run.reason = reason(&answer);
        run.error = answer
            .error()
            .map_or_else(String::new, |one| one.message().to_owned());
        for effect in run.visit(step, &path, Side::Response, answer.raw()) {
            match effect {
                Effect::Whole(verb, words) if verb == "inflate" => {
                    answer.inflate(words.parse().unwrap_or_default());
                }
                Effect::Whole(verb, words) if verb == "say" || verb == "recode" => {
                    if let Some(status) = answer.error() {
                        answer = Answer::failed(said(&verb, &words, &status));
                    }
                }
                effect => {
                    if let Some(other) = run.perform(&path, effect, &next).await {
                        answer = other;
                    }
                }
            }
        }
    }
    answer
}

pub(super) fn decoded(path: &str, side: Side, bytes: &[u8]) -> Option<DynamicMessage> {
    let mut message = blank(path, side)?;
    message.merge(bytes).ok().map(|()| message)
}

impl Run {
    /// A message of its request.
    pub(super) fn decoded(&self, bytes: &[u8]) -> Option<DynamicMessage> {
        decoded(self.call.head.uri.path(), Side::Request, bytes)
    }

    /// Serves the call; a step may be made when it is cancelled.
    async fn serve(&self, steps: &[Step], path: &str, next: &Next) -> Answer {
        let cancelled = steps.iter().find_map(|step| match step.when {
            When::Cancelled(moment) => Some((step, moment)),
            _ => None,
        });
        let Some((step, moment)) = cancelled else {
            return next.clone().serve(self.call.clone()).await;
        };
        let guard = Cancelled::new(|| {
            let mut messages = self.call.messages.clone();
            self.visit(step, path, Side::Request, &mut messages);
        });
        sleep(moment).await;
        let answer = next.clone().serve(self.call.clone()).await;
        guard.done();
        answer
    }

    /// Makes a step in each message: changes it, and puts together what is left to do with the call.
    fn visit(&self, step: &Step, path: &str, side: Side, messages: &mut [Vec<u8>]) -> Vec<Effect> {
        let mut effects = Vec::new();
        // A call without messages has steps too, and so has one that is none of the contract.
        let other = || blank("/cloudprovider.v1.ProviderService/GetStatus", Side::Request);
        let Some(none) = blank(path, side).or_else(other) else {
            return effects;
        };
        if messages.is_empty() || blank(path, side).is_none() {
            let mut one = none;
            self.step(step, &mut one, &mut effects);
            if let (Some(Effect::Whole(verb, bytes)), Some(message)) =
                (effects.first(), messages.first_mut())
                && verb == "bytes"
            {
                let bytes = bytes.split(' ');
                *message = bytes.filter_map(|one| one.parse().ok()).collect();
            }
            return effects;
        }
        for bytes in messages {
            let mut message = none.clone();
            if message.merge(bytes.as_slice()).is_err() {
                // Garbage is left as it is.
                message = none.clone();
                self.step(step, &mut message, &mut effects);
                continue;
            }
            let before = message.clone();
            self.step(step, &mut message, &mut effects);
            if message != before {
                *bytes = message.encode_to_vec();
            }
        }
        effects
    }

    fn step(&self, step: &Step, message: &mut DynamicMessage, effects: &mut Vec<Effect>) {
        let whole = message.clone();
        match step.each {
            None => {
                self.apply(step, message, &whole, effects);
            }
            Some(path) if path.starts_with('@') => {
                let scope = Scope {
                    one: &whole,
                    whole: &whole,
                };
                for value in self.values(path, scope) {
                    if let Value::Message(mut one) = value {
                        self.apply(step, &mut one, &whole, effects);
                    }
                }
            }
            Some(path) => each(message, path, &mut |one| {
                self.apply(step, one, &whole, effects)
            }),
        }
    }

    fn apply(
        &self,
        step: &Step,
        one: &mut DynamicMessage,
        whole: &DynamicMessage,
        effects: &mut Vec<Effect>,
    ) -> Fate {
        let scope = Scope { one, whole };
        if !step.conditions.iter().all(|one| self.holds(one, scope)) {
            return Fate::Stay;
        }
        let mut fate = Fate::Stay;
        let mut actions = step.actions.iter();
        while let Some(action) = actions.next() {
            let scope = Scope { one, whole };
            let (verb, rest) = action.split_once(' ').unwrap_or((action, ""));
            match verb {
                "drop" => fate = Fate::Leave,
                "double" => fate = Fate::Twice,
                "empty" => *one = DynamicMessage::new(one.descriptor()),
                "remember" | "forget" | "hold" => {
                    let held_now = keep(&self.memory, verb, &self.filled(rest, scope, false));
                    self.held.lock().extend(held_now);
                }
                "ask" | "serve" => {
                    let words: Vec<_> = rest.split(' ').collect();
                    let (first, others) = match rest.split_once(" with ") {
                        Some((_, first)) => (Some(first), actions.by_ref()),
                        None => (None, actions.by_ref()),
                    };
                    let edits = first.into_iter().chain(others.copied());
                    let edits = edits.filter_map(|edit| self.edit(edit, scope));
                    effects.push(Effect::Ask {
                        method: words.first().copied().unwrap_or_default().to_owned(),
                        name: match words.as_slice() {
                            [_, "as", name, ..] => Some((*name).to_owned()),
                            _ if verb == "ask" => Some(String::new()),
                            _ => None,
                        },
                        edits: edits.collect(),
                    });
                }
                "clear" | "set" | "merge" | "put" | "truncate" | "reverse" | "each" | "error" => {
                    if let Some(edit) = self.edit(action, scope)
                        && let Err(error) = change(one, &edit)
                    {
                        eprintln!("provider-mock: {error}");
                    }
                }
                _ => {
                    let is_message = verb == "answer";
                    let words = self.filled(rest, scope, is_message);
                    effects.push(Effect::Whole(verb.to_owned(), words));
                }
            }
        }
        fate
    }
}
