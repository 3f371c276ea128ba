//! The memory of a mistake, from call to call.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

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
