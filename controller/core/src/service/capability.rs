//! The provider's declarations about load balancers in the handshake.
//!
//! The provider client makes a [`Capability`] for each session; the plans read which classes are served, which annotations
//! the provider reads, and which effects it may have. A change of it makes the loop look at every Service again.

use super::{
    ANNOTATION_RESYNC,
    options::{self, ServedOptions},
};
use crate::{
    effects::{AllowedEffects, begins, is_of_controller},
    targets::{ANNOTATION_NODE_SELECTOR, TargetRules},
};

/// Annotations that want another load balancer though the provider is not sent them.
const MOVING: [&str; 3] = [
    ANNOTATION_RESYNC,
    ANNOTATION_SOURCE_RANGES,
    ANNOTATION_NODE_SELECTOR,
];

/// Annotation with the source ranges, from before they had a field. It is read by the controller.
pub const ANNOTATION_SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Which Services a provider serves, and what of them it looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capability {
    /// `provider_name`.
    pub provider: Box<str>,
    /// `classes`.
    pub classes: Box<[Box<str>]>,
    /// `without_default_class`.
    pub without_default_class: bool,
    /// `configuration_revision`; empty: none.
    pub configuration_revision: Box<str>,
    /// `service_annotation_prefixes`: what the provider reads. Empty: all.
    pub reads: Box<[Box<str>]>,
    /// Writes to Services that the provider may ask for.
    pub effects: AllowedEffects,
    /// Its declarations about targets.
    pub targets: TargetRules,
    /// Options of a load balancer that it serves.
    pub options: ServedOptions,
}

impl Capability {
    /// Returns true if Services of this class, or without one, are served.
    pub fn serves(&self, class: Option<&str>) -> bool {
        match class {
            None => !self.without_default_class,
            Some(class) => self.classes.iter().any(|served| **served == *class),
        }
    }

    /// Returns true if the provider is sent the annotation `key`: it reads it, and it is neither ours nor
    /// kubectl's.
    pub fn reads(&self, key: &str) -> bool {
        (self.reads.is_empty() || begins(key, &self.reads)) && !is_of_controller(key)
    }

    /// Returns true if another value of the annotation `key` may want another load balancer. A provider's
    /// own annotations never do, or its writes would cause calls for ever.
    pub(super) fn is_moved_by(&self, key: &str) -> bool {
        MOVING.contains(&key)
            || key.starts_with(options::PREFIX)
            || (self.reads(key) && !begins(key, &self.effects.annotations))
    }
}

#[cfg(test)]
mod tests {
    use super::{ANNOTATION_SOURCE_RANGES, Capability};
    use crate::effects::AllowedEffects;

    #[test]
    fn the_classes_and_the_absence_of_one() {
        let mut capability = Capability {
            classes: ["example.com/fast".into()].into(),
            ..Capability::default()
        };
        assert!(capability.serves(None));
        assert!(capability.serves(Some("example.com/fast")));
        assert!(!capability.serves(Some("example.com/slow")) && !capability.serves(Some("")));
        capability.without_default_class = true;
        assert!(!capability.serves(None) && capability.serves(Some("example.com/fast")));
    }

    #[test]
    fn which_annotations_count() {
        let capability = Capability {
            reads: ["example.com/".into()].into(),
            effects: AllowedEffects {
                annotations: ["example.com/status-".into(), "out".into()].into(),
                ..AllowedEffects::default()
            },
            ..Capability::default()
        };
        for (key, reads, moves) in [
            ("example.com/flavour", true, true),
            ("example.com/status-id", true, false),
            ("other.example/flavour", false, false),
            ("outrigger.dev/resync", false, true),
            ("outrigger.dev/node-selector", false, true),
            ("outrigger.dev/load-balancer-hostname", false, true),
            ("outrigger.dev/load-balancer-typo", false, true),
            ("outrigger.dev/max-targets", false, false),
            ("outrigger.dev/paused", false, false),
            ("outrigger.dev/last-applied", false, false),
            (ANNOTATION_SOURCE_RANGES, false, true),
        ] {
            assert_eq!(capability.reads(key), reads, "{key}");
            assert_eq!(capability.is_moved_by(key), moves, "{key}");
        }
        let all = Capability::default();
        assert!(all.reads("anything") && all.is_moved_by("anything"));
        assert!(!all.reads("kubectl.kubernetes.io/last-applied-configuration"));
        assert!(!all.is_moved_by("outrigger.dev/last-applied"));
    }
}
