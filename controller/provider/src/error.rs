//! The results of a call, and their origin: whether it was sent, who made the error, and whether the cloud may have changed
//! all the same.
//!
//! Loops read [`Error::class`] and [`Error::leaves_result_unknown`], and no text. A text of the provider in it is cut and
//! escaped.

use std::{sync::Arc, time::Duration};

use outrigger_api::{code_name, v1::ErrorReason};
use outrigger_core::{effects::RawEffects, error_class::ErrorClass, fault::Fault, text};
use tonic::Code;

mod failure;
mod read;

/// A call that ends in the last tenth of its time met its deadline: an SDK answers shortly before it.
const SHORTLY: u32 = 10;

/// Prefix of the reasons' names in generated code.
const REASON_PREFIX: &str = "ERROR_REASON_";

/// Why a call to the provider, or the part of it that concerns one node or Service, did not succeed.
///
/// Cheap to clone: one failed batch answers many callers. Every text of the provider in it is cut
/// and escaped, fit for logs and events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no session, so nothing was sent.
    #[error("the provider cannot be asked: {reason}")]
    Unavailable {
        /// Why there is none.
        reason: Arc<str>,
    },
    /// Not sent: this process stops, or does not lead any more.
    #[error("{rpc}: not called, since this process stops or is not the leader any more")]
    Fenced {
        /// Name of the method.
        rpc: &'static str,
    },
    /// Not sent: it is not certain which cluster this is, and the call would change the cloud.
    #[error("not called, {why}")]
    Unidentified {
        /// State of the cluster's UID and the remedy, for people.
        why: Arc<str>,
    },
    /// Not sent: the object of the call has changed while the call waited.
    #[error("{rpc}: not called, since its object has changed while the call waited")]
    Outdated {
        /// Name of the method.
        rpc: &'static str,
    },
    /// Cancelled in flight: the time for calls in flight is over at the end of this process, or the lease
    /// is lost. The outcome is unknown.
    #[error("{rpc}: cancelled, since this process ends or is not the leader any more")]
    Cancelled {
        /// Name of the method.
        rpc: &'static str,
    },
    /// The deadline passed. The outcome is unknown.
    #[error("{rpc}: the provider did not answer within {after:?}")]
    Timeout {
        /// Name of the method.
        rpc: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// The connection broke, or the provider dropped the call. The outcome is unknown.
    #[error(
        "{rpc}: the provider broke off the call before it answered, or the connection to it was lost"
    )]
    ConnectionLost {
        /// Name of the method.
        rpc: &'static str,
    },
    /// A status that is not the provider's word: a library, a crash or a limit made it. The outcome
    /// is unknown.
    #[error("{rpc}: the provider failed without giving a reason ({}): {message}", code_name(*.code))]
    Unexplained {
        /// Name of the method.
        rpc: &'static str,
        /// Canonical code.
        code: Code,
        /// For people.
        message: Arc<str>,
        /// When to call again, if the status said so.
        retry_after: Option<Duration>,
    },
    /// The provider refused, with a reason.
    #[error("{}", refused(*.reason, .message))]
    Refused {
        /// Name of the method.
        rpc: &'static str,
        /// `Unspecified` for a reason that this minor of the contract does not have. It concerns its own key only, and
        /// the message quotes it.
        reason: ErrorReason,
        /// For people.
        message: Arc<str>,
        /// When to call again, if the provider said so.
        retry_after: Option<Duration>,
        /// Effects that it wants written to the object of the call, unchecked.
        effects: Option<Arc<RawEffects>>,
    },
    /// The answer breaks the contract. The result is unknown; never read as absence.
    #[error("{rpc}: the provider's answer breaks the contract: {what}")]
    Malformed {
        /// Name of the method.
        rpc: &'static str,
        /// How.
        what: Arc<str>,
    },
    /// The answer is larger than this side reads: one about fewer objects may not be. The result is unknown.
    #[error("{rpc}: the provider's answer breaks the contract: {what}")]
    ReplyTooLarge {
        /// Name of the method.
        rpc: &'static str,
        /// Its size and the limit.
        what: Arc<str>,
    },
    /// The request alone is larger than the largest message that the provider accepts.
    #[error(
        "{rpc}: {bytes} bytes are more than the {limit} that the provider accepts in one message; its nodes are sent once, in \
         parts, if it serves node sets"
    )]
    TooLarge {
        /// Name of the method.
        rpc: &'static str,
        /// Size of the encoded request.
        bytes: usize,
        /// Named by the provider at handshake.
        limit: usize,
    },
    /// The provider's answer about a load balancer is not legal in Kubernetes, or no answer to what
    /// was asked.
    #[error(transparent)]
    Unusable(Fault),
    /// The Service is wrong in itself; nothing was sent.
    #[error("{what}")]
    InvalidService {
        /// Reason of its condition.
        reason: &'static str,
        /// For people.
        what: Arc<str>,
    },
    /// The provider does not declare the capability that this method belongs to; nothing was sent.
    #[error("{rpc}: the provider does not offer this capability")]
    NotOffered {
        /// Name of the method.
        rpc: &'static str,
    },
    /// The provider answered UNIMPLEMENTED, or did so before on this connection.
    #[error(
        "{rpc}: the provider declares this capability but answers UNIMPLEMENTED; it must serve the \
         method, or not declare the capability"
    )]
    NotServed {
        /// Name of the method.
        rpc: &'static str,
    },
}

