//! Reviews, asked of the API server, and answers that are believed for a while.

use std::{collections::HashMap, hash::Hash, net::IpAddr, sync::Arc, time::Duration};

use outrigger_core::error_class::ErrorClass;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep};

use super::counts::Reviews;
use crate::fairness::{FairLimits, FairQueue, Overloaded};
use outrigger_kubernetes::{api::Api, error::ApiError};

/// How long the caller of the server waits for a review, tries and pauses together. Upstream
/// allows as long for each try, which a scraper does not wait for (AUTH-6).
const TIME: Duration = Duration::from_secs(10);

const TRIES: u32 = 5;

/// Before the second try; then each half as long again, and up to a fifth longer.
const PAUSE: Duration = Duration::from_millis(500);

/// Any client can cause reviews. Upstream's rate is 200 a second, too (AUTH-6).
pub(super) const LIMITS: FairLimits = FairLimits {
    per_peer: 8,
    total: 64,
    period: Duration::from_millis(5),
};

/// Grants the right to ask for reviews.
const GRANT: &str = "kubectl create clusterrolebinding CLUSTERROLEBINDING_NAME \
                     --clusterrole=system:auth-delegator";

/// There is no answer to a review.
#[derive(Debug)]
pub(super) enum ReviewError {
    /// The API server gave none that can be used.
    Failed(String),
    /// Too many others are in flight.
    Overloaded,
}

/// Asks for reviews of one kind.
pub(super) struct ReviewClient {
    pub(super) api: Api,
    pub(super) path: &'static str,
    pub(super) metrics: Reviews,
    /// Shared by all kinds.
    pub(super) queue: Arc<FairQueue>,
}

impl ReviewClient {
    /// Creates `review` for the client at `peer`; the answer is what the API server made of it. A review writes
    /// nothing, so that it may be asked again whenever an answer is lacking.
    pub(super) async fn ask<T: Serialize + DeserializeOwned>(
        &self,
        peer: IpAddr,
        review: &T,
    ) -> Result<T, ReviewError> {
        let answer = self.queue.run(peer, self.try_for_a_while(review)).await;
        answer
            .map_err(|Overloaded| ReviewError::Overloaded)?
            .map_err(ReviewError::Failed)
    }

    async fn try_for_a_while<T: Serialize + DeserializeOwned>(
        &self,
        review: &T,
    ) -> Result<T, String> {
        let tries = async {
            let mut pause = PAUSE;
            let mut left = TRIES;
            loop {
                left -= 1;
                let began = Instant::now();
                let answer = self.api.create(self.path, review).await;
                let code = match &answer {
                    Ok(_) => Some(201),
                    Err(error) => error.code(),
                };
                self.metrics.answered(code, began.elapsed());
                match answer {
                    Ok(answer) => return Ok(answer),
                    Err(error) if left == 0 || !passes(&error) => {
                        return Err(with_hint(&error, GRANT));
                    }
                    Err(_) => {}
                }
                sleep(pause.mul_f64(1.0 + 0.2 * fastrand::f64())).await;
                pause = pause.mul_f64(1.5);
            }
        };
        match tokio::time::timeout(TIME, tries).await {
            Ok(result) => result,
            Err(_) => Err(format!(
                "the API server did not answer within {} s",
                TIME.as_secs()
            )),
        }
    }
}

/// The error, and the command that usually grants a missing right: each cluster has the roles.
pub(super) fn with_hint(error: &ApiError, command: &str) -> String {
    match error.subject() {
        Some(subject) => format!("{error}; usually fixed by: {command} {subject}"),
        None => error.to_string(),
    }
}

/// True if another try may help.
pub(super) fn passes(error: &ApiError) -> bool {
    matches!(
        error.class(),
        ErrorClass::Transient | ErrorClass::RateLimited { .. }
    ) && !error.is_not_found()
}

/// Answers that are kept at once: more than honest callers need.
const ROOM: usize = 1024;

/// Answers that are believed for a while.
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
