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
mod cache;
mod caller;
mod client_ca;
mod counts;
mod from_flags;
mod headers;
mod look_up;
mod paths;
mod review;
mod rights;
mod tokens;

use http::{StatusCode, header, request};
use tokio::sync::watch;
use tracing::{error, warn};

pub use self::client_ca::ClientCa;
pub use self::counts::AccessMetrics;
use self::{
    anchors::Anchors, caller::Caller, look_up::CaState, review::ReviewError, rights::Rights,
    tokens::Tokens,
};
use super::{
    answer::{self, Answer},
    server::Peer,
};
use outrigger_kubernetes::certificate::validity;
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
        source: outrigger_kubernetes::client::SourceError,
    },
    /// A file with CAs, or a kubeconfig.
    #[error("{flag} {}: {reason}", path.display())]
    File {
        /// The flag with the path as its value.
        flag: &'static str,
        /// The file.
        path: std::path::PathBuf,
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
    /// `--authentication-tolerate-lookup-failure`.
    tolerant: bool,
    metrics: AccessMetrics,
    repeats: Repeats,
    cas: watch::Sender<CaState>,
}

impl Access {
    /// `None` if the request may go on, else what to answer.
    pub(super) async fn refuse(&self, request: &request::Parts, peer: &Peer) -> Option<Answer> {
        let path = request.uri.path();
        if *self.cas.borrow() == CaState::Pending {
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
