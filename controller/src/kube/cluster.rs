//! What has to be known of the cluster before a provider can be told where it works.
//!
//! RBAC: `get` on the namespace `kube-system`; `/version` is open to every authenticated user.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::{api::Api, error::Error};

/// Longest pause between two tries to reach the API server.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// How long the API server has to say that the namespace may not be read until it is believed. One
/// that has just started says so until it has read its roles. A provider that is told no UID, or
/// another time one, takes its load balancers for those of another cluster.
const FORBIDDEN: Duration = Duration::from_secs(30);

/// How often the failure to reach the API server is logged.
const REMIND: u32 = 12;

/// Facts of a cluster that never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `gitVersion` of the API server.
    pub version: String,
    /// UID of the namespace `kube-system`; empty if we may not see it, and that is sure.
    pub uid: String,
}

/// What was found out.
enum Found {
    All(Facts),
    /// All but the UID.
    Forbidden {
        version: String,
        error: Error,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

#[derive(Deserialize)]
struct Namespace {
    metadata: NamespaceMeta,
}

#[derive(Deserialize)]
struct NamespaceMeta {
    uid: String,
}

/// Asks the API server at `server` until it answers: it may come up after us. Says so once, and
/// again every minute or so.
pub async fn discover(api: &Api, server: &str) -> Facts {
    let mut pause = Duration::from_millis(100);
    let mut failures = 0_u32;
    let mut forbidden_since = None;
    loop {
        match ask(api).await {
            Ok(Found::All(facts)) => {
                info!(server, version = facts.version, "reached the API server");
                return facts;
            }
            Ok(Found::Forbidden { version, error }) => {
                let since = *forbidden_since.get_or_insert_with(|| {
                    warn!(
                        "may not read the namespace kube-system, whose UID tells the provider which \
                         cluster it works for; grant `get` on namespaces; trying for {FORBIDDEN:?}: \
                         {error}"
                    );
                    Instant::now()
                });
                if since.elapsed() >= FORBIDDEN {
                    warn!(server, version, "going on without the cluster's UID");
                    let uid = String::new();
                    return Facts { version, uid };
                }
            }
            Err(error) => {
                forbidden_since = None;
                if failures.is_multiple_of(REMIND) {
                    warn!(
                        server,
                        "cannot use the API server at {server}: {error}; trying again until it \
                         answers (check --kubeconfig and --master)"
                    );
                }
                failures += 1;
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

async fn ask(api: &Api) -> Result<Found, Error> {
    let Version {
        git_version: version,
    } = api.get("/version").await?;
    match api.get::<Namespace>("/api/v1/namespaces/kube-system").await {
        Ok(namespace) => Ok(Found::All(Facts {
            version,
            uid: namespace.metadata.uid,
        })),
        Err(error) if error.code() == Some(403) => Ok(Found::Forbidden { version, error }),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
