//! Authentication and authorization of requests (AUTH-1 … AUTH-7).
//!
//! ```text
//!  request ─► proxy's certificate + headers ─► client certificate ─► token ─► anonymous
//!                    │                                │                │
//!                    └── CAs: flags or ConfigMap ─────┘                └── TokenReview
//!          ─► system:masters ─► always-allow paths ─► SubjectAccessReview ─► answer
//!
//!  before the CAs of the cluster are known: ─► always-allow paths ─► answer
//! ```

mod anchors;
mod counts;
mod review;
mod rights;
mod tokens;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use http::{StatusCode, header, request};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

pub use self::anchors::ClientCa;
pub use self::counts::AccessMetrics;
use self::{
    anchors::{Anchors, Sources},
    review::{ReviewClient, ReviewError},
    rights::{Paths, Rights},
    tokens::Tokens,
};
use super::{
    answer::{self, Answer},
    fairness::FairQueue,
    server::Peer,
    settings::{Authentication, Authorization},
};
use outrigger_kubernetes::{
    api::Api,
    authenticator::Authenticators,
    certificate::validity,
    client::{Budget, Clients, Source, SourceError},
    metrics::ClientMetrics,
    refusals::Refusals,
};
use outrigger_runtime::telemetry::Repeats;

/// The server cannot find out who may ask.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The client of a kubeconfig cannot be made.
    #[error("{flag}: {source}")]
    Client {
        /// Which.
        flag: &'static str,
        /// The defect.
        source: SourceError,
    },
    /// A file with CAs, or a kubeconfig.
    #[error("{flag} {}: {reason}", path.display())]
    File {
        /// The flag with the path as its value.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// The CAs of the cluster cannot be read.
    #[error("unable to load configmap based request-header-client-ca-file: {0}")]
    Lookup(String),
    /// `--authorization-always-allow-paths`.
    #[error("only trailing * allowed in {0:?}")]
    Pattern(String),
    /// For the key that hides tokens.
    #[error("the kernel gives no random numbers")]
    Random,
}

