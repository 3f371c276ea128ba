//! A service account for each controller (`--use-service-account-credentials`), so that the audit
//! log names the controller of each request, and each has the rights it needs alone (PROC-40 to PROC-43).
//!
//! RBAC, in `kube-system`: `create` on `serviceaccounts/token`, and on `serviceaccounts` unless an
//! administrator makes them.

use std::{fmt, sync::Arc, time::Duration};

use http::HeaderValue;
use outrigger_core::error_class::ErrorClass;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::json;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{api::Api, error::ApiError};

/// Where the accounts live.
const NAMESPACE: &str = "kube-system";

/// How long a token is asked to last, in seconds.
const LIFE: u32 = 3600;

/// Tries to get the first token.
const TRIES: u32 = 4;

/// Pause after the first failure; doubles up to [`MAX_PAUSE`].
const MIN_PAUSE: Duration = Duration::from_millis(500);

/// Longest pause between two tries to get another token.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A token that is refused is not replaced sooner than this: it may be the API server that is ill.
const MIN_LIFE: Duration = Duration::from_secs(10);

/// The first token could not be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "no token for the service account {NAMESPACE}/{account}: {source}; grant what docs/rbac.md \
     lists for --use-service-account-credentials, or run without that flag"
)]
pub struct NoToken {
    account: &'static str,
    #[source]
    source: ApiError,
}

/// The identity of a client at the API server, instead of that of the process. Clones share the
/// token.
#[derive(Clone)]
pub struct Credentials(Arc<Shared>);

struct Shared {
    header: RwLock<HeaderValue>,
    refused: Notify,
}

/// Replaces the token of [`Credentials`] before it ends.
pub struct TokenRenewal {
    api: Api,
    account: &'static str,
    credentials: Credentials,
    life: Duration,
}

#[derive(Deserialize)]
struct TokenRequest {
    spec: Spec,
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    /// The API server's answer to the requested lifetime.
    expiration_seconds: u32,
}

#[derive(Deserialize)]
struct Status {
    token: String,
}

impl Credentials {
    /// Makes the service account if there is none, and asks for a token with the process's own
    /// rights. Tries [`TRIES`] times. The caller must [`run`](TokenRenewal::run) the renewal.
    pub async fn of(api: Api, account: &'static str) -> Result<(Self, TokenRenewal), NoToken> {
        let mut pause = MIN_PAUSE;
        let mut tried = 1;
        let (header, life) = loop {
            match obtain(&api, account).await {
                Ok(token) => break token,
                Err(error) if tried < TRIES && error.class() != ErrorClass::Invalid => {
                    debug!(account, %error, "service account has no token yet");
                    tried += 1;
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(source) => return Err(NoToken { account, source }),
            }
        };
        info!(account, "acting as a service account of {NAMESPACE}");
        let credentials = Self(Arc::new(Shared {
            header: RwLock::new(header),
            refused: Notify::new(),
        }));
        let renewal = TokenRenewal {
            api,
            account,
            credentials: credentials.clone(),
            life,
        };
        Ok((credentials, renewal))
    }

    /// Value of `Authorization`.
    pub(super) fn header(&self) -> HeaderValue {
        self.0.header.read().clone()
    }

    /// The API server does not take the token any more (401): its account was deleted, or its keys
    /// were changed.
    pub(super) fn refused(&self) {
        self.0.refused.notify_one();
    }
}

impl TokenRenewal {
    /// Asks for another token when a fifth of the life of the last one is left, or when it is
    /// refused, until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            loop {
                let since = Instant::now();
                tokio::select! {
                    () = tokio::time::sleep(self.life.mul_f64(0.8)) => {}
                    () = self.credentials.0.refused.notified() => {
                        tokio::time::sleep_until(since + MIN_LIFE).await;
                    }
                }
                self.renew().await;
            }
        })
        .await;
    }

    async fn renew(&mut self) {
        let mut pause = MIN_PAUSE;
        loop {
            match obtain(&self.api, self.account).await {
                Ok((header, life)) => {
                    *self.credentials.0.header.write() = header;
                    self.life = life;
                    debug!(account = self.account, "service account has a new token");
                    return;
                }
                Err(error) => warn!(
                    account = self.account,
                    %error,
                    "token of the service account cannot be renewed; trying again"
                ),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

/// A token, of an account that is made if need be, and how long it lasts.
async fn obtain(api: &Api, account: &str) -> Result<(HeaderValue, Duration), ApiError> {
    match token(api, account).await {
        Err(error) if error.is_not_found() => {
            create(api, account).await?;
            token(api, account).await
        }
        other => other,
    }
}

async fn token(api: &Api, account: &str) -> Result<(HeaderValue, Duration), ApiError> {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": LIFE},
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
    let answer: TokenRequest = api.create(&path, &request).await?;
    let mut header = HeaderValue::try_from(format!("Bearer {}", answer.status.token))
        .map_err(|_| ApiError::Decode("the token is no header value".to_owned()))?;
    header.set_sensitive(true);
    let life = Duration::from_secs(answer.spec.expiration_seconds.into());
    Ok((header, life.max(MIN_LIFE)))
}

async fn create(api: &Api, account: &str) -> Result<(), ApiError> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": account, "namespace": NAMESPACE},
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    match api.create_unread(&path, &object).await {
        // Another replica was quicker.
        Err(error) if error.code() == Some(409) => Ok(()),
        created => created,
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the token.
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenRenewal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenRenewal")
            .field("account", &self.account)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
