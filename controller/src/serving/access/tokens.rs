//! The user of a bearer token: `TokenReview`, and its cached answers.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};

use super::{cache::Cache, caller::Caller, counts::Reviews, review};
use crate::kube::api::Api;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// A longer token is refused unseen: those of service accounts have about 1 kB.
const LONGEST: usize = 16 * 1024;

pub(super) struct Tokens {
    api: Api,
    ttl: Duration,
    metrics: Reviews,
    /// Also of refused tokens.
    known: Cache<String, Option<Caller>>,
}

impl Tokens {
    pub(super) fn new(api: Api, ttl: Duration, metrics: Reviews) -> Self {
        Self {
            api,
            ttl,
            metrics,
            known: Cache::new(),
        }
    }

    pub(super) async fn caller(&self, token: &str) -> Result<Caller, String> {
        if token.len() > LONGEST {
            return Err("invalid bearer token".into());
        }
        let key = token.to_owned();
        let known = if let Some(known) = self.known.get(&key) {
            known
        } else {
            let caller = self.ask(token).await?;
            self.known.put(key, caller.clone(), self.ttl);
            caller
        };
        known.ok_or_else(|| "invalid bearer token".to_owned())
    }

    async fn ask(&self, token: &str) -> Result<Option<Caller>, String> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let status = review::ask(&self.api, PATH, &review, &self.metrics)
            .await?
            .status;
        let status = status.unwrap_or_default();
        // `error` beside a no explains it; it is no failure of the review.
        if !status.authenticated.unwrap_or_default() {
            return Ok(None);
        }
        let user = status.user.unwrap_or_default();
        Ok(Some(Caller {
            name: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }))
    }
}
