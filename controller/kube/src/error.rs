//! Errors between us and the API server, and their class.
//!
//! Every request ends in an [`ApiError`]; [`ApiError::class`] decides requeue, event and metric label, and
//! [`ApiError::requeue`] is the one exception for writes that the API server refuses. The text is for people; its
//! [cause](ApiError::cause), without the object, lets one log line stand for many objects.

use std::{error::Error, time::Duration};

use kube::{
    client::{AuthError, RustlsTlsError},
    core::Status,
};
use outrigger_core::error_class::{ErrorClass, KEY_WAIT, Requeue, SLOW};

use super::certificate::pem_fault;

/// A request to the API server failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// The API server answered with an error.
    #[error("{message} (HTTP {code} {reason})")]
    Status {
        /// HTTP status code.
        code: u16,
        /// `metav1.Status.reason`, for example `Conflict`.
        reason: String,
        /// Its message.
        message: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// No answer in time; whether a write happened is not known.
    #[error("the API server did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The request or its answer got lost; whether a write happened is not known.
    #[error("cannot talk to the API server: {0}")]
    Transport(String),
    /// Not sent: this process does not lead any more.
    #[error("not written: this process is not the leader any more")]
    Fenced,
    /// The API server, or a policy, does not take such content; its words. Repeating brings the same until an
    /// operator changes the rule.
    #[error("{0}")]
    Refused(String),
    /// The write does not fit the object as it is by now; in the words of the API server.
    #[error("{0}")]
    Outdated(String),
    /// Not sent: the API server is that of the cluster with this UID of `kube-system`.
    #[error("the API server is that of another cluster, {0}")]
    OtherCluster(String),
    /// An answer that is not what it should be.
    #[error("the API server's answer cannot be read: {0}")]
    Decode(String),
}

impl ApiError {
    /// From a `metav1.Status` object, as in the body of an answer, whose head may say when to ask again, or in a watch
    /// event.
    ///
    /// 422 stands for two things. A JSON Patch that does not apply, as when a `test` fails, has no causes: the
    /// object is another than was presumed. Validation and policies name what they do not take.
    pub(crate) fn from_status(status: &Status, retry_after: Option<Duration>) -> Self {
        let details = status.details.as_ref();
        if status.code == 422 && details.is_some_and(|details| !details.causes.is_empty()) {
            return Self::Refused(status.message.clone());
        }
        let seconds = details.map(|details| details.retry_after_seconds);
        let seconds = seconds.filter(|seconds| *seconds > 0);
        Self::Status {
            code: status.code,
            reason: status.reason.clone(),
            message: status.message.clone(),
            retry_after: seconds
                .map(|seconds| Duration::from_secs(seconds.into()))
                .or(retry_after),
        }
    }

    /// The HTTP status code, if the API server answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The object, or the namespace it would live in, is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// How long the API server takes no write, whatever the object, if that is why this one was not carried out. Nothing
    /// else of what led to the write has to be done again.
    pub(super) fn takes_nothing_for(&self) -> Option<Duration> {
        match self.class() {
            ErrorClass::RateLimited { retry_after } => {
                Some(KEY_WAIT.clamp(retry_after.unwrap_or_default()))
            }
            _ => None,
        }
    }

    /// A write may have failed since the object is not what the writer held: only a look at the object
    /// tells.
    pub(super) fn may_be_outdated(&self) -> bool {
        matches!(self, Self::Refused(_)) || self.class() == ErrorClass::Conflict
    }

    /// The API server refuses whoever this process is to it, whatever the object.
    pub(super) fn lacks_right(&self) -> bool {
        self.missing_right().is_some()
    }

    /// The error without the name of its object, so that errors of one cause have the same text.
    pub fn cause(&self) -> String {
        self.missing_right()
            .map_or_else(|| self.to_string(), str::to_owned)
    }

    /// `User "x" cannot patch resource "nodes" in API group "" at the cluster scope`; a 403 of another
    /// kind, such as an admission webhook's, concerns one object.
    fn missing_right(&self) -> Option<&str> {
        match self {
            Self::Status {
                code: 403, message, ..
            } => {
                let start = message.find("User \"")?;
                let right = message.get(start..)?;
                right.contains("\" cannot ").then_some(right)
            }
            _ => None,
        }
    }

    /// The subject that lacks a right, as kubectl's flag: `--user=x`.
    pub fn subject(&self) -> Option<String> {
        let user = self.missing_right()?.strip_prefix("User \"")?;
        let (user, _) = user.split_once('"')?;
        let account = user.strip_prefix("system:serviceaccount:");
        Some(account.map_or_else(
            || format!("--user={user}"),
            |account| format!("--serviceaccount={account}"),
        ))
    }

    /// When work that met this error in a write is done again.
    pub fn requeue(&self) -> Requeue {
        match self.class() {
            // The work may begin with a call of the provider: it backs off, and does not follow each Retry-After.
            ErrorClass::RateLimited { retry_after } => match retry_after {
                Some(after) if after > SLOW => Requeue::After(KEY_WAIT.clamp(after)),
                _ => Requeue::SlowBackOff,
            },
            // A write is planned again, and an operator grants rights and changes policies without a change of
            // the object.
            ErrorClass::Invalid | ErrorClass::Unauthenticated => Requeue::SlowBackOff,
            class => class.requeue(),
        }
    }

