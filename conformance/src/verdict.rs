//! The end of a case before its last line.

use std::fmt;

use outrigger_api::v1::ErrorReason;

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

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(Failure { expected, actual }) => {
                write!(f, "{actual} (expected: {expected})")
            }
            Self::Skipped(reason) => f.write_str(reason),
        }
    }
}

/// The difference between the contract and the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The answer that the contract asks for, and to which call.
    pub expected: String,
    /// The answer of the provider.
    pub actual: String,
}

/// A failure.
pub fn failed(expected: impl fmt::Display, actual: impl fmt::Display) -> Stop {
    Stop::Failed(Failure {
        expected: expected.to_string(),
        actual: actual.to_string(),
    })
}

/// Fails unless `holds`.
pub fn expect(holds: bool, expected: impl fmt::Display, actual: impl fmt::Display) -> Verdict {
    if holds {
        Ok(())
    } else {
        Err(failed(expected, actual))
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

/// The answer to a call that must not be an error.
pub(crate) trait Required<T> {
    /// The answer; fails for an error, with the sentence that the contract asks for.
    fn required(self, expected: impl fmt::Display) -> Verdict<T>;
}

impl<T, E: fmt::Display> Required<T> for Result<T, E> {
    fn required(self, expected: impl fmt::Display) -> Verdict<T> {
        self.map_err(|error| failed(expected, error))
    }
}

/// Fails unless a call is answered with an error that has one of these reasons; `describe` names another answer.
pub(crate) fn refused<T>(
    answered: Result<T, CallError>,
    reasons: &[ErrorReason],
    expected: impl fmt::Display,
    describe: impl FnOnce(T) -> String,
) -> Verdict {
    match answered {
        Ok(answer) => Err(failed(expected, describe(answer))),
        Err(error) => {
            let is_meant = reasons.iter().any(|reason| error.is(*reason));
            expect(is_meant, expected, error)
        }
    }
}
