//! Annotations that the leader keeps on its Lease: written together with a renewal, which comes
//! early for them, and only while the lease is held.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::watch;

#[derive(Debug)]
pub(super) struct Annotations {
    inner: Mutex<Inner>,
    /// Wakes whoever waits for a wish to be over.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    seen: BTreeMap<String, String>,
    wanted: BTreeMap<String, Wish>,
}

#[derive(Debug)]
struct Wish {
    value: Option<String>,
    /// Whether another wish came before, which may be on its way to the Lease: only the answer to a later
    /// write of ours says that it will not arrive.
    is_second: bool,
}

impl Default for Annotations {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }
}

impl Annotations {
    /// The value on the Lease, or the one that is about to be written.
    pub(super) fn get(&self, key: &str) -> Option<String> {
        let inner = self.inner.lock();
        match inner.wanted.get(key) {
            Some(wish) => wish.value.clone(),
            None => inner.seen.get(key).cloned(),
        }
    }

    /// Whether that has to be written.
    pub(super) fn want(&self, key: &str, value: Option<String>) -> bool {
        let mut inner = self.inner.lock();
        let is_second = match inner.wanted.get(key) {
            Some(wish) => wish.is_second || wish.value != value,
            None if inner.seen.get(key) == value.as_ref() => return false,
            None => false,
        };
        let wish = Wish { value, is_second };
        inner.wanted.insert(key.to_owned(), wish);
        true
    }

    /// Whether something is still to be written.
    pub(super) fn is_owing(&self) -> bool {
        !self.inner.lock().wanted.is_empty()
    }

    /// Waits until no wish about `key` is left; tells what is on the Lease then.
    pub(super) async fn settled(&self, key: &str) -> Option<String> {
        let mut changed = self.changed.subscribe();
        loop {
            {
                let inner = self.inner.lock();
                if !inner.wanted.contains_key(key) {
                    return inner.seen.get(key).cloned();
                }
            }
            // The sender lives as long as self: waiting cannot fail.
            let _ = changed.changed().await;
        }
    }

    /// Takes in what is on the Lease, as a write of ours `wrote` it or as it was read or watched.
    pub(super) fn saw(&self, annotations: &BTreeMap<String, String>, wrote: bool) {
        let mut inner = self.inner.lock();
        let Inner { seen, wanted } = &mut *inner;
        wanted.retain(|key, wish| {
            annotations.get(key) != wish.value.as_ref() || (wish.is_second && !wrote)
        });
        seen.clone_from(annotations);
        drop(inner);
        self.changed.send_replace(());
    }

    /// Changes `annotations` to what is wanted.
    pub(super) fn apply(&self, annotations: &mut BTreeMap<String, String>) {
        for (key, wish) in &self.inner.lock().wanted {
            match &wish.value {
                Some(value) => annotations.insert(key.clone(), value.clone()),
                None => annotations.remove(key),
            };
        }
    }

    /// A wish ends with the lease term.
    pub(super) fn forget(&self) {
        self.inner.lock().wanted.clear();
        self.changed.send_replace(());
    }
}
