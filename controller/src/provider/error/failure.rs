//! An error as the service-lb loop writes it on a Service.

use outrigger_core::service::plan::Failure;

use super::{Error, reason_name, text};

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        match error {
            Error::Unusable(refusal) => Self::from(&**refusal),
            Error::SourceRanges(ranges) => Self::from(&**ranges),
            _ => Self {
                class: error.class(),
                reason: error
                    .reason()
                    .map(|reason| camel_case(reason_name(reason)))
                    .unwrap_or_default()
                    .into(),
                message: text::steady(&error.to_string()).into(),
            },
        }
    }
}

/// `QUOTA_EXCEEDED` as Kubernetes writes reasons: `QuotaExceeded`.
fn camel_case(name: &str) -> String {
    let words = name.split('_').filter_map(|word| word.split_at_checked(1));
    words
        .flat_map(|(first, rest)| [first.to_owned(), rest.to_ascii_lowercase()])
        .collect()
}
