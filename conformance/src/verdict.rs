//! The end of a case before its last line.

use std::fmt;

use crate::call_error::CallError;

/// The result of a case: it passed, or why not.
pub type Verdict<T = ()> = Result<T, Stop>;

/// A rule that every error keeps, whichever call it came from.
pub type ErrorRule = fn(&CallError) -> Verdict;

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The provider did something else than the contract says.
    Failed(Failure),
    /// Nothing was seen that the case could judge: the reason.
    Skipped(String),
}

/// The difference between the contract and the provider.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// The answer that the contract asks for, and to which call.
    pub expected: String,
    /// The answer that came.
    pub came: String,
}

/// A failure.
pub fn failed(expected: impl fmt::Display, came: impl fmt::Display) -> Stop {
    Stop::Failed(Failure {
        expected: expected.to_string(),
        came: came.to_string(),
    })
}

/// Fails unless `holds`.
pub fn expect(holds: bool, expected: impl fmt::Display, came: impl fmt::Display) -> Verdict {
    if holds {
        Ok(())
    } else {
        Err(failed(expected, came))
    }
}

/// The case has nothing to judge, for this reason.
pub fn skipped(reason: impl Into<String>) -> Stop {
    Stop::Skipped(reason.into())
}

impl From<CallError> for Stop {
    fn from(error: CallError) -> Self {
        failed(format!("{} is answered", error.rpc), &error)
    }
}