impl Error {
    /// An answer that breaks the contract. `what` may quote the provider.
    pub(super) fn malformed(rpc: &'static str, what: &str) -> Self {
        let what = text::message(what).into();
        Self::Malformed { rpc, what }
    }

    /// Decides requeue, event and metric label.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unavailable { .. } | Self::Fenced { .. } | Self::Cancelled { .. } => {
                ErrorClass::Unavailable
            }
            Self::Outdated { .. } => ErrorClass::Conflict,
            Self::Unidentified { .. } => ErrorClass::Forbidden,
            Self::Malformed { .. } | Self::ReplyTooLarge { .. } | Self::Unusable(_) => {
                ErrorClass::Malformed
            }
            Self::Timeout { .. } | Self::ConnectionLost { .. } => ErrorClass::Transient,
            Self::Unexplained {
                code, retry_after, ..
            } => match implied_by(*code) {
                None => ErrorClass::Transient,
                // Never final: the outcome of a change is unknown, and no object is known to be at fault.
                Some(ErrorReason::InvalidRequest) => ErrorClass::Malformed,
                Some(reason) => class_of(reason, *retry_after),
            },
            Self::Refused {
                reason,
                retry_after,
                ..
            } => class_of(*reason, *retry_after),
            Self::TooLarge { .. } | Self::InvalidService { .. } => ErrorClass::Invalid,
            Self::NotOffered { .. } | Self::NotServed { .. } => ErrorClass::Unimplemented,
        }
    }

    /// Returns true if the call may have changed the cloud although it failed.
    pub const fn leaves_result_unknown(&self) -> bool {
        matches!(
            self,
            Self::Cancelled { .. }
                | Self::Timeout { .. }
                | Self::ConnectionLost { .. }
                | Self::Unexplained { .. }
                | Self::Malformed { .. }
                | Self::ReplyTooLarge { .. }
                | Self::Unusable(_)
        )
    }

    /// Returns true if the call may have failed because of one of its objects, so that a call about fewer of them may
    /// succeed immediately.
    pub(super) fn is_about_request(&self) -> bool {
        match self {
            Self::Refused { .. } => self.class() == ErrorClass::Invalid,
            // A handler that fails for one object ends its call with any code.
            Self::Unexplained { code, .. } => {
                matches!(implied_by(*code), None | Some(ErrorReason::InvalidRequest))
            }
            Self::Malformed { .. } | Self::ReplyTooLarge { .. } | Self::TooLarge { .. } => true,
            _ => false,
        }
    }

    /// Returns true if a call about several objects failed in a way that says nothing about any of them.
    pub(super) const fn is_opaque(&self) -> bool {
        matches!(self, Self::Unexplained { code, .. } if implied_by(*code).is_none())
    }

    /// Returns true if there was no answer in time: an object that hangs may have kept the others from theirs.
    pub(super) fn is_no_answer(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            Self::Unexplained { code, .. } => is_cut_off(*code),
            _ => false,
        }
    }

    /// The same end of a call that took so long. One deadline ends a call in several ways: the provider's server
    /// cancels it, or resets its stream, or this side gives it up.
    pub(super) fn after(self, took: Duration, rpc: &'static str, deadline: Duration) -> Self {
        let is_end = match &self {
            Self::ConnectionLost { .. } => true,
            Self::Unexplained { code, .. } => is_cut_off(*code),
            _ => false,
        };
        if is_end && took + deadline / SHORTLY >= deadline {
            let after = deadline;
            return Self::Timeout { rpc, after };
        }
        self
    }

    /// The effects that the provider sent with the error, unchecked.
    pub(super) fn effects(&self) -> Option<&RawEffects> {
        match self {
            Self::Refused { effects, .. } => effects.as_deref(),
            _ => None,
        }
    }

    /// The reason of the contract that the provider gave, if it gave one.
    pub fn reason(&self) -> Option<ErrorReason> {
        match *self {
            Self::Refused { reason, .. } => {
                Some(reason).filter(|reason| *reason != ErrorReason::Unspecified)
            }
            _ => None,
        }
    }

    /// The reason for back-off and pauses, with the wait that was asked for: the provider's own, or the one that
    /// its code stands for.
    pub(super) fn effective_reason(&self) -> Option<(ErrorReason, Option<Duration>)> {
        let (reason, retry_after) = match *self {
            Self::Refused {
                reason,
                retry_after,
                ..
            } => (Some(reason), retry_after),
            Self::Unexplained {
                code, retry_after, ..
            } => (implied_by(code), retry_after),
            _ => (None, None),
        };
        reason.zip(Some(retry_after))
    }

    /// Returns true if the error of one item of a batch holds for the whole class of calls: the cloud limits
    /// the rate, or no item of the batch was answered.
    pub(super) fn speaks_for_all(&self, none_answered: bool) -> bool {
        use ErrorReason as R;
        match self.effective_reason().map(|(reason, _)| reason) {
            Some(R::RateLimited | R::Overloaded) => true,
            Some(R::CredentialsInvalid | R::CloudUnavailable) => none_answered,
            _ => false,
        }
    }
}

