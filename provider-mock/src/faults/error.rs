//! Errors that were set.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use outrigger_api::code_name;
use outrigger_api::v1::ErrorReason;
use outrigger_api::{ERROR_DOMAIN, RpcStatus, code_of};
use serde::{Deserialize, Serialize};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::duration;

/// `RetryInfo` of a `RATE_LIMITED` that names no time: the contract wants one.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// An error as it goes over the wire.
///
/// Nothing keeps it from breaking the contract: a reason that does not belong to its code, or none
/// at all, is what a caller has to survive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InjectedError {
    /// The gRPC code.
    pub code: Code,
    /// `ErrorInfo.reason`; absent: no `ErrorInfo`, so that it is not the provider's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For people; absent: a text of the mock's. May be empty, as the contract allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `RetryInfo`.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry_after: Option<Duration>,
}

impl InjectedError {
    /// The error that the contract means by this code; [`without_reason`](Self::without_reason) for
    /// codes that it has no reason for.
    pub fn new(code: tonic::Code) -> Self {
        let reason = default_reason(code).map(str::to_owned);
        let retry_after =
            (reason.as_deref() == Some("RATE_LIMITED")).then_some(DEFAULT_RETRY_AFTER);
        Self {
            code: Code(code),
            reason,
            message: None,
            retry_after,
        }
    }

    /// A deliberate one.
    pub fn of(reason: ErrorReason, message: &str) -> Self {
        let name = reason.as_str_name().trim_start_matches("ERROR_REASON_");
        Self::new(code_of(reason))
            .with_reason(name)
            .with_message(message)
    }

    /// With this reason.
    #[must_use]
    pub fn with_reason(self, reason: &str) -> Self {
        let retry_after = (reason == "RATE_LIMITED").then_some(DEFAULT_RETRY_AFTER);
        Self {
            reason: Some(reason.to_owned()),
            retry_after: self.retry_after.or(retry_after),
            ..self
        }
    }

    /// Without `ErrorInfo`, as a library or a crash makes it.
    #[must_use]
    pub fn without_reason(self) -> Self {
        Self {
            reason: None,
            retry_after: None,
            ..self
        }
    }

    /// Without `RetryInfo`, which the contract lets a provider leave out but with `RATE_LIMITED`.
    #[must_use]
    pub fn without_retry_info(self) -> Self {
        Self {
            retry_after: None,
            ..self
        }
    }

    /// With this message, which may be empty.
    #[must_use]
    pub fn with_message(self, message: &str) -> Self {
        Self {
            message: Some(message.to_owned()),
            ..self
        }
    }

    /// With `RetryInfo`.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> Self {
        Self {
            retry_after: Some(after),
            ..self
        }
    }

    /// The error of a whole call.
    pub fn to_status(&self) -> tonic::Status {
        let mut details = ErrorDetails::new();
        if let Some(reason) = &self.reason {
            details.set_error_info(reason, ERROR_DOMAIN, std::collections::HashMap::new());
        }
        if let Some(after) = self.retry_after {
            details.set_retry_info(Some(after));
        }
        let message = self.message.as_deref();
        let message = message.unwrap_or("injected with provider-mock ctl errors");
        tonic::Status::with_error_details(self.code.0, message, details)
    }

    /// The error of one item.
    pub fn to_item(&self) -> RpcStatus {
        let status = self.to_status();
        prost::Message::decode(status.details()).unwrap_or_else(|_| RpcStatus {
            code: status.code() as i32,
            message: status.message().to_owned(),
            details: Vec::new(),
        })
    }
}

/// The first reason that the contract lists under a code; `INTERNAL` is the code of a crash too, and has none.
fn default_reason(code: tonic::Code) -> Option<&'static str> {
    let mut reasons = (1..).map_while(|number| ErrorReason::try_from(number).ok());
    let reason = reasons.find(|reason| code_of(*reason) == code)?;
    let name = reason.as_str_name().strip_prefix("ERROR_REASON_");
    name.filter(|_| code != tonic::Code::Internal)
}

/// A gRPC status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub tonic::Code);

impl Code {
    /// Its name on paper: `UNAVAILABLE`.
    pub fn as_str(self) -> &'static str {
        code_name(self.0)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Code {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut codes = (0..=16).map(tonic::Code::from_i32);
        codes
            .find(|code| code_name(*code) == text)
            .map(Self)
            .ok_or_else(|| {
                format!(
                    "{text:?} is no gRPC code; use a name such as UNAVAILABLE or INVALID_ARGUMENT"
                )
            })
    }
}

serde_by_text!(Code);
