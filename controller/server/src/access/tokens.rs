//! The user of a bearer token: `TokenReview`, and its cached answers.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};

use ring::{hmac, rand::SystemRandom};

use super::{
    Caller,
    review::{Cache, ReviewClient, ReviewError},
};

pub(super) const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// A longer token is refused unseen: those of service accounts have about 1 kB.
const LONGEST: usize = 16 * 1024;

/// Stand for tokens in memory. The key is of this process alone: without it a hash does not show whether a guess is
/// the token.
struct TokenHashes(hmac::Key);

impl TokenHashes {
    fn new() -> Result<Self, ring::error::Unspecified> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())?;
        Ok(Self(key))
    }

    fn of(&self, token: &str) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(hmac::sign(&self.0, token.as_bytes()).as_ref());
        hash
    }
}

pub(super) struct Tokens {
    reviewer: ReviewClient,
    ttl: Duration,
    hashes: TokenHashes,
    /// By the token's hash, of refused ones, too.
    callers: Cache<[u8; 32], Option<Caller>>,
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
            hashes: TokenHashes::new()?,
            callers: Cache::new(),
        })
    }

    /// Returns `None` if the token of the client at `peer` is not valid.
    pub(super) async fn caller(
        &self,
        token: &str,
        peer: IpAddr,
    ) -> Result<Option<Caller>, ReviewError> {
        if token.len() > LONGEST {
            return Ok(None);
        }
        let key = self.hashes.of(token);
        if let Some(caller) = self.callers.get(&key) {
            return Ok(caller);
        }
        let caller = self.ask(token, peer).await?;
        self.callers.put(key, caller.clone(), self.ttl);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_remembered_by_a_hash_that_only_this_process_can_make() {
        let (ours, theirs) = (TokenHashes::new().unwrap(), TokenHashes::new().unwrap());
        assert_eq!(ours.of("a.b.c"), ours.of("a.b.c"));
        assert_ne!(ours.of("a.b.c"), ours.of("a.b.d"));
        assert_ne!(ours.of("a.b.c"), theirs.of("a.b.c"));
    }
}