/// Decides about each request.
///
/// Before [`Self::look_up`] has found out whose certificates to trust, paths that need no right are
/// open, and any other answers 503.
///
/// RBAC: `system:auth-delegator` (create `tokenreviews` and `subjectaccessreviews`), and the Role
/// `extension-apiserver-authentication-reader` in `kube-system`.
pub struct Access {
    anchors: Anchors,
    tokens: Option<Tokens>,
    rights: Rights,
    metrics: AccessMetrics,
    repeats: Repeats,
}

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
            tolerates_failure: authentication.tolerate_lookup_failure,
        })?;
        let free = Paths::parse(&authorization.always_allow_paths)?;
        let (yes, no) = (authorization.authorized_ttl, authorization.unauthorized_ttl);
        let queue = Arc::new(FairQueue::new(review::LIMITS));
        let reviewer = reviewer.map(|api| ReviewClient {
            api,
            path: tokens::PATH,
            metrics: counts.tokens(),
            queue: Arc::clone(&queue),
        });
        let judge = judge.map(|api| ReviewClient {
            api,
            path: rights::PATH,
            metrics: counts.subjects(),
            queue,
        });
        let tokens = reviewer.map(|one| Tokens::new(one, authentication.token_cache_ttl));
        Ok(Self {
            anchors,
            tokens: tokens.transpose().map_err(|_| AccessError::Random)?,
            rights: Rights::new(judge, free, yes, no),
            repeats: Repeats::default(),
            metrics: counts,
        })
    }

    /// Reads the CAs from the cluster for the first time; from then on requests are decided about.
    /// Waits for an API server that is not there yet, unless a failure is tolerated.
    ///
    /// # Errors
    /// CAs that cannot be read from the cluster, unless `--authentication-tolerate-lookup-failure`.
    pub async fn look_up(&self) -> Result<(), AccessError> {
        self.anchors.look_up().await
    }

    /// Reads the CAs again, from the first time on until `stop`. Runs beside the server.
    pub(crate) async fn keep_fresh(&self, stop: CancellationToken) {
        self.anchors.keep_fresh(stop).await;
    }

    /// `None` if the request may go on, else what to answer.
    pub(super) async fn refuse(&self, request: &request::Parts, peer: &Peer) -> Option<Answer> {
        let path = request.uri.path();
        if self.anchors.is_pending() {
            // A probe must not fail for want of the API server, whoever sends it.
            return (!self.rights.is_free(path)).then(too_early);
        }
        let caller = match self.caller(request, peer).await {
            Ok(caller) => caller,
            Err(Unauthenticated::Overloaded) => return Some(self.overloaded(peer)),
            Err(Unauthenticated::Refused { cause, reason }) => {
                if let Some(others) = self.repeats.due(cause) {
                    error!(
                        peer = %peer.address,
                        others,
                        error = reason,
                        "Unable to authenticate the request"
                    );
                }
                let code = StatusCode::UNAUTHORIZED;
                return Some(answer::status(code, "Unauthorized", "Unauthorized"));
            }
        };
        let verb = request.method.as_str().to_ascii_lowercase();
        let verdict = self.rights.of(&caller, &verb, path, peer.address.ip());
        match verdict.await {
            Ok(verdict) if verdict.allowed => None,
            Ok(verdict) => {
                let mut message = sanitized(&format!(
                    "forbidden: User {:?} cannot {verb} path {path:?}",
                    caller.name
                ));
                if !verdict.reason.is_empty() {
                    message = format!("{message}: {}", verdict.reason);
                }
                let code = StatusCode::FORBIDDEN;
                Some(answer::status(code, "Forbidden", &message))
            }
            Err(ReviewError::Overloaded) => Some(self.overloaded(peer)),
            Err(ReviewError::Failed(reason)) => {
                if let Some(others) = self.repeats.due("review of a right") {
                    error!(
                        peer = %peer.address,
                        user = caller.name,
                        verb,
                        path,
                        others,
                        error = reason,
                        "Unable to authorize the request"
                    );
                }
                let text = sanitized(&format!("Internal Server Error: {path:?}: {reason}"));
                Some(answer::error(StatusCode::INTERNAL_SERVER_ERROR, &text))
            }
        }
    }

    /// Something that was shown and is not good is an error, even where nothing had to be shown
    /// (AUTH-4), unless something else that was shown is good.
    async fn caller(
        &self,
        request: &request::Parts,
        peer: &Peer,
    ) -> Result<Caller, Unauthenticated> {
        let mut refused = Vec::new();
        if !peer.certificates.is_empty() {
            let authorities = self.anchors.current();
            for found in [
                authorities.proxied(&peer.certificates, &request.headers),
                authorities.client(&peer.certificates),
            ] {
                match found {
                    Ok(Some(caller)) => {
                        if let Some((_, end)) = validity(&peer.certificates) {
                            self.metrics.certificate_expires(end);
                        }
                        return Ok(caller.authenticated());
                    }
                    Ok(None) => {}
                    Err(reason) => refused.push(reason),
                }
            }
        }
        let mut cause = "credential";
        if let (Some(tokens), Some(token)) = (&self.tokens, bearer(request)) {
            match tokens.caller(token, peer.address.ip()).await {
                Ok(Some(caller)) => return Ok(caller.authenticated()),
                Ok(None) => refused.push("invalid bearer token".to_owned()),
                Err(ReviewError::Overloaded) => return Err(Unauthenticated::Overloaded),
                Err(ReviewError::Failed(reason)) => {
                    cause = "review of a token";
                    refused.push(reason);
                }
            }
        }
        if refused.is_empty() {
            return Ok(Caller::anonymous());
        }
        let reason = refused.join("; ");
        Err(Unauthenticated::Refused { cause, reason })
    }

    fn overloaded(&self, peer: &Peer) -> Answer {
        if let Some(others) = self.repeats.due("overload") {
            warn!(
                peer = %peer.address,
                others,
                "requests are refused with 429, for too many wait for reviews of the API server; look for a \
                 client that shows many tokens or asks for many paths"
            );
        }
        answer::overloaded()
    }
}

/// A request has no caller.
enum Unauthenticated {
    /// Its token could not be looked at.
    Overloaded,
    /// A credential that is not good, or that could not be reviewed.
    Refused {
        /// For the log, which has one line for each.
        cause: &'static str,
        reason: String,
    },
}

fn too_early() -> Answer {
    answer::error(
        StatusCode::SERVICE_UNAVAILABLE,
        "The API server, which knows who may see this, has not been reached yet; see /readyz.",
    )
}

/// The client of the kubeconfig's user, else of the Pod's service account; `None` outside of a cluster.
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

/// A caller, as Kubernetes knows users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Caller {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

impl Caller {
    fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..Self::default()
        }
    }

    /// In the group of authenticated users; a proxy may speak for an anonymous user.
    fn authenticated(mut self) -> Self {
        let system_groups = [AUTHENTICATED, UNAUTHENTICATED];
        let has = |group: &String| system_groups.contains(&group.as_str());
        if self.name != ANONYMOUS && !self.groups.iter().any(has) {
            self.groups.push(AUTHENTICATED.into());
        }
        self
    }

    fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }
}

/// The token of `Authorization: Bearer TOKEN`, if there is one.
fn bearer(request: &request::Parts) -> Option<&str> {
    let value = request.headers.get(header::AUTHORIZATION)?;
    let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Replaces characters that a browser could take for markup, as upstream.
fn sanitized(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
