//! gRPC status codes by the names that the contract uses.

use std::fmt;
use std::str::FromStr;

use outrigger_api::code_name;

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
