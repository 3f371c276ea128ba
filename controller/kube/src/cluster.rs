//! Facts of the cluster that a provider needs before it can start, and whether the API server is still that of the same
//! cluster.
//!
//! The binary asks [`discover`] at its start. Watches and the election ask [`SameCluster::confirm`] before they begin
//! again, since an address may lead to another cluster by then; the process ends when it does.
//!
//! RBAC: `get` on the namespace `kube-system`; `/version` is open to every authenticated user.

use std::{
    collections::BTreeMap,
    fmt,
    future::pending,
    sync::{Arc, OnceLock},
    time::Duration,
};

use outrigger_core::lease::LeaseRecord;
use serde::Deserialize;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tracing::{info, warn};

use super::{api::Api, error::ApiError, leader::LeaseObject};
use outrigger_runtime::{log_repeated, telemetry::Repeats};

/// Longest pause between two tries to reach the API server.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// How long the API server must refuse the namespace until this process believes it. An API server that has
/// just started refuses it until it has read its roles. A provider without the UID, or with
/// another one, takes its load balancers for those of another cluster.
const FORBIDDEN: Duration = Duration::from_secs(30);

/// Annotation of the Lease with the UID that its leaders have changed the cloud with.
pub const CLUSTER_UID_ANNOTATION: &str = "outrigger.dev/cluster-uid";

const KUBE_SYSTEM: &str = "/api/v1/namespaces/kube-system";

/// Facts of a cluster that never change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `gitVersion` of the API server.
    pub version: String,
    /// UID of the namespace `kube-system`; absent if it may not be read, and that is sure.
    pub uid: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

