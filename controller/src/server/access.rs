//! Authentication and authorization of requests (AUTH-2 … AUTH-7).
//!
//! ```text
//!  request ─► client certificate ─► token ─► anonymous
//!                    │                │
//!       CAs: flag or ConfigMap   TokenReview
//!          ─► system:masters ─► always-allow paths ─► SubjectAccessReview ─► answer
//! ```

mod client_ca;
mod reviews;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    middleware::Next,
};
use http::{HeaderValue, Method, StatusCode, header, request};
use outrigger_kube::{
    api::Api,
    client::{Budget, Clients, Source, SourceError},
    metrics::ClientMetrics,
};
use outrigger_runtime::{log_repeated, telemetry::Repeats};
use tracing::warn;

pub use self::client_ca::ClientCa;
use self::reviews::Reviews;
use super::{
    answer::{self, Answer},
    listener::Peer,
    settings::AccessSettings,
};

/// Any client can cause reviews: upstream's rate (AUTH-6).
const BUDGET: Budget = Budget {
    qps: 200.0,
    burst: 400,
};

/// Decides about each request. Client certificates count for nothing before [`Self::look_up`].
///
/// RBAC: `system:auth-delegator` (create `tokenreviews` and `subjectaccessreviews`), and the Role
/// `extension-apiserver-authentication-reader` in `kube-system`.
pub struct Access {
    client_ca: ClientCa,
    reviews: Reviews,
    free: Vec<String>,
    repeats: Repeats,
}

/// Why a request is not answered.
#[derive(Debug, thiserror::Error)]
enum Denial {
    /// A credential is not good.
    #[error("{0}")]
    Unauthorized(String),
    /// The caller has no right.
    #[error("{0}")]
    Forbidden(String),
    /// The API server gave no answer that can be used.
    #[error("Internal Server Error: {0}")]
    Failed(String),
}

impl Access {
    /// Reads the files that the flags name. Sends no request: [`Self::look_up`] does.
    ///
    /// # Errors
    /// A kubeconfig or a file that cannot be used.
    pub async fn new(settings: &AccessSettings, metrics: &ClientMetrics) -> Result<Self, String> {
        let build = async |flag, kubeconfig| client(flag, kubeconfig, metrics).await;
        let kubeconfig = settings.authentication_kubeconfig.as_ref();
        let reviewer = build("--authentication-kubeconfig", kubeconfig).await?;
        if reviewer.is_none() && !settings.authentication_skip_lookup {
            warn!(
                "No authentication-kubeconfig provided, so tokens won't work, nor client certificates without \
                 --client-ca-file."
            );
        }
        let kubeconfig = settings.authorization_kubeconfig.as_ref();
        let judge = build("--authorization-kubeconfig", kubeconfig).await?;
        if judge.is_none() {
            warn!(
                "No authorization-kubeconfig provided, so SubjectAccessReview of authorization \
                 tokens won't work."
            );
        }
        Self::with(settings, reviewer, judge)
    }

    /// With these clients for `TokenReview` and the `ConfigMap`, and for `SubjectAccessReview`.
    pub(crate) fn with(
        settings: &AccessSettings,
        reviewer: Option<Api>,
        judge: Option<Api>,
    ) -> Result<Self, String> {
        let mut free = settings.authorization_always_allow_paths.clone();
        free.retain(|path| !path.is_empty());
        if let Some(pattern) = free.iter().find(|path| star(path).0.contains('*')) {
            return Err(format!("only trailing * allowed in {pattern:?}"));
        }
        let looks_up = !settings.authentication_skip_lookup;
        let client_ca = match &settings.client_ca_file {
            Some(path) => ClientCa::read("--client-ca-file", path.clone())?,
            None => ClientCa::of_cluster(reviewer.clone().filter(|_| looks_up)),
        };
        Ok(Self {
            client_ca,
            reviews: Reviews::new(reviewer, judge),
            free,
            repeats: Repeats::default(),
        })
    }

    /// Reads the CAs from the cluster for the first time. Client certificates count for nothing as long as they cannot be
    /// read.
    pub async fn look_up(&self) {
        self.client_ca.reread().await;
    }

    /// Reads the CAs again and again. Runs beside the server.
    pub(crate) async fn keep_fresh(&self) {
        self.client_ca.keep_fresh().await;
    }

    /// `--authorization-always-allow-paths`: a leading slash may be left out; a trailing star stands for anything.
    fn is_free(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.free.iter().any(|pattern| match star(pattern) {
            (prefix, true) => path.starts_with(prefix),
            (exact, false) => path == exact,
        })
    }

