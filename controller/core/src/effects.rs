//! A provider's writes to the object of a call, a Service or a Node: checked, and limited to the prefixes
//! that it declared.

use crate::{
    condition::Status,
    correlator::{EventContent, EventType},
    node::{ANNOTATION_LAST_APPLIED, labels},
    syntax, text,
};

/// Events in one answer.
pub const MAX_EVENTS: usize = 10;
/// Bytes of all annotations in one answer, keys and values.
pub const MAX_ANNOTATIONS: usize = 16 << 10;

/// Prefix of all our annotations and conditions.
const OURS: &str = "outrigger.dev/";

/// Writes to the objects of one kind that a provider may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedEffects {
    /// `EffectsCapability.service_annotation_prefixes` or `node_annotation_prefixes`.
    pub annotations: Box<[Box<str>]>,
    /// `EffectsCapability.condition_type_prefixes`.
    pub conditions: Box<[Box<str>]>,
    /// Whether they are Nodes: their annotations under `kubernetes.io` are Kubernetes' own, and so are
    /// conditions without a domain.
    pub is_on_nodes: bool,
}

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
    pub events: Vec<EventContent>,
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

impl AllowedEffects {
    /// Whether the annotation `key` may be written.
    fn has_annotation(&self, key: &str) -> bool {
        begins(key, &self.annotations)
            && !is_of_controller(key)
            && !(self.is_on_nodes && labels::is_reserved(key))
            && syntax::label_key(key).is_ok()
    }

    /// Whether conditions of the type `kind` may be set.
    fn has_condition(&self, kind: &str) -> bool {
        begins(kind, &self.conditions)
            && !is_of_controller(kind)
            && !labels::is_reserved(kind)
            && (kind.contains('/') || !self.is_on_nodes)
            && syntax::label_key(kind).is_ok()
    }
}

impl Effects {
    /// Whether there is nothing to write and nothing to send.
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty() && self.annotations.is_empty() && self.conditions.is_empty()
    }
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
    pub fn check(self, allowed: &AllowedEffects) -> Effects {
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
                effects.events.push(EventContent {
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
            let is_allowed = allowed.has_annotation(&key);
            if let Some(left) = room.checked_sub(bytes).filter(|_| is_allowed) {
                room = left;
                effects
                    .annotations
                    .push((key.into(), value.map(Into::into)));
            } else {
                effects.dropped += 1;
            }
        }
        for (kind, status, reason, message) in self.conditions {
            let is_legal = allowed.has_condition(&kind) && syntax::reason(&reason).is_ok();
            match Status::parse(&status).filter(|_| is_legal) {
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
            if allowed.has_condition(&kind) {
                effects.conditions.push((kind.into(), None));
            } else {
                effects.dropped += 1;
            }
        }
        effects
    }
}

/// Whether only the controller, or kubectl, writes under `key`.
pub(crate) fn is_of_controller(key: &str) -> bool {
    key.starts_with(OURS) || key == ANNOTATION_LAST_APPLIED
}

/// Whether `key` has one of the prefixes.
pub(crate) fn begins(key: &str, prefixes: &[Box<str>]) -> bool {
    prefixes.iter().any(|prefix| key.starts_with(&**prefix))
}

#[cfg(test)]
mod tests {
    use super::{AllowedEffects, Effects, MAX_EVENTS, RawEffects};
    use crate::{correlator::EventType, fixture::capability};

    fn effects(raw: RawEffects) -> Effects {
        raw.check(&capability().effects)
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

    /// A prefix without a slash grows into any domain that begins so.
    #[test]
    fn a_node_keeps_the_annotations_and_conditions_of_kubernetes() {
        let prefixes: Box<[Box<str>]> = ["example.com/".into(), "node".into(), "Net".into()].into();
        let allowed = AllowedEffects {
            annotations: prefixes.clone(),
            conditions: prefixes,
            is_on_nodes: true,
        };
        let condition = |kind: &str| (kind.into(), "True".into(), "R".into(), String::new());
        let found = RawEffects {
            set_annotations: [
                "example.com/a",
                "node.kubernetes.io/a",
                "node.k8s.io/a",
                "node-a",
            ]
            .map(|key| (key.to_owned(), "v".to_owned()))
            .into(),
            conditions: vec![
                condition("example.com/A"),
                condition("node.kubernetes.io/A"),
                condition("NetworkUnavailable"),
            ],
            remove_conditions: vec!["NetworkUnavailable".into()],
            ..RawEffects::default()
        }
        .check(&allowed);
        let keys: Vec<_> = found.annotations.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["example.com/a", "node-a"]);
        let kinds: Vec<_> = found.conditions.iter().map(|(kind, _)| &**kind).collect();
        assert_eq!(kinds, ["example.com/A"]);
        assert_eq!(found.dropped, 5);
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
