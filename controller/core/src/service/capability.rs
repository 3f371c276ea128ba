//! The provider's declarations about load balancers in the handshake.

use super::ANNOTATION_RESYNC;
use crate::node::ANNOTATION_LAST_APPLIED;

/// Annotation with the source ranges, from before they had a field. It is read by the controller.
pub const ANNOTATION_SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Prefix of all our annotations and conditions.
const OURS: &str = "outrigger.dev/";

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
    /// `volatile`: load balancers are lost with the provider's process.
    pub volatile: bool,
    /// `service_annotation_prefixes`: what the provider reads. Empty: all.
    pub reads: Box<[Box<str>]>,
    /// `EffectsCapability.service_annotation_prefixes`: what the provider has written for it.
    pub writes: Box<[Box<str>]>,
    /// `EffectsCapability.condition_type_prefixes`.
    pub conditions: Box<[Box<str>]>,
}

impl Capability {
    /// Whether Services of this class, or without one, are served.
    pub fn serves(&self, class: Option<&str>) -> bool {
        match class {
            None => !self.without_default_class,
            Some(class) => self.classes.iter().any(|served| **served == *class),
        }
    }

    /// Whether the provider is sent the annotation `key`: it reads it, and it is neither ours nor
    /// kubectl's.
    pub fn reads(&self, key: &str) -> bool {
        (self.reads.is_empty() || begins(key, &self.reads))
            && !key.starts_with(OURS)
            && key != ANNOTATION_LAST_APPLIED
    }

    /// Whether the provider may have the annotation `key` written.
    pub fn writes(&self, key: &str) -> bool {
        begins(key, &self.writes) && !key.starts_with(OURS) && key != ANNOTATION_LAST_APPLIED
    }

    /// Whether the provider may have conditions of the type `kind` set.
    pub fn sets_condition(&self, kind: &str) -> bool {
        begins(kind, &self.conditions) && !kind.starts_with(OURS)
    }

    /// Whether another value of the annotation `key` may want another load balancer. A provider's
    /// own annotations never do, or its writes would cause calls for ever.
    pub(super) fn is_moved_by(&self, key: &str) -> bool {
        key == ANNOTATION_RESYNC
            || key == ANNOTATION_SOURCE_RANGES
            || (self.reads(key) && !begins(key, &self.writes))
    }
}

fn begins(key: &str, prefixes: &[Box<str>]) -> bool {
    prefixes.iter().any(|prefix| key.starts_with(&**prefix))
}

#[cfg(test)]
mod tests {
    use super::{ANNOTATION_SOURCE_RANGES, Capability};

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
            writes: ["example.com/status-".into(), "out".into()].into(),
            ..Capability::default()
        };
        for (key, reads, writes, moves) in [
            ("example.com/flavour", true, false, true),
            ("example.com/status-id", true, true, false),
            ("other.example/flavour", false, false, false),
            ("outrigger.dev/resync", false, false, true),
            ("outrigger.dev/paused", false, false, false),
            ("outrigger.dev/settled", false, false, false),
            (ANNOTATION_SOURCE_RANGES, false, false, true),
        ] {
            assert_eq!(capability.reads(key), reads, "{key}");
            assert_eq!(capability.writes(key), writes, "{key}");
            assert_eq!(capability.is_moved_by(key), moves, "{key}");
        }
        let all = Capability::default();
        assert!(all.reads("anything") && all.is_moved_by("anything") && !all.writes("anything"));
        assert!(!all.reads("kubectl.kubernetes.io/last-applied-configuration"));
        assert!(!all.is_moved_by("outrigger.dev/settled"));
    }
}
