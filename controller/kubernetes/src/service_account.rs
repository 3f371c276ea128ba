//! A service account for each controller (`--use-service-account-credentials`), so that the audit
//! log names the controller of each request, and each has the rights it needs alone (PROC-40 to PROC-43).
//!
//! RBAC, in `kube-system`: `create` on `serviceaccounts/token`, and on `serviceaccounts` unless an
//! administrator makes them.

use std::time::Duration;

use outrigger_core::error_class::ErrorClass;
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;
use tracing::{debug, info};

use super::{api::Api, authenticator::material::Material, error::ApiError};

/// Where the accounts live.
const NAMESPACE: &str = "kube-system";

/// How long a token is asked to last, in seconds.
const LIFE: u32 = 3600;

/// Tries to get the first token.
const TRIES: u32 = 4;

/// Pause after the first failure; doubles with each further one.
const PAUSE: Duration = Duration::from_millis(500);

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

/// A service account, whose tokens are asked for with the process's own rights.
pub(super) struct Account {
    api: Api,
    name: &'static str,
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

impl Account {
    /// The service account `name`, which is made if there is none, and its first token. Tries
    /// [`TRIES`] times to get its first token.
    ///
    /// # Errors
    /// The last failure to get the token.
    pub(super) async fn open(api: Api, name: &'static str) -> Result<(Self, Material), NoToken> {
        let account = Self { api, name };
        let mut pause = PAUSE;
        let mut tries = 1;
        let material = loop {
            match account.obtain().await {
                Ok(material) => break material,
                Err(error) if tries < TRIES && error.class() != ErrorClass::Invalid => {
                    debug!(account = name, %error, "service account has no token yet");
                    tries += 1;
                    sleep(pause).await;
                    pause *= 2;
                }
                Err(source) => {
                    return Err(NoToken {
                        account: name,
                        source,
                    });
                }
            }
        };
        info!(account = name, "acting as a service account of {NAMESPACE}");
        Ok((account, material))
    }

    /// Another token.
    ///
    /// # Errors
    /// The failure, as a sentence that names the account.
    pub(super) async fn token(&self) -> Result<Material, String> {
        let obtained = self.obtain().await;
        obtained.map_err(|error| format!("service account {NAMESPACE}/{}: {error}", self.name))
    }

    /// A token, of an account that is made if need be.
    async fn obtain(&self) -> Result<Material, ApiError> {
        match self.request().await {
            Err(error) if error.is_not_found() => {
                create(&self.api, self.name).await?;
                self.request().await
            }
            other => other,
        }
    }

    async fn request(&self) -> Result<Material, ApiError> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFE},
        });
        let name = self.name;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token");
        let answer: TokenRequest = self.api.create(&path, &request).await?;
        let life = Duration::from_secs(answer.spec.expiration_seconds.into());
        Material::of_token(&answer.status.token, life).map_err(ApiError::Decode)
    }
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

#[cfg(test)]
mod tests;