    /// Decides the requeue of the work that met this error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Status {
                code: 429,
                retry_after,
                ..
            } => ErrorClass::RateLimited {
                retry_after: *retry_after,
            },
            Self::Status {
                code: 409 | 422, ..
            }
            | Self::Outdated(_) => ErrorClass::Conflict,
            Self::Status { code: 401, .. } => ErrorClass::Unauthenticated,
            // Heals when rights are granted.
            Self::Status { code: 403, .. } => ErrorClass::Forbidden,
            Self::Status {
                code: 400 | 405 | 406 | 413 | 415,
                ..
            }
            | Self::Refused(_) => ErrorClass::Invalid,
            Self::Decode(_) => ErrorClass::Malformed,
            Self::Fenced | Self::OtherCluster(_) => ErrorClass::Unavailable,
            Self::Status { .. } | Self::Timeout(_) | Self::Transport(_) => ErrorClass::Transient,
        }
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(&status, None),
            kube::Error::SerdeError(error) => Self::Decode(error.to_string()),
            kube::Error::Service(error) => match error.downcast::<Self>() {
                Ok(own) => *own,
                Err(error) => {
                    let plugin = error.downcast_ref().map(plugin_fault);
                    Self::Transport(plugin.unwrap_or_else(|| chain(&*error)))
                }
            },
            other => Self::Transport(chain(&other)),
        }
    }
}

/// The error and its causes in one line, each of them once.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// kube's error about a login, without a word that a plugin prints or a line of a key.
pub(super) fn login_fault(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(error) => plugin_fault(error),
        kube::Error::RustlsTls(RustlsTlsError::InvalidIdentityPem(error)) => {
            format!("the client certificate or its key: {}", pem_fault(error))
        }
        other => chain(other),
    }
}

/// The error of a credential plugin, without a word of its output or its environment, which kube shows.
fn plugin_fault(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            let shown: String = stderr.trim().chars().take(300).collect();
            format!("the credential plugin failed ({}): {shown}", out.status)
        }
        AuthError::AuthExecParse(_) | AuthError::MalformedTokenExpirationDate(_) => {
            "the output of the credential plugin is no ExecCredential".to_owned()
        }
        other => chain(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, message: &str) -> ApiError {
        ApiError::Status {
            code,
            reason: String::new(),
            message: message.to_owned(),
            retry_after: None,
        }
    }

    /// The answers are those of kube-apiserver 1.36.
    #[test]
    fn a_patch_that_does_not_apply_is_a_conflict_and_a_refusal_is_none() {
        let of = |reason: &str, message: &str, details: serde_json::Value| {
            let status = serde_json::json!({
                "status": "Failure", "code": 422, "reason": reason, "message": message,
                "details": details,
            });
            ApiError::from_status(&serde_json::from_value(status).unwrap(), None)
        };
        let rejected = "the server rejected our request due to an error in our request";
        let failed_test = of("Invalid", rejected, serde_json::json!({}));
        assert_eq!(failed_test.class(), ErrorClass::Conflict);
        assert_eq!(failed_test.requeue(), Requeue::BackOff);

        let policy = "nodes \"n1\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied \
                      request: no changes on Friday";
        let taint = "Node \"n1\" is invalid: metadata.taints[2]: Duplicate value: {}";
        for (message, cause) in [
            (
                policy,
                serde_json::json!({"message": "ValidatingAdmissionPolicy 'p' …"}),
            ),
            (
                taint,
                serde_json::json!({
                    "reason": "FieldValueDuplicate", "message": "Duplicate value: {}",
                    "field": "metadata.taints[2]",
                }),
            ),
        ] {
            let details = serde_json::json!({"name": "n1", "kind": "nodes", "causes": [cause]});
            let refused = of("Invalid", message, details);
            assert_eq!(refused.class(), ErrorClass::Invalid, "{message}");
            assert_eq!(refused.requeue(), Requeue::SlowBackOff);
            assert_eq!(refused.to_string(), message);
        }
    }

    #[test]
    fn a_missing_right_has_the_same_cause_for_all_objects() {
        let right =
            "User \"u\" cannot patch resource \"nodes\" in API group \"\" at the cluster scope";
        for name in ["a", "b"] {
            let error = status(403, &format!("nodes \"{name}\" is forbidden: {right}"));
            assert_eq!(error.cause(), right);
            assert!(error.lacks_right());
            assert_eq!(error.requeue(), Requeue::SlowBackOff);
            assert_eq!(error.subject().as_deref(), Some("--user=u"));
        }
        let account = "User \"system:serviceaccount:a:b\" cannot get resource \"x\"";
        let subject = status(403, account).subject();
        assert_eq!(subject.as_deref(), Some("--serviceaccount=a:b"));
        for message in [
            "admission webhook \"x\" denied the request: no",
            "events \"a\" is forbidden: unable to create new content in namespace b because it is \
             being terminated",
        ] {
            let error = status(403, message);
            assert!(!error.lacks_right(), "{error}");
            assert!(error.cause().contains(message), "{error}");
        }
        assert_eq!(status(500, "").requeue(), Requeue::BackOff);
    }
}