    async fn allow(&self, request: &request::Parts, peer: &Peer) -> Result<(), Denial> {
        let path = request.uri.path();
        let caller = self.caller(request, peer).await?;
        if self.is_free(path) || caller.groups.iter().any(|group| group == "system:masters") {
            return Ok(());
        }
        let verb = request.method.as_str().to_ascii_lowercase();
        self.reviews.allow(caller, verb, path).await
    }

    /// Something that was shown and is not good is an error, even where nothing had to be shown
    /// (AUTH-4), unless something else that was shown is good.
    async fn caller(&self, request: &request::Parts, peer: &Peer) -> Result<Caller, Denial> {
        let by_certificate = self.client_ca.caller(&peer.certificates);
        if let Ok(Some(caller)) = by_certificate {
            return Ok(caller.authenticated());
        }
        if let Some(token) = bearer(request) {
            let caller = self.reviews.caller(token).await;
            // Upstream does the same where no review is possible.
            let caller = caller.map_err(|denial| match denial {
                Denial::Failed(reason) => Denial::Unauthorized(reason),
                other => other,
            })?;
            if let Some(caller) = caller {
                return Ok(caller.authenticated());
            }
        }
        by_certificate.map_err(Denial::Unauthorized)?;
        Ok(Caller {
            name: ANONYMOUS.into(),
            groups: vec!["system:unauthenticated".into()],
            ..Caller::default()
        })
    }

    fn answer(&self, denial: &Denial, peer: &Peer) -> Answer {
        let text = denial.to_string();
        let answer = match denial {
            Denial::Forbidden(_) => {
                return answer::status(StatusCode::FORBIDDEN, "Forbidden", &text);
            }
            Denial::Unauthorized(_) => {
                answer::status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
            }
            Denial::Failed(_) => answer::error(StatusCode::INTERNAL_SERVER_ERROR, &text),
        };
        let (cause, error) = (answer.status().as_str().to_owned(), text);
        log_repeated!(
            warn,
            self.repeats,
            &cause,
            peer = %peer.address,
            code = cause,
            error,
            "HTTPS request refused"
        );
        answer
    }
}

/// Lets a request pass that `access` allows, and gives its answer the headers of the API machinery's filters (HTTP-4).
pub(super) async fn check(
    State(access): State<Arc<Access>>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Answer {
    let (head, body) = request.into_parts();
    // Dropped at once, else bodies would fill up memory while their requests wait for a review.
    let body = match head.method {
        Method::PUT => body,
        _ => Body::empty(),
    };
    let mut answer = match access.allow(&head, &peer).await {
        Ok(()) => next.run(Request::from_parts(head, body)).await,
        Err(denial) => access.answer(&denial, &peer),
    };
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-cache, private"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The pattern without its leading slash and its trailing star, and whether it has one.
fn star(pattern: &str) -> (&str, bool) {
    let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
    let prefix = pattern.strip_suffix('*');
    (prefix.unwrap_or(pattern), prefix.is_some())
}

/// The client of the kubeconfig's user, else of the Pod's service account; `None` outside of a cluster.
async fn client(
    flag: &'static str,
    kubeconfig: Option<&PathBuf>,
    metrics: &ClientMetrics,
) -> Result<Option<Api>, String> {
    let refuse = |error| match error {
        SourceError::Kubeconfig { path, reason } => {
            format!("{flag} {}: {reason}", path.display())
        }
        error => format!("{flag}: {error}"),
    };
    let source = Source {
        kubeconfig: kubeconfig.cloned(),
        master: None,
    };
    let server = match source.load() {
        Err(SourceError::NotInCluster(_)) => return Ok(None),
        server => server.map_err(refuse)?,
    };
    let clients = Clients::new(server, metrics.clone()).await;
    let clients = clients.map_err(refuse)?;
    let api = Api::new(clients.build("delegated-access", BUDGET));
    Ok(Some(api))
}

const ANONYMOUS: &str = "system:anonymous";

/// A caller, as Kubernetes knows users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Caller {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl Caller {
    /// In the group of authenticated users.
    fn authenticated(mut self) -> Self {
        let group = "system:authenticated";
        if self.name != ANONYMOUS && !self.groups.iter().any(|own| own == group) {
            self.groups.push(group.into());
        }
        self
    }
}

/// The token of `Authorization: Bearer TOKEN`, if there is one.
fn bearer(request: &request::Parts) -> Option<&str> {
    let value = request.headers.get(header::AUTHORIZATION)?;
    let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
