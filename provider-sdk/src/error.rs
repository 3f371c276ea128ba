//! [`Error`]: why a call, or one item of a batch, failed; one constructor for each reason of the contract.
//!
//! A handler returns it, the server sends it as `google.rpc.Status` with the details of the contract (`wire`), and the
//! controller decides by the reason alone: whether it repeats the call, when, whether other calls pause, and whether the
//! object gets an event. So a vendor chooses a constructor, and never a gRPC code.

mod wire;

use std::fmt;
use std::time::Duration;

use outrigger_api::{code_of, v1};
use tonic::Code;

use crate::BoxError;

pub(crate) use wire::{cut, duration};

/// Why a call, or one item of a batch, failed.
///
/// The constructor decides what the controller does next; the text is for people and ends up in
/// events and logs, so it must contain no secrets. It names the event, the object and the remedy, and is cut to 1 KiB. An
/// instance, volume or load balancer that does not exist is no error: [`Outcome::absent`](crate::Outcome::absent),
/// [`answer::absent`](crate::answer::absent).
///
/// # Example
///
/// A cloud's own answers, put into the contract's words:
///
/// ```
/// use std::time::Duration;
/// use outrigger_provider_sdk::{Error, ErrorReason};
///
/// fn from_http(status: u16, text: &str) -> Error {
///     match status {
///         401 => Error::credentials_invalid(text),
///         403 => Error::permission_missing(text),
///         409 => Error::conflict(text),
///         429 => Error::rate_limited(Duration::from_secs(30)),
///         502..=504 => Error::cloud_unavailable(text),
///         _ => Error::cloud_error(text),
///     }
/// }
///
/// let error = from_http(429, "slow down");
/// assert_eq!(error.reason(), Some(ErrorReason::RateLimited));
/// assert_eq!(error.retry_after(), Some(Duration::from_secs(30)));
/// ```
#[derive(Debug)]
pub struct Error {
    code: Code,
    reason: Option<ErrorReason>,
    message: String,
    retry_after: Option<Duration>,
    effects: Option<Box<v1::KubernetesEffects>>,
    source: Option<BoxError>,
}

