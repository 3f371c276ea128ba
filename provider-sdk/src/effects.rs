//! Events, annotations and conditions beside an answer.

use std::collections::BTreeMap;

use outrigger_api::v1;

use crate::setters::setters;

/// Events, annotations and conditions that the controller shall write to the object of a call: the Service
/// of a load balancer, the Node of a lookup or of a route.
///
/// Only what [`EffectsCapability`] declares and the operator of the controller grants is written; the rest is reported in the
/// controller's log and by an event on the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effects {
    /// At most 10; an event equal to an earlier one is folded.
    pub events: Vec<Event>,
    /// Annotations to write; 16 KiB together.
    pub set_annotations: BTreeMap<String, String>,
    /// Keys of annotations to remove.
    pub remove_annotations: Vec<String>,
    /// Conditions to set, by type.
    pub conditions: Vec<Condition>,
    /// Types of conditions to remove.
    pub remove_conditions: Vec<String>,
}

/// An event of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// A warning, or normal.
    pub is_warning: bool,
    /// CamelCase, at most 128 bytes.
    pub reason: String,
    /// For people, at most 1,024 bytes. Without changing parts (times, counters), or equal events cannot
    /// be folded.
    pub message: String,
}

/// A condition of a Service or a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// Its type, a qualified name: `vendor.example/CertificateReady`.
    pub kind: String,
    /// `True` or `False`; `None` is Unknown.
    pub status: Option<bool>,
    /// CamelCase, not empty.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// The effects that [`Effects`] may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectsCapability {
    /// Prefixes of Service annotations. A change under them causes no call.
    pub service_annotation_prefixes: Vec<String>,
    /// Prefixes of Node annotations.
    pub node_annotation_prefixes: Vec<String>,
    /// Prefixes of condition types, of Services and of Nodes.
    pub condition_type_prefixes: Vec<String>,
}

setters! { Effects {
    with_events => events: Vec<Event>,
    with_set_annotations => set_annotations: BTreeMap<String, String>,
    with_remove_annotations => remove_annotations: Vec<String>,
    with_conditions => conditions: Vec<Condition>,
    with_remove_conditions => remove_conditions: Vec<String>,
} }

setters! { EffectsCapability {
    with_service_annotation_prefixes => service_annotation_prefixes: Vec<String>,
    with_node_annotation_prefixes => node_annotation_prefixes: Vec<String>,
    with_condition_type_prefixes => condition_type_prefixes: Vec<String>,
} }

impl Event {
    /// An event of type Normal.
    pub fn normal(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            is_warning: false,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// An event of type Warning.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            is_warning: true,
            ..Self::normal(reason, message)
        }
    }

    fn into_wire(self) -> v1::KubernetesEvent {
        let kind = if self.is_warning { "Warning" } else { "Normal" };
        v1::KubernetesEvent {
            r#type: kind.to_owned(),
            reason: self.reason,
            message: self.message,
        }
    }
}

impl Condition {
    /// A condition of this type; a `status` of `None` is Unknown.
    pub fn new(
        kind: impl Into<String>,
        status: impl Into<Option<bool>>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
        }
    }

    fn into_wire(self) -> v1::Condition {
        let status = match self.status {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        v1::Condition {
            r#type: self.kind,
            status: status.to_owned(),
            reason: self.reason,
            message: self.message,
        }
    }
}

impl Effects {
    pub(crate) fn into_wire(self) -> v1::KubernetesEffects {
        v1::KubernetesEffects {
            events: self.events.into_iter().map(Event::into_wire).collect(),
            set_annotations: self.set_annotations.into_iter().collect(),
            remove_annotations: self.remove_annotations,
            conditions: self
                .conditions
                .into_iter()
                .map(Condition::into_wire)
                .collect(),
            remove_conditions: self.remove_conditions,
        }
    }
}

impl EffectsCapability {
    pub(crate) fn to_wire(&self) -> v1::EffectsCapability {
        v1::EffectsCapability {
            service_annotation_prefixes: self.service_annotation_prefixes.clone(),
            node_annotation_prefixes: self.node_annotation_prefixes.clone(),
            condition_type_prefixes: self.condition_type_prefixes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_sent() {
        let effects = Effects::default()
            .with_events([Event::normal("Made", "a"), Event::warning("Broke", "b")])
            .with_set_annotations([("x.test/k".to_owned(), "v".to_owned())])
            .with_remove_annotations(["x.test/old".to_owned()])
            .with_conditions([
                Condition::new("x.test/A", true, "R", "m"),
                Condition::new("x.test/B", false, "R", "m"),
                Condition::new("x.test/C", None, "R", "m"),
            ])
            .with_remove_conditions(["x.test/D".to_owned()]);
        let wire = effects.into_wire();
        let events: Vec<_> = wire
            .events
            .iter()
            .map(|event| [&*event.r#type, &*event.reason, &*event.message])
            .collect();
        assert_eq!(events, [["Normal", "Made", "a"], ["Warning", "Broke", "b"]]);
        assert_eq!(wire.set_annotations["x.test/k"], "v");
        assert_eq!(wire.remove_annotations, ["x.test/old"]);
        let conditions: Vec<_> = wire
            .conditions
            .iter()
            .map(|one| [&*one.r#type, &*one.status, &*one.reason, &*one.message])
            .collect();
        assert_eq!(
            conditions,
            [
                ["x.test/A", "True", "R", "m"],
                ["x.test/B", "False", "R", "m"],
                ["x.test/C", "Unknown", "R", "m"]
            ]
        );
        assert_eq!(wire.remove_conditions, ["x.test/D"]);
    }
}
