//! Requests on the control socket that are refused, and why.

use super::messages::Targets;
use http::StatusCode;

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

    pub(super) fn unknown(kind: &str, names: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            error: format!("there is no {kind} {names}; nothing was changed"),
        }
    }
}

/// The cloud refused.
impl<E: std::error::Error> From<E> for Refusal {
    fn from(refused: E) -> Self {
        Self {
            status: StatusCode::CONFLICT,
            error: refused.to_string(),
        }
    }
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

/// The objects that are meant; a name that is not known refuses them all.
pub(super) fn chosen<T>(
    kind: &str,
    targets: &Targets,
    all: impl FnOnce() -> Vec<T>,
    named: impl Fn(&str) -> Vec<T>,
) -> Result<Vec<T>, Refusal> {
    if targets.all {
        return Ok(all());
    }
    if targets.targets.is_empty() {
        let error = format!("no {kind} is named; name some, or all");
        return Err(Refusal::bad_request(error));
    }
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for target in &targets.targets {
        let meant = named(target);
        if meant.is_empty() {
            unknown.push(target.as_str());
        }
        found.extend(meant);
    }
    if unknown.is_empty() {
        return Ok(found);
    }
    Err(Refusal::unknown(kind, &unknown.join(", ")))
}
