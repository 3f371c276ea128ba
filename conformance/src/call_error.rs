//! An error as it came, whether it was meant or not.

use std::{fmt, time::Duration};

use outrigger_api::{ERROR_DOMAIN, RpcStatus, code_name, code_of, v1::ErrorReason};
use prost::Message as _;
use prost_types::Any;
use tonic::{Code, Status};
use tonic_types::pb;

/// How tonic begins its error about a message that it does not read.
const TOO_LARGE: &str = "Error, decoded message length too large";

/// The error of a call, or of one item of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The method, as in `EnsureLoadBalancer`.
    pub rpc: &'static str,
    /// The gRPC code.
    pub code: Code,
    /// The text for people.
    pub message: String,
    /// Domain and reason of each `google.rpc.ErrorInfo` among the details.
    pub infos: Vec<(String, String)>,
    /// `google.rpc.RetryInfo.retry_delay`.
    pub retry_after: Option<Duration>,
    /// Bytes of all details together.
    pub details_bytes: usize,
    /// It is about one item of a call that was answered.
    pub of_item: bool,
}

impl CallError {
    pub(crate) fn of_call(rpc: &'static str, status: &Status) -> Self {
        // OUT_OF_RANGE is tonic's own word here, and none of the provider's.
        let code = match status.code() {
            Code::OutOfRange if status.message().starts_with(TOO_LARGE) => Code::Unknown,
            code => code,
        };
        match RpcStatus::decode(status.details()) {
            Ok(details) => Self::of(rpc, code, status.message(), &details.details),
            // Bytes that are no google.rpc.Status count all the same.
            Err(_) => Self {
                details_bytes: status.details().len(),
                ..Self::of(rpc, code, status.message(), &[])
            },
        }
    }

    /// The error of one item.
    pub fn of_item(rpc: &'static str, status: &RpcStatus) -> Self {
        let code = Code::from(status.code);
        let error = Self::of(rpc, code, &status.message, &status.details);
        Self {
            of_item: true,
            ..error
        }
    }

    /// No answer came within the deadline and some time more.
    pub(crate) fn silence(rpc: &'static str, waited: Duration) -> Self {
        let text = format!("no answer within {waited:?}, though the request named its deadline");
        Self::of(rpc, Code::DeadlineExceeded, &text, &[])
    }

    fn of(rpc: &'static str, code: Code, message: &str, details: &[Any]) -> Self {
        let of_type = |name: &'static str| {
            let named = move |any: &&Any| any.type_url.rsplit('/').next() == Some(name);
            details.iter().filter(named)
        };
        let infos = of_type("google.rpc.ErrorInfo")
            .filter_map(|any| pb::ErrorInfo::decode(&*any.value).ok())
            .map(|info| (info.domain, info.reason));
        let retry_after = of_type("google.rpc.RetryInfo")
            .filter_map(|any| pb::RetryInfo::decode(&*any.value).ok())
            .find_map(|info| info.retry_delay?.try_into().ok());
        Self {
            rpc,
            code,
            message: message.to_owned(),
            infos: infos.collect(),
            retry_after,
            details_bytes: details.iter().map(Any::encoded_len).sum(),
            of_item: false,
        }
    }

    /// The reason of this contract, if the error is deliberate.
    pub fn reason(&self) -> Option<ErrorReason> {
        let mut infos = self.infos.iter();
        let (_, reason) = infos.find(|(domain, _)| domain == ERROR_DOMAIN)?;
        let reason = reason.strip_prefix("ERROR_REASON_").unwrap_or(reason);
        ErrorReason::from_str_name(&format!("ERROR_REASON_{reason}"))
    }

    /// It is deliberate and has this reason.
    pub fn is(&self, reason: ErrorReason) -> bool {
        self.reason() == Some(reason)
    }

    /// The code is the one that the contract has for the reason.
    pub fn has_code_of_its_reason(&self) -> bool {
        self.reason()
            .is_some_and(|reason| code_of(reason) == self.code)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.of_item { "an item of " } else { "" };
        write!(f, "{of}{}: {}", self.rpc, code_name(self.code))?;
        if self.infos.is_empty() {
            write!(f, ", no ErrorInfo")?;
        }
        for (domain, reason) in &self.infos {
            write!(f, ", {reason:?}")?;
            if domain != ERROR_DOMAIN {
                write!(f, " of the domain {domain:?}")?;
            }
        }
        write!(f, ": {:?}", self.message)
    }
}
