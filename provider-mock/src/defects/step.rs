//! The steps of a mistake, as its row has them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::hook::On;
use crate::duration;
use crate::faults::Method;

/// The moment of a call at which a step is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Before the correct provider serves it.
    Request,
    /// Once it is served.
    Answer,
    /// When the caller goes away; so long passes before the call is served.
    Cancelled(Duration),
}

/// A step: `METHOD,METHOD WHEN [each PATH] [if CONDITION and CONDITION]: ACTION; ACTION`.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) on: Vec<On>,
    pub(super) when: When,
    /// The messages inside that the step is about; none: the message itself.
    pub(super) each: Option<&'static str>,
    pub(super) conditions: Vec<&'static str>,
    pub(super) actions: Vec<&'static str>,
}

impl Step {
    /// Reads the line of a step.
    pub(super) fn read(line: &'static str) -> Option<Self> {
        let (place, actions) = line.trim().split_once(": ")?;
        let (place, conditions) = place.split_once(" if ").unwrap_or((place, ""));
        let (place, each) = match place.split_once(" each ") {
            Some((place, path)) => (place, Some(path)),
            None => (place, None),
        };
        let (methods, when) = place.split_once(' ')?;
        let when = match when.split_once(' ') {
            None if when == "request" => When::Request,
            None if when == "answer" => When::Answer,
            Some(("cancelled", moment)) => When::Cancelled(duration::parse(moment).ok()?),
            _ => return None,
        };
        let conditions = conditions.split(" and ").filter(|one| !one.is_empty());
        Some(Self {
            on: methods.split(',').map(on).collect::<Option<_>>()?,
            when,
            each,
            conditions: conditions.collect(),
            actions: actions.split("; ").collect(),
        })
    }
}

fn on(name: &str) -> Option<On> {
    Some(match name {
        "*" => On::Every,
        "Health" => On::Health,
        "UnknownMethod" => On::UnknownMethod,
        "UnknownService" => On::UnknownService,
        _ => On::Method(name.parse::<Method>().ok()?),
    })
}

/// The names that a mistake remembers from call to call, in sets, each with a value.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) sets: BTreeMap<String, BTreeMap<String, String>>,
    pub(super) count: u64,
}

pub(super) type Shared = Arc<Mutex<Memory>>;

/// A name that is remembered as long as a call runs.
pub(super) struct Held(Shared, String, String);

impl Drop for Held {
    fn drop(&mut self) {
        forget(&self.0, &self.1, &self.2);
    }
}

fn forget(memory: &Shared, set: &str, key: &str) {
    if let Some(set) = memory.lock().sets.get_mut(set) {
        set.remove(key);
    }
}

/// Remembers or forgets `SET KEY` or `SET KEY = VALUE`.
pub(super) fn keep(memory: &Shared, verb: &str, words: &str) -> Option<Held> {
    let (set, key) = words.split_once(' ')?;
    let (key, value) = key.split_once(" = ").unwrap_or((key, key));
    let key = key.trim();
    if verb == "forget" {
        forget(memory, set, key);
        return None;
    }
    let mut own = memory.lock();
    let keys = own.sets.entry(set.to_owned()).or_default();
    keys.insert(key.to_owned(), value.to_owned());
    let held = || Held(Arc::clone(memory), set.to_owned(), key.to_owned());
    (verb == "hold").then(held)
}
