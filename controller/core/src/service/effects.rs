//! A provider's writes to the Service: checked, and limited to the prefixes that it declared.

use super::{capability::Capability, condition::Status, event::ServiceEvent};
use crate::{correlator::EventType, syntax, text};

/// Events in one answer.
pub const MAX_EVENTS: usize = 10;
/// Bytes of all annotations in one answer, keys and values.
pub const MAX_ANNOTATIONS: usize = 16 << 10;
/// Effects as they arrive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawEffects {
    /// Type, reason, message.
    pub events: Vec<(String, String, String)>,
    /// Key and value.
    pub set_annotations: Vec<(String, String)>,
    /// Keys.
    pub remove_annotations: Vec<String>,
    /// Type, status, reason, message.
    pub conditions: Vec<(String, String, String, String)>,
    /// Types.
    pub remove_conditions: Vec<String>,
}

/// Effects that may be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// To be sent.
    pub events: Vec<ServiceEvent>,
    /// Key and value; none removes the key.
    pub annotations: Vec<(Box<str>, Option<Box<str>>)>,
    /// Type, and what it becomes; none removes the type.
    pub conditions: Vec<(Box<str>, Option<DesiredCondition>)>,
    /// How much was left out: outside the declared prefixes, too much of it, or not legal in
    /// Kubernetes. To be counted and logged.
    pub dropped: usize,
}

/// The wanted condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredCondition {
    /// `status`.
    pub status: Status,
    /// `reason`, CamelCase.
    pub reason: Box<str>,
    /// `message`.
    pub message: Box<str>,
}

impl RawEffects {
    /// None of it may be written: no effects were declared at handshake.
    pub fn undeclared(self) -> Effects {
        Effects {
            dropped: self.events.len()
                + self.set_annotations.len()
                + self.remove_annotations.len()
                + self.conditions.len()
                + self.remove_conditions.len(),
            ..Effects::default()
        }
    }

    /// The effects that may be written. Never an error: what comes beside an answer does not spoil
    /// it.
    pub fn check(self, capability: &Capability) -> Effects {
        let mut effects = Effects::default();
        for (kind, reason, message) in self.events {
            let kind = match &*kind {
                "Normal" => Some(EventType::Normal),
                "Warning" => Some(EventType::Warning),
                _ => None,
            };
            if let Some(kind) = kind
                && syntax::reason(&reason).is_ok()
                && effects.events.len() < MAX_EVENTS
            {
                effects.events.push(ServiceEvent {
                    kind,
                    reason: reason.into(),
                    message: text::message(&message).into(),
                });
            } else {
                effects.dropped += 1;
            }
        }
        let mut room = MAX_ANNOTATIONS;
        let set = self.set_annotations.into_iter().map(|(k, v)| (k, Some(v)));
        let removed = self.remove_annotations.into_iter().map(|k| (k, None));
        for (key, value) in set.chain(removed) {
            let bytes = value.as_ref().map_or(0, |value| key.len() + value.len());
            let is_legal = capability.writes(&key) && syntax::label_key(&key).is_ok();
            if let Some(left) = room.checked_sub(bytes).filter(|_| is_legal) {
                room = left;
                effects
                    .annotations
                    .push((key.into(), value.map(Into::into)));
            } else {
                effects.dropped += 1;
            }
        }
        let is_settable =
            |kind: &str| capability.sets_condition(kind) && syntax::label_key(kind).is_ok();
        for (kind, status, reason, message) in self.conditions {
            let legal = is_settable(&kind) && syntax::reason(&reason).is_ok();
            match Status::parse(&status).filter(|_| legal) {
                Some(status) => effects.conditions.push((
                    kind.into(),
                    Some(DesiredCondition {
                        status,
                        reason: reason.into(),
                        message: text::message(&message).into(),
                    }),
                )),
                None => effects.dropped += 1,
            }
        }
        for kind in self.remove_conditions {
            if is_settable(&kind) {
                effects.conditions.push((kind.into(), None));
            } else {
                effects.dropped += 1;
            }
        }
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::{Effects, MAX_EVENTS, RawEffects};
    use crate::{correlator::EventType, fixture::capability};

    fn effects(raw: RawEffects) -> Effects {
        raw.check(&capability())
    }

    #[test]
    fn annotations_stay_within_the_declared_prefixes() {
        let set = |keys: &[&str]| keys.iter().map(|k| ((*k).into(), "v".into())).collect();
        let found = effects(RawEffects {
            set_annotations: set(&[
                "example.com/status-id",
                "example.com/flavour",
                "outrigger.dev/settled",
                "example.com/status-not legal",
            ]),
            remove_annotations: vec!["example.com/status-old".into(), "other.example/x".into()],
            ..RawEffects::default()
        });
        assert_eq!(
            found.annotations,
            [
                ("example.com/status-id".into(), Some("v".into())),
                ("example.com/status-old".into(), None),
            ]
        );
        assert_eq!(found.dropped, 4);
    }

    #[test]
    fn no_more_annotations_than_16_kib() {
        let large = |name: &str| (format!("example.com/status-{name}"), "v".repeat(10_000));
        let found = effects(RawEffects {
            set_annotations: vec![large("a"), large("b")],
            ..RawEffects::default()
        });
        assert_eq!((found.annotations.len(), found.dropped), (1, 1));
    }

    #[test]
    fn conditions_are_the_providers_own_and_legal() {
        let one = |kind: &str, status: &str, reason: &str| {
            (kind.into(), status.into(), reason.into(), "because".into())
        };
        let found = effects(RawEffects {
            conditions: vec![
                one("example.com/CertificateReady", "True", "Issued"),
                one("example.com/CertificateReady", "Yes", "Issued"),
                one("example.com/CertificateReady", "True", ""),
                one("outrigger.dev/Provisioned", "True", "Issued"),
                one("Ready", "True", "Issued"),
            ],
            remove_conditions: vec!["example.com/Old".into(), "outrigger.dev/Accepted".into()],
            ..RawEffects::default()
        });
        let kinds: Vec<_> = found
            .conditions
            .iter()
            .map(|(k, w)| (&**k, w.is_some()))
            .collect();
        let expected = [
            ("example.com/CertificateReady", true),
            ("example.com/Old", false),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(found.dropped, 5);
    }

    #[test]
    fn events_are_few_and_legal() {
        let event = |kind: &str, reason: &str| (kind.into(), reason.into(), "x".into());
        let mut events = vec![event("Error", "Quota"), event("Normal", "not CamelCase")];
        events.extend((0..=MAX_EVENTS).map(|_| event("Warning", "Quota")));
        let found = effects(RawEffects {
            events,
            ..RawEffects::default()
        });
        assert_eq!((found.events.len(), found.dropped), (MAX_EVENTS, 3));
        assert_eq!(found.events[0].kind, EventType::Warning);
    }
}
