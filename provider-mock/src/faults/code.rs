//! gRPC status codes by the names that the contract uses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const NAMES: [(tonic::Code, &str); 17] = [
    (tonic::Code::Ok, "OK"),
    (tonic::Code::Cancelled, "CANCELLED"),
    (tonic::Code::Unknown, "UNKNOWN"),
    (tonic::Code::InvalidArgument, "INVALID_ARGUMENT"),
    (tonic::Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
    (tonic::Code::NotFound, "NOT_FOUND"),
    (tonic::Code::AlreadyExists, "ALREADY_EXISTS"),
    (tonic::Code::PermissionDenied, "PERMISSION_DENIED"),
    (tonic::Code::ResourceExhausted, "RESOURCE_EXHAUSTED"),
    (tonic::Code::FailedPrecondition, "FAILED_PRECONDITION"),
    (tonic::Code::Aborted, "ABORTED"),
    (tonic::Code::OutOfRange, "OUT_OF_RANGE"),
    (tonic::Code::Unimplemented, "UNIMPLEMENTED"),
    (tonic::Code::Internal, "INTERNAL"),
    (tonic::Code::Unavailable, "UNAVAILABLE"),
    (tonic::Code::DataLoss, "DATA_LOSS"),
    (tonic::Code::Unauthenticated, "UNAUTHENTICATED"),
];

/// A gRPC status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub struct Code(pub tonic::Code);

impl Code {
    /// Its name on paper: `UNAVAILABLE`.
    pub fn as_str(self) -> &'static str {
        NAMES
            .iter()
            .find(|(code, _)| *code == self.0)
            .map_or("UNKNOWN", |(_, name)| name)
    }
}

impl From<Code> for &'static str {
    fn from(code: Code) -> Self {
        code.as_str()
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
        NAMES
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(code, _)| Self(*code))
            .ok_or_else(|| {
                format!(
                    "{text:?} is no gRPC code; use a name such as UNAVAILABLE or INVALID_ARGUMENT"
                )
            })
    }
}

impl TryFrom<String> for Code {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