/// Returns true if a server that ends a call with `code`, or an SDK that ends one object of it so, had no time left.
pub(super) const fn is_cut_off(code: Code) -> bool {
    matches!(code, Code::Cancelled | Code::DeadlineExceeded)
}

/// The reason implied by a code that came without a reason. `None`: the code could mean anything.
const fn implied_by(code: Code) -> Option<ErrorReason> {
    match code {
        Code::ResourceExhausted => Some(ErrorReason::RateLimited),
        Code::Unavailable => Some(ErrorReason::CloudUnavailable),
        Code::Unauthenticated => Some(ErrorReason::CredentialsInvalid),
        Code::PermissionDenied => Some(ErrorReason::PermissionMissing),
        Code::InvalidArgument => Some(ErrorReason::InvalidRequest),
        _ => None,
    }
}

/// The text of a refusal. That of `CLOUD_ERROR` is the cloud's own and stands alone (S-36, S-43).
fn refused(reason: ErrorReason, message: &str) -> String {
    match reason {
        ErrorReason::CloudError | ErrorReason::Unspecified => message.to_owned(),
        reason => format!("{message} ({})", reason_name(reason)),
    }
}

fn class_of(reason: ErrorReason, retry_after: Option<Duration>) -> ErrorClass {
    use ErrorReason as R;
    match reason {
        // The method may be served for other objects; else the error is `NotServed`.
        R::Unspecified | R::CloudError | R::CapabilityDisabled => ErrorClass::Transient,
        R::InvalidRequest
        | R::InvalidAnnotation
        | R::UnsupportedProtocol
        | R::MalformedProviderId
        | R::UnsupportedFeature
        | R::ConflictingOptions
        | R::MalformedVolumeHandle => ErrorClass::Invalid,
        R::DependencyNotReady | R::ConflictingResource => ErrorClass::NotReady,
        R::NodeSetUnknown | R::Conflict => ErrorClass::Conflict,
        R::OperationInProgress => ErrorClass::InProgress { retry_after },
        R::RateLimited | R::Overloaded => ErrorClass::RateLimited { retry_after },
        R::QuotaExceeded => ErrorClass::Quota,
        R::CredentialsInvalid => ErrorClass::Unauthenticated,
        R::PermissionMissing => ErrorClass::Forbidden,
        R::NotHandshaked | R::VersionUnsupported | R::CloudUnavailable | R::ShuttingDown => {
            ErrorClass::Unavailable
        }
    }
}

/// The reason as it stands on the wire and in metrics.
pub(super) fn reason_name(reason: ErrorReason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix(REASON_PREFIX).unwrap_or(name)
}

#[cfg(test)]
mod tests;
