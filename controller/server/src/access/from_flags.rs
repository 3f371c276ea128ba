//! Access from the flags: which API server will be asked, and what happens without one (AUTH-3).

use std::{path::PathBuf, sync::Arc};

use tokio::sync::watch;
use tracing::warn;

use super::{
    Access, AccessError, AccessMetrics,
    anchors::{Anchors, Sources},
    look_up::CaState,
    paths::Paths,
    review::{self, ReviewClient},
    rights::{self, Rights},
    tokens::{self, Tokens},
};
use crate::{
    fairness::FairQueue,
    settings::{Authentication, Authorization},
};
use outrigger_kubernetes::{
    api::Api,
    authenticator::Authenticators,
    client::{Budget, Clients, Source, SourceError},
    metrics::ClientMetrics,
    refusals::Refusals,
};
use outrigger_runtime::telemetry::Repeats;

impl Access {
    /// Reads the files that the flags name. Sends no request: [`Self::look_up`] does.
    ///
    /// # Errors
    /// A kubeconfig or a file that cannot be used.
    pub async fn new(
        authentication: &Authentication,
        authorization: &Authorization,
        authenticators: &Authenticators,
        metrics: &ClientMetrics,
        counts: AccessMetrics,
    ) -> Result<Self, AccessError> {
        let reviewer = client(
            "--authentication-kubeconfig",
            authentication.kubeconfig.as_ref(),
            authenticators,
            metrics,
        );
        let reviewer = reviewer.await?;
        if reviewer.is_none() && !authentication.skip_lookup {
            for (what, given, consequence) in [
                (
                    "client-ca-file",
                    &authentication.client_ca_file,
                    "client certificate authentication won't work",
                ),
                (
                    "requestheader-client-ca-file",
                    &authentication.request_header.client_ca_file,
                    "request-header client certificate authentication won't work",
                ),
            ] {
                if given.is_none() {
                    warn!(
                        "No authentication-kubeconfig provided in order to lookup {what} in \
                         configmap/extension-apiserver-authentication in kube-system, so \
                         {consequence}."
                    );
                }
            }
        }
        let judge = client(
            "--authorization-kubeconfig",
            authorization.kubeconfig.as_ref(),
            authenticators,
            metrics,
        );
        let judge = judge.await?;
        if judge.is_none() {
            warn!(
                "No authorization-kubeconfig provided, so SubjectAccessReview of authorization \
                 tokens won't work."
            );
        }
        Self::with(authentication, authorization, reviewer, judge, counts)
    }

    /// With these clients for `TokenReview` and the `ConfigMap`, and for `SubjectAccessReview`.
    pub(crate) fn with(
        authentication: &Authentication,
        authorization: &Authorization,
        reviewer: Option<Api>,
        judge: Option<Api>,
        counts: AccessMetrics,
    ) -> Result<Self, AccessError> {
        let anchors = Anchors::new(Sources {
            client_ca_file: authentication.client_ca_file.clone(),
            request_header: authentication.request_header.clone(),
            lookup: reviewer.clone().filter(|_| !authentication.skip_lookup),
        })?;
        let free = Paths::parse(&authorization.always_allow_paths)?;
        let (yes, no) = (authorization.authorized_ttl, authorization.unauthorized_ttl);
        let queue = Arc::new(FairQueue::new(review::LIMITS));
        let reviewer = reviewer.map(|api| ReviewClient {
            api,
            path: tokens::PATH,
            metrics: counts.token.clone(),
            queue: Arc::clone(&queue),
        });
        let judge = judge.map(|api| ReviewClient {
            api,
            path: rights::PATH,
            metrics: counts.subject.clone(),
            queue,
        });
        let tokens = reviewer.map(|one| Tokens::new(one, authentication.token_cache_ttl));
        Ok(Self {
            anchors,
            tokens: tokens.transpose().map_err(|_| AccessError::Random)?,
            rights: Rights::new(judge, free, yes, no),
            repeats: Repeats::default(),
            tolerant: authentication.tolerate_lookup_failure,
            metrics: counts,
            cas: watch::Sender::new(CaState::Pending),
        })
    }
}

/// Of the file, or of the Pod; none outside of a cluster.
async fn client(
    flag: &'static str,
    kubeconfig: Option<&PathBuf>,
    authenticators: &Authenticators,
    metrics: &ClientMetrics,
) -> Result<Option<Api>, AccessError> {
    let refuse = |error| match error {
        SourceError::Kubeconfig { path, reason } => AccessError::File { flag, path, reason },
        source => AccessError::Client { flag, source },
    };
    let source = Source {
        kubeconfig: kubeconfig.cloned(),
        master: None,
    };
    let server = match source.load().await {
        Err(SourceError::NotInCluster(_)) => return Ok(None),
        server => server.map_err(refuse)?,
    };
    let clients = Clients::new(server, authenticators, metrics.clone()).map_err(refuse)?;
    let client = clients.build("delegated-access", Budget::UNLIMITED);
    Ok(Some(
        Api::new(client.map_err(refuse)?).reporting(Refusals::default()),
    ))
}
