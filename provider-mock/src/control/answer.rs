//! The form of answers on the control socket.

use http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) error: String,
}

impl Refusal {
    pub(super) fn bad_request(error: String) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            error,
        }
    }
}

pub(super) type Answer = Result<Vec<u8>, Refusal>;

pub(super) fn json<T: Serialize>(value: &T) -> Answer {
    serde_json::to_vec(value).map_err(|error| Refusal {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        error: format!("the answer cannot be written: {error}"),
    })
}

pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("the request is wrong: {error}")))
}

/// Refuses control characters in text that terminals show.
pub(super) fn printable(text: &str) -> Result<(), Refusal> {
    if !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "{text:?} has control characters; use letters, digits and punctuation"
    )))
}
