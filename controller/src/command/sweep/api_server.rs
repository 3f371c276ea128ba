//! Asks the API server of a kubeconfig whether its cluster is gone.

use std::time::Duration;

use outrigger_kubernetes::{
    api::Api,
    authenticator::Authenticators,
    client::{Budget, Clients, Source},
    cluster,
    error::ApiError,
    metrics::ClientMetrics,
};
use tokio::time::{Instant, sleep};
use tracing::info;

use super::Refusal;

/// Between two tries to reach an API server.
const PAUSE: Duration = Duration::from_secs(2);

/// Where the cluster was, and how it is recognised.
pub(super) struct ApiServerCheck {
    pub(super) source: Source,
    /// Path of the Lease of its controller.
    pub(super) lease: String,
    pub(super) cluster_uid: String,
    /// For how long it must not be reached.
    pub(super) gone_after: Duration,
}

/// The API server's word about the cluster, if it is not that the cluster is there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It is gone, for this reason.
    Gone(String),
    /// The API server is another cluster's.
    None(String),
}

impl ApiServerCheck {
    /// Asks, and where the API server is not reached, until that has been so for long enough.
    ///
    /// RBAC: `get` on the Lease and on the namespace `kube-system`.
    ///
    /// # Errors
    /// The cluster is there, or nothing is sure; a kubeconfig that cannot be used.
    pub(super) async fn evidence(&self) -> Result<Evidence, Refusal> {
        let (server, api) = self.connect().await?;
        let since = Instant::now();
        loop {
            if let Some(answer) = self.ask(&server, &api).await? {
                return Ok(answer);
            }
            if since.elapsed() >= self.gone_after {
                let why = format!("{server} is not reached since {:?}", self.gone_after);
                return Ok(Evidence::Gone(why));
            }
            if since.elapsed() < PAUSE {
                info!(server, gone_after = ?self.gone_after, "API server not reached; asked again");
            }
            sleep(PAUSE.min(self.gone_after)).await;
        }
    }

    /// Asks again and again while objects are deleted, and returns once the answer would have refused that, with the
    /// answer.
    pub(super) async fn is_there_again(&self) -> String {
        let connected = self.connect().await;
        let (server, api) = match connected {
            Ok(connected) => connected,
            Err(Refusal(why)) => return why,
        };
        loop {
            sleep(PAUSE).await;
            if let Err(Refusal(why)) = self.ask(&server, &api).await {
                return why;
            }
        }
    }

    async fn connect(&self) -> Result<(String, Api), Refusal> {
        let api_server = self.source.load().await;
        let api_server = api_server.map_err(|error| error.to_string())?;
        let metrics = ClientMetrics::default();
        let authenticators = Authenticators::new(&metrics);
        let clients = Clients::new(api_server, &authenticators, metrics);
        let clients = clients.map_err(|error| error.to_string())?;
        let client = clients.build("sweep", Budget::UNLIMITED);
        let api = Api::new(client.map_err(|error| error.to_string())?);
        Ok((clients.server(), api))
    }

    /// One answer; none if the API server is not reached.
    async fn ask(&self, server: &str, api: &Api) -> Result<Option<Evidence>, Refusal> {
        let lease = cluster::lease_annotations(api, &self.lease).await;
        let uid = match &lease {
            Err(error) if error.is_not_found() => Some(cluster::uid(api).await),
            _ => None,
        };
        let answer = judge(&self.cluster_uid, lease.map(drop), uid);
        answer.map_err(|why| Refusal(format!("{server}: {why}")))
    }
}

/// Reads the answers about the Lease and, where there is none, about the namespace kube-system. The result is none if it is not reached.
///
/// # Errors
/// Any answer that does not say that the cluster is gone, with what to do.
fn judge(
    cluster_uid: &str,
    lease: Result<(), ApiError>,
    uid: Option<Result<Box<str>, ApiError>>,
) -> Result<Option<Evidence>, String> {
    let is_there = "nothing is deleted as long as it may be there; delete its Services of type LoadBalancer, or the \
                    cluster, first";
    match (lease, uid) {
        (Err(ApiError::Unreachable(_)), _) | (_, Some(Err(ApiError::Unreachable(_)))) => Ok(None),
        (Ok(()), _) => Err(format!(
            "the cluster has the Lease of its controller: {is_there}"
        )),
        (Err(_), Some(Ok(uid))) if *uid == *cluster_uid => Err(format!(
            "it is the API server of the cluster {uid}: {is_there}"
        )),
        (Err(_), Some(Ok(uid))) => Ok(Some(Evidence::None(format!(
            "the API server is that of the cluster {uid} and says nothing of {cluster_uid}"
        )))),
        (Err(_), Some(Err(error))) if error.is_not_found() => Ok(Some(Evidence::Gone(
            "its API server has neither the Lease of the controller nor the namespace kube-system"
                .to_owned(),
        ))),
        (Err(error), None) | (_, Some(Err(error))) => Err(format!(
            "cannot tell whether the cluster is gone: {error}: {is_there}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> ApiError {
        ApiError::Status {
            code,
            reason: String::new(),
            message: "no".to_owned(),
            retry_after: None,
        }
    }

    #[test]
    fn only_an_api_server_without_lease_and_cluster_says_that_it_is_gone() {
        let unreachable = || ApiError::Unreachable("refused".to_owned());
        let uid = |uid: &str| Some(Ok(Box::from(uid)));
        assert_eq!(judge("u", Err(unreachable()), None), Ok(None));
        assert_eq!(
            judge("u", Err(status(404)), Some(Err(unreachable()))),
            Ok(None)
        );
        let gone = judge("u", Err(status(404)), Some(Err(status(404))));
        assert!(matches!(gone, Ok(Some(Evidence::Gone(_)))), "{gone:?}");
        let another = judge("u", Err(status(404)), uid("v"));
        assert!(
            matches!(another, Ok(Some(Evidence::None(_)))),
            "{another:?}"
        );
        for (lease, uid) in [
            (Ok(()), None),
            (Err(status(404)), uid("u")),
            (Err(status(404)), Some(Err(status(403)))),
            (Err(status(401)), None),
            (Err(status(403)), None),
            (Err(status(503)), None),
            (Err(ApiError::Timeout(PAUSE)), None),
            (
                Err(ApiError::Transport("invalid peer certificate".to_owned())),
                None,
            ),
            (Err(ApiError::Decode("html".to_owned())), None),
        ] {
            let judged = judge("u", lease, uid);
            assert!(judged.is_err(), "{judged:?}");
        }
    }
}