/// One constructor per reason: its documentation, name and [`ErrorReason`].
macro_rules! reasons {
    ($($(#[$doc:meta])+ $name:ident => $reason:ident;)+) => {
        impl Error {
            $(
                $(#[$doc])+
                pub fn $name(message: impl Into<String>) -> Self {
                    Self::with_reason(ErrorReason::$reason, message.into())
                }
            )+
        }

        /// The reason of an [`Error`], by which the controller decides.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorReason {
            /// See [`Error::rate_limited`].
            RateLimited,
            $(
                #[doc = concat!("See [`Error::", stringify!($name), "`].")]
                $reason,
            )+
        }

        impl ErrorReason {
            #[cfg(test)]
            const ALL: &[Self] = &[Self::RateLimited, $(Self::$reason,)+];

            fn into_wire(self) -> v1::ErrorReason {
                match self {
                    Self::RateLimited => v1::ErrorReason::RateLimited,
                    $(Self::$reason => v1::ErrorReason::$reason,)+
                }
            }
        }
    };
}

reasons! {
    /// The request breaks the contract, or lacks the cluster's UID that tags need. Not repeated unchanged.
    invalid_request => InvalidRequest;
    /// An annotation of the object has a bad value: name it and the legal ones. Shown on the
    /// object and not repeated until the object changes.
    invalid_annotation => InvalidAnnotation;
    /// The cloud cannot serve this protocol or port. Not repeated until the object changes.
    unsupported_protocol => UnsupportedProtocol;
    /// The cloud cannot serve something else that the object asks for, such as session affinity, IPv6,
    /// source ranges or `externalTrafficPolicy: Local`: name it. Also what Go's
    /// `cloudprovider.NotImplemented` means where it is about one object. Shown on the object and not
    /// repeated until it changes.
    unsupported_feature => UnsupportedFeature;
    /// An option of the load balancer, and an annotation of yours or another field of the Service, contradict
    /// each other: name both. Shown on the object and not repeated until it changes.
    conflicting_options => ConflictingOptions;
    /// The provider ID has this cloud's prefix but is none of its ids. Not repeated until the
    /// object changes.
    malformed_provider_id => MalformedProviderId;
    /// The source of a volume is of this cloud, but no volume of it could have that handle. Not
    /// repeated until the volume changes.
    malformed_volume_handle => MalformedVolumeHandle;
    /// Something else must happen first: name it. Repeated with back-off.
    dependency_not_ready => DependencyNotReady;
    /// A foreign cloud resource is in the way: name it. Repeated with back-off.
    conflicting_resource => ConflictingResource;
    /// The revision that the call names, or a name in it, is not known here; the controller sends the node set.
    node_set_unknown => NodeSetUnknown;
    /// No handshake since this process started. The server answers this by itself.
    not_handshaked => NotHandshaked;
    /// No minor revision in common. The server answers this by itself.
    version_unsupported => VersionUnsupported;
    /// The object is being worked on by another call. Repeated after 5 s, or after
    /// [`with_retry_after`](Self::with_retry_after).
    operation_in_progress => OperationInProgress;
    /// Lost an optimistic lock in the cloud. Repeated with back-off.
    conflict => Conflict;
    /// A limit of the account or of one object is reached: name it. Concerns this object only;
    /// repeated slowly. "Slow down" is [`rate_limited`](Self::rate_limited).
    quota_exceeded => QuotaExceeded;
    /// This process is full. The controller keeps fewer calls in flight.
    overloaded => Overloaded;
    /// The cloud refuses the credentials. All calls pause; the provider should report itself
    /// [`Degraded`](crate::v1::Readiness::Degraded).
    credentials_invalid => CredentialsInvalid;
    /// One cloud action is not allowed: name it, so that it can be granted.
    permission_missing => PermissionMissing;
    /// The cloud's API is down or out of reach. The class of calls backs off.
    cloud_unavailable => CloudUnavailable;
    /// This process is ending. The server answers this by itself.
    shutting_down => ShuttingDown;
    /// The method is not served at all, whatever the object; for one object it is
    /// [`unsupported_feature`](Self::unsupported_feature).
    capability_disabled => CapabilityDisabled;
    /// The cloud refused or failed this one object (a 422, a 500) for a reason that no other
    /// constructor names. The text is shown as it is, so pass on the cloud's. Concerns this object
    /// only; repeated with back-off. If the cloud fails every call:
    /// [`cloud_unavailable`](Self::cloud_unavailable).
    cloud_error => CloudError;
}

impl Error {
    /// The cloud limits the rate. The controller pauses every call of the same class for
    /// `retry_after`; zero is sent as one second, since a pause must be named.
    pub fn rate_limited(retry_after: Duration) -> Self {
        let retry_after = if retry_after.is_zero() {
            Duration::from_secs(1)
        } else {
            retry_after
        };
        Self::with_reason(
            ErrorReason::RateLimited,
            format!("the cloud's API limits the rate of calls; next call in {retry_after:?}"),
        )
        .with_retry_after(retry_after)
    }

    /// A bug, or an unforeseen failure. Sent as `INTERNAL` without a reason: the controller treats
    /// the outcome as unknown and repeats the call with back-off.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::plain(Code::Internal, message)
    }

    /// [`internal`](Self::internal) with the text of another error, which must contain no secrets:
    /// `.map_err(Error::unexpected)?`.
    pub fn unexpected(source: impl Into<BoxError>) -> Self {
        let source = source.into();
        let mut error = Self::internal(source.to_string());
        error.source = Some(source);
        error
    }

    /// The caller no longer waits; see [`Context::check`](crate::Context::check).
    pub fn cancelled() -> Self {
        Self::plain(Code::Cancelled, "the caller no longer waits for this call")
    }

    pub(crate) fn deadline_exceeded() -> Self {
        Self::plain(
            Code::DeadlineExceeded,
            "the deadline of the call passed before its answer",
        )
    }

    /// Replaces the text.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets the time to call again. The controller waits no less than 1 s, and no longer than the limit of the reason: 5 min
    /// for one object, an hour for the pause after [`rate_limited`](Self::rate_limited).
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// Events, annotations and conditions that the controller shall write in spite of the failure.
    /// Left out, with a warning in the log, where they would not fit into 4 KiB of details.
    #[must_use]
    pub fn with_effects(mut self, effects: impl Into<Option<v1::KubernetesEffects>>) -> Self {
        self.effects = effects.into().map(Box::new);
        self
    }

    /// Keeps the error behind this one for logs. It is not sent.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The reason on the wire; `None` for an error whose outcome is unknown, and for
    /// [`cancelled`](Self::cancelled).
    pub fn reason(&self) -> Option<ErrorReason> {
        self.reason
    }

    /// The gRPC code that goes with the reason.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// The text for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// When the controller shall call again, if that is set.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns whether other calls of the same class would fail alike, so that the controller pauses them.
    pub(crate) fn stops_the_class(&self) -> bool {
        matches!(
            self.reason,
            Some(
                ErrorReason::RateLimited
                    | ErrorReason::CredentialsInvalid
                    | ErrorReason::CloudUnavailable
            )
        )
    }

    /// The same failure of another item; effects and source stay with the first.
    pub(crate) fn again(&self) -> Self {
        Self {
            reason: self.reason,
            retry_after: self.retry_after,
            ..Self::plain(self.code, self.message.clone())
        }
    }

    fn with_reason(reason: ErrorReason, message: String) -> Self {
        let mut error = Self::plain(code_of(reason.into_wire()), message);
        error.reason = Some(reason);
        error
    }

    fn plain(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: None,
            message: message.into(),
            retry_after: None,
            effects: None,
            source: None,
        }
    }
}

impl ErrorReason {
    /// Its name on the wire, as in `reasons.txt` of the contract: `RATE_LIMITED`.
    pub fn as_str(self) -> &'static str {
        let name = self.into_wire().as_str_name();
        name.strip_prefix("ERROR_REASON_").unwrap_or(name)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests;
