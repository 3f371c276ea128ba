//! The user of a bearer token: `TokenReview`, and its cached answers.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};

use ring::{hmac, rand::SystemRandom};

use super::{
    cache::Cache,
    caller::Caller,
    review::{ReviewClient, ReviewError},
};

pub(super) const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// A longer token is refused unseen: those of service accounts have about 1 kB.
const LONGEST: usize = 16 * 1024;

pub(super) struct Tokens {
    reviewer: ReviewClient,
    ttl: Duration,
    /// Of this process, so that no token is kept.
    key: hmac::Key,
    /// By the token's hash, of refused ones, too.
    known: Cache<[u8; 32], Option<Caller>>,
}

impl Tokens {
    /// # Errors
    /// The kernel gives no random numbers.
    pub(super) fn new(
        reviewer: ReviewClient,
        ttl: Duration,
    ) -> Result<Self, ring::error::Unspecified> {
        Ok(Self {
            reviewer,
            ttl,
            key: hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?,
            known: Cache::new(),
        })
    }

    /// None if the token of the client at `peer` is not good.
    pub(super) async fn caller(
        &self,
        token: &str,
        peer: IpAddr,
    ) -> Result<Option<Caller>, ReviewError> {
        if token.len() > LONGEST {
            return Ok(None);
        }
        let hash = hmac::sign(&self.key, token.as_bytes());
        let mut key = [0; 32];
        key.copy_from_slice(hash.as_ref());
        if let Some(known) = self.known.get(&key) {
            return Ok(known);
        }
        let caller = self.ask(token, peer).await?;
        self.known.put(key, caller.clone(), self.ttl);
        Ok(caller)
    }

    async fn ask(&self, token: &str, peer: IpAddr) -> Result<Option<Caller>, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let status = self.reviewer.ask(peer, &review).await?.status;
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
