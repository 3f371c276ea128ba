//! What has to be known of the cluster before a provider can be told where it works.
//!
//! RBAC: `get` on the namespace `kube-system`; `/version` is open to every authenticated user.

use std::time::Duration;

use serde::Deserialize;
use tracing::{info, warn};

use super::{api::Api, error::Error};

/// Longest pause between two tries to reach the API server.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// How often the failure to reach the API server is logged.
const REMIND: u32 = 12;

/// Facts of a cluster that never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `gitVersion` of the API server.
    pub version: String,
    /// UID of the namespace `kube-system`; empty if we may not see it.
    pub uid: String,
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
    loop {
        match ask(api).await {
            Ok(facts) => {
                info!(server, version = facts.version, "reached the API server");
                return facts;
            }
            Err(error) => {
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
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

async fn ask(api: &Api) -> Result<Facts, Error> {
    let version: Version = api.get("/version").await?;
    let uid = match api.get::<Namespace>("/api/v1/namespaces/kube-system").await {
        Ok(namespace) => namespace.metadata.uid,
        Err(error) if error.code() == Some(403) => {
            warn!(
                "may not read the namespace kube-system, so the provider is not told the \
                 cluster's UID; grant `get` on namespaces: {error}"
            );
            String::new()
        }
        Err(error) => return Err(error),
    };
    Ok(Facts {
        version: version.git_version,
        uid,
    })
}
