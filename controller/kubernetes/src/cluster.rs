//! Facts of the cluster that a provider needs before it can start.
//!
//! RBAC: `get` on the namespace `kube-system`; `get` on the Lease, which remembers the UID of that namespace;
//! `/version` is open to every authenticated user.

use std::{collections::BTreeMap, fmt, future::pending, time::Duration};

use serde::Deserialize;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::{info, warn};

use super::{api::Api, error::ApiError};

/// Longest pause between two tries to reach the API server.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// How long the API server must refuse the namespace until this process believes it. An API server that has
/// just started refuses it until it has read its roles. A provider without the UID, or with
/// another one, takes its load balancers for those of another cluster.
const FORBIDDEN: Duration = Duration::from_secs(30);

/// How often the failure to reach the API server is logged.
const REMIND: u32 = 12;

/// Annotation of the Lease with the UID of the cluster that its leaders have worked for.
pub const CLUSTER_UID_ANNOTATION: &str = "outrigger.dev/cluster-uid";

const KUBE_SYSTEM: &str = "/api/v1/namespaces/kube-system";

/// Facts of a cluster that never change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `gitVersion` of the API server.
    pub version: String,
    /// UID of the namespace `kube-system`; absent if it may not be read, and that is sure.
    pub uid: Option<Box<str>>,
    /// The UID that the Lease remembers; looked for only where the namespace may not be read.
    pub remembered_uid: Option<Box<str>>,
}

/// The facts, as far as they can be read.
enum Query {
    All(Facts),
    /// All but the UID.
    Forbidden {
        version: String,
        error: ApiError,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

/// Asks the API server at `server` until it answers: it may come up after us. Logs that once, and
/// again every minute or so. `lease` is the path of the Lease that may remember the UID.
pub async fn discover(api: &Api, server: &str, lease: Option<&str>) -> Facts {
    let mut pause = Duration::from_millis(100);
    let mut failures = 0_u32;
    let mut forbidden_since = None;
    loop {
        match query(api).await {
            Ok(Query::All(facts)) => {
                info!(server, version = facts.version, "reached the API server");
                return facts;
            }
            Ok(Query::Forbidden { version, error }) => {
                if let Some(remembered) = remembered(api, lease).await {
                    warn!(server, version, %error, "may not read the namespace kube-system");
                    return Facts {
                        version,
                        uid: None,
                        remembered_uid: Some(remembered),
                    };
                }
                let since = *forbidden_since.get_or_insert_with(|| {
                    warn!(
                        %error,
                        "may not read the namespace kube-system, whose UID identifies the cluster to the \
                         provider; grant `get` on namespaces; trying for {FORBIDDEN:?}"
                    );
                    Instant::now()
                });
                if since.elapsed() >= FORBIDDEN {
                    warn!(server, version, "going on without the cluster's UID");
                    return Facts {
                        version,
                        ..Facts::default()
                    };
                }
            }
            Err(error) => {
                forbidden_since = None;
                if failures.is_multiple_of(REMIND) {
                    warn!(
                        server,
                        %error,
                        "cannot use the API server; trying again until it answers (check --kubeconfig and \
                         --master)"
                    );
                }
                failures += 1;
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

async fn query(api: &Api) -> Result<Query, ApiError> {
    let Version {
        git_version: version,
    } = api.get("/version").await?;
    match uid(api).await {
        Ok(uid) => Ok(Query::All(Facts {
            version,
            uid: Some(uid),
            remembered_uid: None,
        })),
        Err(error) if error.code() == Some(403) => Ok(Query::Forbidden { version, error }),
        Err(error) => Err(error),
    }
}

/// UID of the namespace `kube-system`.
///
/// # Errors
/// Any [`ApiError`]; 403 without the right to `get` it.
pub async fn uid(api: &Api) -> Result<Box<str>, ApiError> {
    api.uid(KUBE_SYSTEM).await
}

/// The cluster that the stores show. Its UID is asked for before a watch begins again: the address of an API server, and
/// the kubeconfig, may lead to another cluster by then, and a list of that one would look as if all objects of this one
/// were deleted. Clones share it.
///
/// RBAC: `get` on the namespace `kube-system`; without it nothing is compared.
#[derive(Clone)]
pub struct SameCluster {
    api: Api,
    uid: Box<str>,
    other: watch::Sender<Option<Box<str>>>,
}

impl SameCluster {
    /// The cluster with this UID.
    pub fn new(api: Api, uid: Box<str>) -> Self {
        Self {
            api,
            uid,
            other: watch::Sender::new(None),
        }
    }

    /// Returns if the API server is that of the cluster. Once it is another one's, it never returns, and
    /// [`Self::replaced`] does.
    ///
    /// # Errors
    /// There is no answer.
    pub(super) async fn confirm(&self) -> Result<(), ApiError> {
        match uid(&self.api).await {
            Ok(uid) if uid == self.uid => Ok(()),
            Ok(uid) => {
                self.other.send_replace(Some(uid));
                pending().await
            }
            Err(error) if error.code() == Some(403) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns why the process has to end, once the API server is another cluster's.
    pub async fn replaced(&self) -> String {
        let mut other = self.other.subscribe();
        // No lock is held while it waits for ever.
        let other = other.wait_for(Option::is_some).await;
        match other.ok().and_then(|other| other.clone()) {
            Some(other) => format!(
                "the API server is that of another cluster now: the UID of its namespace kube-system is {other}, and was \
                 {}; nothing is done there by what is known of the former. If that is no mistake in the kubeconfig or in \
                 the address of the API server, the next process begins with the other cluster",
                self.uid
            ),
            None => pending().await,
        }
    }
}

impl fmt::Debug for SameCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SameCluster({})", self.uid)
    }
}

async fn remembered(api: &Api, lease: Option<&str>) -> Option<Box<str>> {
    // Without an answer the namespace is asked for again, and then the Lease.
    let mut annotations = lease_annotations(api, lease?).await.ok()?;
    let uid = annotations.remove(CLUSTER_UID_ANNOTATION);
    uid.filter(|uid| !uid.is_empty())
}

/// Annotations of the Lease at `path`, read without an election.
///
/// # Errors
/// Any [`ApiError`]; 404 if no replica has led yet.
pub async fn lease_annotations(
    api: &Api,
    path: &str,
) -> Result<BTreeMap<String, Box<str>>, ApiError> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        annotations: BTreeMap<String, Box<str>>,
    }
    let Object { metadata } = api.get(path).await?;
    Ok(metadata.annotations)
}

#[cfg(test)]
mod tests;
