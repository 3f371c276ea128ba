//! Objects, one version over all of them, and the changes of the last minutes.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::resource::Target;

/// How long changes are kept, as etcd is compacted by kube-apiserver.
const KEPT: Duration = Duration::from_mins(5);

/// Kind (its plural) and `namespace/name`, or the name.
pub type Key = (&'static str, String);

/// A change of one object.
#[derive(Debug)]
pub struct Change {
    /// The resourceVersion that it made.
    pub version: u64,
    /// The object.
    pub key: Key,
    /// The object before; none if it was made.
    pub before: Option<Arc<Value>>,
    /// The object now; none if it was deleted.
    pub after: Option<Arc<Value>>,
    at: Instant,
}

impl Change {
    /// Type and object of its event. A deleted object has the version of its deletion.
    pub(super) fn event(&self) -> (&'static str, Value) {
        match (&self.before, &self.after) {
            (_, None) => {
                let mut object = self.before.as_deref().cloned().unwrap_or_default();
                object["metadata"]["resourceVersion"] = json!(self.version.to_string());
                ("DELETED", object)
            }
            (None, Some(object)) => ("ADDED", Value::clone(object)),
            (Some(_), Some(object)) => ("MODIFIED", Value::clone(object)),
        }
    }
}

/// The part that etcd has in a cluster.
#[derive(Debug, Default)]
pub(super) struct Store {
    version: u64,
    /// The last change that is forgotten.
    compacted: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Arc<Change>>,
}

impl Store {
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    pub(super) const fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn get(&self, target: &Target) -> Option<&Arc<Value>> {
        self.objects.get(&key(target))
    }

    /// The objects of a kind, in the order of lists.
    pub(super) fn all(&self, plural: &'static str) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let of_kind = self.objects.range((plural, String::new())..);
        of_kind.take_while(move |((kind, _), _)| *kind == plural)
    }

    /// All objects of a kind as they were at `version`, or none if that is forgotten.
    pub(super) fn at(
        &self,
        plural: &'static str,
        version: u64,
    ) -> Option<BTreeMap<Key, Arc<Value>>> {
        if version < self.compacted {
            return None;
        }
        let now = self
            .all(plural)
            .map(|(key, object)| (key.clone(), Arc::clone(object)));
        let mut objects: BTreeMap<_, _> = now.collect();
        let later = self
            .history
            .iter()
            .rev()
            .take_while(|change| change.version > version);
        for change in later.filter(|change| change.key.0 == plural) {
            match &change.before {
                Some(object) => objects.insert(change.key.clone(), Arc::clone(object)),
                None => objects.remove(&change.key),
            };
        }
        Some(objects)
    }

    /// Makes, replaces or deletes an object; sets its version.
    pub(super) fn put(&mut self, target: &Target, object: Option<Value>) -> Arc<Change> {
        self.version += 1;
        let (version, key, at) = (self.version, key(target), Instant::now());
        let after = object.map(|mut object| {
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            Arc::new(object)
        });
        let before = match &after {
            Some(object) => self.objects.insert(key.clone(), Arc::clone(object)),
            None => self.objects.remove(&key),
        };
        let change = Arc::new(Change {
            version,
            key,
            before,
            after,
            at,
        });
        self.history.push_back(Arc::clone(&change));
        let is_old = |change: &Arc<Change>| at.duration_since(change.at) > KEPT;
        while let Some(old) = self.history.pop_front_if(|change| is_old(change)) {
            self.compacted = old.version;
        }
        change
    }

    /// Forgets all changes.
    pub(super) fn compact(&mut self) {
        self.history.clear();
        self.compacted = self.version;
    }

    /// The changes after `version`.
    pub(super) fn changes_after(&self, version: u64) -> impl Iterator<Item = &Arc<Change>> {
        let first = self
            .history
            .partition_point(|change| change.version <= version);
        self.history.range(first..)
    }
}

fn key(target: &Target) -> Key {
    (target.resource.plural, target.key())
}
