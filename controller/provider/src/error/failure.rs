//! An error as the service-lb loop writes it on a Service: without the ids of single requests, so that a failure that is
//! repeated reads the same and is one event.

use std::ops::Range;

use outrigger_core::{
    effects::Effects,
    service::{ServiceView, plan::Failure},
};

use super::{Error, reason_name};
use crate::Session;

impl Error {
    /// The failure as a Service's plan sees it, with those of the provider's effects on `service` that its session
    /// allows.
    pub fn failure(&self, on: Option<(&Session, &ServiceView)>) -> Failure {
        match self {
            Self::Unusable(fault) => Failure::from(fault),
            Self::InvalidService { reason, what } => Failure {
                class: self.class(),
                reason: (*reason).into(),
                message: (&**what).into(),
                effects: Effects::default(),
            },
            _ => Failure {
                class: self.class(),
                reason: self
                    .reason()
                    .map(|reason| camel_case(reason_name(reason)))
                    .unwrap_or_default()
                    .into(),
                message: self.steady().into(),
                effects: self.allowed_effects(on).unwrap_or_default(),
            },
        }
    }

    /// Message for the owner of the object: of a refusal the provider's own words, for the reason stands beside them in
    /// the condition. A failure that is repeated has the same.
    pub fn steady(&self) -> String {
        match self {
            Self::Refused { message, .. } => steady(message),
            error => steady(&error.to_string()),
        }
    }

    fn allowed_effects(&self, on: Option<(&Session, &ServiceView)>) -> Option<Effects> {
        let (session, service) = on?;
        let allowed = &session.load_balancers.as_ref()?.capability.effects;
        Some(session.effects(self.effects()?.clone(), allowed, &service.uid, service))
    }
}

/// `QUOTA_EXCEEDED` as Kubernetes writes reasons: `QuotaExceeded`.
fn camel_case(name: &str) -> String {
    let words = name.split('_').filter_map(|word| word.split_at_checked(1));
    words
        .flat_map(|(first, rest)| [first.to_owned(), rest.to_ascii_lowercase()])
        .collect()
}

/// `message` without the ids of single requests, which clouds put into their errors: what goes wrong
/// again must read the same, or each time is a new event and a new write.
fn steady(message: &str) -> String {
    const LABEL: &str = "request";
    let lower = message.to_ascii_lowercase();
    let mut shown = String::with_capacity(message.len());
    let mut kept = 0;
    for (at, _) in lower.match_indices(LABEL) {
        let label = at + LABEL.len();
        let Some(id) = request_id(&lower, label).filter(|_| at >= kept) else {
            continue;
        };
        shown.push_str(&message[kept..id.start]);
        shown.push('…');
        kept = id.end;
    }
    shown.push_str(&message[kept..]);
    shown
}

/// Where the id is after the word "request", if one follows: `ID: 4c6f…`, `_id=4c6f…`.
fn request_id(lower: &str, label: usize) -> Option<Range<usize>> {
    let rest = &lower[label..];
    let word = rest.strip_prefix(['-', '_', ' ']).unwrap_or(rest);
    let word = word.strip_prefix("id")?;
    let tail = word.trim_start_matches([':', '=', ' ', '"', '\'', '(', '[']);
    let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    let id = &tail[..end.unwrap_or(tail.len())];
    let is_id = id.len() >= 8 && id.bytes().any(|b| b.is_ascii_digit());
    let start = lower.len() - tail.len();
    (is_id && tail.len() < word.len()).then(|| start..start + id.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_failure_reads_the_same() {
        let check = |raw: &str, shown: &str| assert_eq!(steady(raw), shown);
        check(
            "StatusCode: 400, RequestID: 6d9e0c5e-1f2a-4a51-8e39-1b1e2f3a4b5c, TooManyTargets",
            "StatusCode: 400, RequestID: …, TooManyTargets",
        );
        check("no (Request-ID: req-0123abcd)", "no (Request-ID: …)");
        check("é x-request_id=0123456789 é", "é x-request_id=… é");
        check(
            "request id \"a1b2c3d4\" requestid:[9999888877]",
            "request id \"…\" requestid:[…]",
        );
        // Words that are no ID, and the cloud's names, stay.
        for same in [
            "the request is too large",
            "request id is missing",
            "request idle12345678",
            "load balancer 6d9e0c5e-1f2a-4a51-8e39-1b1e2f3a4b5c is locked",
            "request",
            "requestid",
            "",
        ] {
            check(same, same);
        }
    }
}
