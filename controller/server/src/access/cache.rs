//! Answers that are believed for a while.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Answers that are kept at once: more than honest callers need.
const ROOM: usize = 1024;

pub(super) struct Cache<K, V> {
    kept: Mutex<HashMap<K, (V, Instant)>>,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    pub(super) fn new() -> Self {
        Self {
            kept: Mutex::new(HashMap::new()),
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        let kept = self.kept.lock();
        let (value, until) = kept.get(key)?;
        (Instant::now() < *until).then(|| value.clone())
    }

    pub(super) fn put(&self, key: K, value: V, ttl: Duration) {
        if ttl.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut kept = self.kept.lock();
        if kept.len() >= ROOM {
            kept.retain(|_, (_, until)| now < *until);
        }
        // A client is making keys up: forgetting all costs one review each of the others.
        if kept.len() >= ROOM {
            kept.clear();
        }
        kept.insert(key, (value, now + ttl));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn forgets_in_time_and_holds_a_bounded_number() {
        let cache = Cache::new();
        let ttl = Duration::from_secs(10);
        cache.put(0, 'a', ttl);
        assert_eq!(cache.get(&0), Some('a'));
        tokio::time::advance(ttl).await;
        assert_eq!(cache.get(&0), None);
        for key in 0..ROOM * 3 {
            cache.put(key, 'b', ttl);
            assert!(cache.kept.lock().len() <= ROOM);
        }
        cache.put(0, 'c', Duration::ZERO);
        assert_eq!(cache.get(&0), None);
    }
}
