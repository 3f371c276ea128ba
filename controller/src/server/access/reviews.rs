//! Reviews, asked of the API server (AUTH-6), and answers that are believed for a while.

use std::{collections::HashMap, hash::Hash, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use outrigger_kube::{api::Api, error::ApiError};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, timeout};

use super::{Caller, Denial};

const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const RIGHTS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// How long the caller of the server waits for a review.
const TIME: Duration = Duration::from_secs(10);

/// Caller, verb and path.
type Question = (Caller, String, String);

/// Asks for reviews. Without a client for them no token is good, and no right is there. Any client can cause reviews, so
/// that the client has a budget, beyond which they wait.
pub(super) struct Reviews {
    reviewer: Option<Api>,
    judge: Option<Api>,
    /// By the token's hash; none for a token that is not good.
    callers: Cache<Vec<u8>, Option<Caller>>,
    /// The reason of a no.
    reasons: Cache<Question, Option<String>>,
}

impl Reviews {
    pub(super) fn new(reviewer: Option<Api>, judge: Option<Api>) -> Self {
        Self {
            reviewer,
            judge,
            callers: Cache::default(),
            reasons: Cache::default(),
        }
    }

    /// The user of a bearer token; none without an API server to ask (AUTH-3).
    pub(super) async fn caller(&self, token: &str) -> Result<Option<Caller>, Denial> {
        let Some(api) = &self.reviewer else {
            return Ok(None);
        };
        let key = digest(&SHA256, token.as_bytes()).as_ref().to_owned();
        let caller = if let Some(caller) = self.callers.get(&key) {
            caller
        } else {
            let caller = self.review_token(api, token).await?;
            self.callers.put(key, caller.clone());
            caller
        };
        let invalid = || Denial::Unauthorized("invalid bearer token".to_owned());
        caller.map(Some).ok_or_else(invalid)
    }

    async fn review_token(&self, api: &Api, token: &str) -> Result<Option<Caller>, Denial> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let status = self.ask(api, TOKENS, &review).await?.status;
        // `error` beside a no explains it; it is no failure of the review.
        let status = status.filter(|status| status.authenticated == Some(true));
        Ok(status.map(|status| {
            let user = status.user.unwrap_or_default();
            Caller {
                name: user.username.unwrap_or_default(),
                uid: user.uid.unwrap_or_default(),
                groups: user.groups.unwrap_or_default(),
                extra: user.extra.unwrap_or_default(),
            }
        }))
    }

    /// Ok if `caller` may do that.
    pub(super) async fn allow(
        &self,
        caller: Caller,
        verb: String,
        path: &str,
    ) -> Result<(), Denial> {
        let refusal = format!(
            "forbidden: User {:?} cannot {verb} path {path:?}",
            caller.name
        );
        let Some(api) = &self.judge else {
            return Err(Denial::Forbidden(refusal));
        };
        let question = (caller, verb, path.to_owned());
        let reason = match self.reasons.get(&question) {
            Some(reason) => reason,
            None => self.review_right(api, question).await?,
        };
        match reason.as_deref() {
            None => Ok(()),
            Some("") => Err(Denial::Forbidden(refusal)),
            Some(reason) => Err(Denial::Forbidden(format!("{refusal}: {reason}"))),
        }
    }

    async fn review_right(&self, api: &Api, question: Question) -> Result<Option<String>, Denial> {
        let (caller, verb, path) = question.clone();
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(caller.name),
                uid: Some(caller.uid).filter(|uid| !uid.is_empty()),
                groups: Some(caller.groups),
                extra: Some(caller.extra),
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(path),
                    verb: Some(verb),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let status = self.ask(api, RIGHTS, &review).await?.status;
        let status = status.unwrap_or_default();
        // A denial wins over what another authoriser allows.
        let is_allowed = status.allowed && !status.denied.unwrap_or_default();
        let reason = (!is_allowed).then(|| status.reason.unwrap_or_default());
        self.reasons.put(question, reason.clone());
        Ok(reason)
    }

    /// Creates `review`; the answer is what the API server made of it.
    async fn ask<T: Serialize + DeserializeOwned>(
        &self,
        api: &Api,
        path: &str,
        review: &T,
    ) -> Result<T, Denial> {
        let answer = timeout(TIME, api.create(path, review)).await;
        let late = |_| {
            let seconds = TIME.as_secs();
            Denial::Failed(format!("the API server did not answer within {seconds} s"))
        };
        let hint = "kubectl create clusterrolebinding CLUSTERROLEBINDING_NAME \
                    --clusterrole=system:auth-delegator";
        let answer = answer.map_err(late)?;
        answer.map_err(|error| Denial::Failed(with_hint(&error, hint)))
    }
}

/// The error, and the command that usually grants a missing right: each cluster has the roles.
pub(super) fn with_hint(error: &ApiError, command: &str) -> String {
    match error.subject() {
        Some(subject) => format!("{error}; usually fixed by: {command} {subject}"),
        None => error.to_string(),
    }
}

/// Answers that are kept at once: more than honest callers need.
const ROOM: usize = 512;

/// How long an answer is believed: upstream's default.
const TTL: Duration = Duration::from_secs(10);

/// Answers that are believed for a while.
struct Cache<K, V>(Mutex<HashMap<K, (V, Instant)>>);

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        let kept = self.0.lock();
        let (value, until) = kept.get(key)?;
        (Instant::now() < *until).then(|| value.clone())
    }

    fn put(&self, key: K, value: V) {
        let mut kept = self.0.lock();
        // A client is making keys up: forgetting all costs one review each of the others.
        if kept.len() >= ROOM {
            kept.clear();
        }
        kept.insert(key, (value, Instant::now() + TTL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn forgets_in_time_and_holds_a_bounded_number() {
        let cache = Cache::default();
        cache.put(0, 'a');
        assert_eq!(cache.get(&0), Some('a'));
        tokio::time::advance(TTL).await;
        assert_eq!(cache.get(&0), None);
        for key in 0..ROOM * 3 {
            cache.put(key, 'b');
            assert!(cache.0.lock().len() <= ROOM);
        }
    }
}
