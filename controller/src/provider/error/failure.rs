//! An error as the service-lb loop writes it on a Service.

use outrigger_core::service::{
    effects::{Effects, RawEffects},
    plan::Failure,
};

use super::{Error, reason_name, text};
use crate::provider::Session;

impl Error {
    /// The failure as a Service's plan sees it, with those of the provider's effects that `session`
    /// allows.
    pub fn failure(&self, session: Option<&Session>) -> Failure {
        match self {
            Self::Unusable(refusal) => Failure::from(&**refusal),
            Self::SourceRanges(ranges) => Failure::from(&**ranges),
            _ => Failure {
                class: self.class(),
                reason: self
                    .reason()
                    .map(|reason| camel_case(reason_name(reason)))
                    .unwrap_or_default()
                    .into(),
                message: text::steady(&self.to_owner()).into(),
                effects: self.allowed_effects(session).unwrap_or_default(),
            },
        }
    }

    /// Message for the owner of the Service: of a refusal the provider's own words, for the reason stands
    /// beside them in the condition.
    fn to_owner(&self) -> String {
        match self {
            Self::Refused { message, .. } => message.to_string(),
            error => error.to_string(),
        }
    }

    fn allowed_effects(&self, session: Option<&Session>) -> Option<Effects> {
        let (Self::Refused { effects, .. } | Self::UnknownReason { effects, .. }) = self else {
            return None;
        };
        let session = session?;
        let declared = session.load_balancers.as_ref()?;
        let effects = RawEffects::clone(effects.as_ref()?);
        Some(session.effects(effects, &declared.capability))
    }
}

/// `QUOTA_EXCEEDED` as Kubernetes writes reasons: `QuotaExceeded`.
fn camel_case(name: &str) -> String {
    let words = name.split('_').filter_map(|word| word.split_at_checked(1));
    words
        .flat_map(|(first, rest)| [first.to_owned(), rest.to_ascii_lowercase()])
        .collect()
}