/// Asks the API server at `server` until it answers: it may come up after us. Logs that once, and
/// again every minute or so.
pub async fn discover(api: &Api, server: &str) -> Facts {
    let repeats = Repeats::default();
    let mut pause = Duration::from_millis(100);
    let mut forbidden_since: Option<Instant> = None;
    loop {
        match query(api, &repeats).await {
            Ok(facts) if facts.uid.is_some() => {
                let version = &facts.version;
                info!(server, version, "reached the API server");
                return facts;
            }
            Ok(facts) => {
                let since = *forbidden_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= FORBIDDEN {
                    let version = &facts.version;
                    warn!(server, version, "going on without the UID of kube-system");
                    return facts;
                }
            }
            Err(error) => {
                forbidden_since = None;
                log_repeated!(
                    warn, repeats, "unreachable", server, %error,
                    "cannot use the API server; trying again until it answers (check --kubeconfig and --master)"
                );
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// The facts as the API server tells them now, without the UID if it refuses the namespace, which is logged.
///
/// # Errors
/// Any other [`ApiError`].
pub async fn query(api: &Api, repeats: &Repeats) -> Result<Facts, ApiError> {
    let Version { git_version } = api.get("/version").await?;
    let uid = match uid(api).await {
        Err(error) if error.code() == Some(403) => {
            log_repeated!(
                warn, repeats, "forbidden", %error,
                "may not read the namespace kube-system, by whose UID the cluster is recognised; grant `get` on it; \
                 trying for {FORBIDDEN:?}"
            );
            None
        }
        uid => Some(uid?),
    };
    Ok(Facts {
        version: git_version,
        uid,
    })
}

/// UID of the namespace `kube-system`, which each API server of a cluster has.
///
/// # Errors
/// Any [`ApiError`]; 403 without the right to `get` it.
pub async fn uid(api: &Api) -> Result<Box<str>, ApiError> {
    api.uid(KUBE_SYSTEM).await
}

/// The cluster that the stores show, recognised by the UID of its namespace `kube-system`, which is asked for before a
/// watch begins again and before the Lease is made or claimed: the address of an API server, and the kubeconfig, may lead
/// to another cluster by then. A list of that one would look as if all objects of this one were deleted, and a Lease made
/// there would carry the records of this one. Clones share it.
///
/// RBAC: `get` on the namespace `kube-system`; without it nothing is compared.
#[derive(Clone)]
pub struct SameCluster {
    api: Api,
    /// The first answer.
    uid: Arc<OnceLock<Box<str>>>,
    other: watch::Sender<Option<Box<str>>>,
}

impl SameCluster {
    /// The cluster with this UID, or of the first answer.
    pub fn new(api: Api, uid: Option<Box<str>>) -> Self {
        Self {
            api,
            uid: Arc::new(uid.map(OnceLock::from).unwrap_or_default()),
            other: watch::Sender::new(None),
        }
    }

    /// The UID of `kube-system`, once it could be read.
    pub fn uid(&self) -> Option<&str> {
        self.uid.get().map(|uid| &**uid)
    }

    /// For tests: the first answer came meanwhile.
    #[cfg(any(test, feature = "fixture"))]
    pub fn learn(&self, uid: &str) {
        let _ = self.uid.set(uid.into());
    }

    /// Returns if the API server is that of the cluster, or does not let its UID be read. Once it is another one's,
    /// [`Self::replaced`] returns.
    ///
    /// # Errors
    /// There is no answer, or it is another cluster's.
    pub async fn confirm(&self) -> Result<(), ApiError> {
        match uid(&self.api).await {
            Ok(uid) if *self.uid.get_or_init(|| uid.clone()) == uid => Ok(()),
            Ok(uid) => {
                self.other.send_replace(Some(uid.clone()));
                Err(ApiError::OtherCluster(uid.into()))
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
                self.uid().unwrap_or_default()
            ),
            None => pending().await,
        }
    }
}

impl fmt::Debug for SameCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SameCluster({:?})", self.uid())
    }
}

/// Path of the Leases of `namespace`.
pub(super) fn leases(namespace: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
}

/// Path of the Lease `name` in `namespace`.
pub fn lease_path(namespace: &str, name: &str) -> String {
    format!("{}/{name}", leases(namespace))
}

/// A Lease as it is read without an election.
#[derive(Debug)]
pub struct LeaseFacts {
    /// `metadata.annotations`
    pub annotations: BTreeMap<String, String>,
    /// `spec`
    pub record: LeaseRecord,
}

/// The Lease at `path`.
///
/// # Errors
/// Any [`ApiError`]; 404 if no replica has led yet.
pub async fn lease(api: &Api, path: &str) -> Result<LeaseFacts, ApiError> {
    let LeaseObject { metadata, spec, .. } = api.get(path).await?;
    Ok(LeaseFacts {
        annotations: metadata.annotations,
        record: spec,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::fixture::scripted;

    const SERVER: &str = "https://api.example";

    /// The result and its time, where the namespace can be read so long after the start, or never.
    async fn found(readable_after: Option<Duration>, other_errors: bool) -> (Facts, Duration) {
        let begin = Instant::now();
        let requests = Arc::new(Mutex::new(0));
        let client = scripted::client(move |request| {
            *requests.lock() += 1;
            let answer = match request.uri().path() {
                "/version" => scripted::json(200, &json!({"gitVersion": "v1.36.3"})),
                _ if readable_after.is_some_and(|after| begin.elapsed() >= after) => {
                    scripted::json(200, &json!({"metadata": {"uid": "abc"}}))
                }
                _ if other_errors && *requests.lock() % 8 == 0 => {
                    scripted::refusal(503, "Unavailable")
                }
                _ => scripted::refusal(403, "Forbidden"),
            };
            async { answer }.boxed()
        });
        let facts = discover(&Api::new(client), SERVER).await;
        assert_eq!(facts.version, "v1.36.3");
        (facts, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_may_be_read_at_once_is_waited_for_no_longer() {
        let (facts, took) = found(Some(Duration::ZERO), false).await;
        assert_eq!((facts.uid.as_deref(), took), (Some("abc"), Duration::ZERO));
    }

    /// An API server that is starting refuses everything at first.
    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_believed_only_after_a_while() {
        for seconds in [1, 10, 25] {
            let (facts, _) = found(Some(Duration::from_secs(seconds)), false).await;
            assert_eq!(facts.uid.as_deref(), Some("abc"), "after {seconds} s");
        }
        let (facts, took) = found(None, false).await;
        assert_eq!(facts.uid, None);
        assert!(
            (FORBIDDEN..FORBIDDEN + MAX_PAUSE).contains(&took),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_cannot_say_for_sure_is_asked_on() {
        let (facts, _) = found(Some(Duration::from_mins(3)), true).await;
        assert_eq!(facts.uid.as_deref(), Some("abc"));
    }

    /// No answer, and no right to ask, is no other cluster.
    #[tokio::test(start_paused = true)]
    async fn only_another_uid_is_another_cluster() {
        let answers = Arc::new(Mutex::new(vec![Some("def"), None, Some("abc")]));
        let client = scripted::client(move |_| {
            let answer = match answers.lock().pop() {
                Some(Some(uid)) => scripted::json(200, &json!({"metadata": {"uid": uid}})),
                Some(None) => scripted::refusal(403, "Forbidden"),
                None => scripted::refusal(503, "Unavailable"),
            };
            async { answer }.boxed()
        });
        // The first answer says which one it is.
        let cluster = SameCluster::new(Api::new(client), None);
        let shared = cluster.clone();
        let mut replaced = std::pin::pin!(shared.replaced());
        for _ in 0..2 {
            cluster.confirm().await.unwrap();
            assert_eq!((&mut replaced).now_or_never(), None);
        }
        let other = cluster.confirm().await;
        assert!(matches!(other, Err(ApiError::OtherCluster(_))), "{other:?}");
        let why = replaced.now_or_never().unwrap();
        assert!(why.contains("is def, and was abc"), "{why}");
        assert!(cluster.confirm().await.is_err());
    }
}
