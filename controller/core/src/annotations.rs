//! Which annotations of objects are kept in memory: those that the controller or the provider reads.
//!
//! The stores of `outrigger-kube` call [`ReadAnnotations::keep`] with each object that they apply, since annotations may be
//! as large as the API server lets a user make them. Prefixes come from the provider's handshake; until that is known, and
//! for a provider that declares none, all annotations are kept. When the declarations change, [`ReadAnnotations::covers`]
//! says whether the objects in memory have all that is read now, or have to be listed once more. The annotations of this
//! controller are always kept, and kubectl's copy of the object never.

use crate::{
    effects::{begins, is_of_controller},
    node::{ANNOTATION_OF_KUBECTL, ANNOTATION_PROVIDED_NODE_IP},
    service::capability::{ANNOTATION_SOURCE_RANGES, Capability},
    string_map::StringMap,
};

/// In the place of a prefix in a handshake: all annotations.
pub const ALL: &str = "*";

/// The annotations of objects of one kind that are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadAnnotations {
    /// Prefixes that the provider declares. `None`: all annotations are read, also until its declarations are known.
    prefixes: Option<Box<[Box<str>]>>,
}

impl ReadAnnotations {
    /// Those of Services: what the provider reads, and what it may write, for only differences are written.
    pub fn of_services(capability: &Capability) -> Self {
        if capability.reads.is_empty() {
            return Self::default();
        }
        let prefixes = capability
            .reads
            .iter()
            .chain(&capability.effects.annotations);
        Self::under(prefixes)
    }

    /// Those of Nodes with the prefixes that the provider `reads` and `writes`.
    pub fn of_nodes(reads: &[Box<str>], writes: &[Box<str>]) -> Self {
        if reads.iter().any(|prefix| **prefix == *ALL) {
            return Self::default();
        }
        Self::under(reads.iter().chain(writes))
    }

    fn under<'a>(prefixes: impl Iterator<Item = &'a Box<str>>) -> Self {
        Self {
            prefixes: Some(prefixes.cloned().collect()),
        }
    }

    /// Returns true if every annotation that `other` keeps is kept.
    pub fn covers(&self, other: &Self) -> bool {
        match (&self.prefixes, &other.prefixes) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(ours), Some(theirs)) => theirs.iter().all(|prefix| begins(prefix, ours)),
        }
    }

    /// Returns true if the annotation `key` is read.
    fn has(&self, key: &str) -> bool {
        if key == ANNOTATION_OF_KUBECTL {
            return false;
        }
        let by_provider = |prefixes| begins(key, prefixes);
        self.prefixes.as_deref().is_none_or(by_provider)
            || is_of_controller(key)
            || [ANNOTATION_SOURCE_RANGES, ANNOTATION_PROVIDED_NODE_IP].contains(&key)
    }

    /// Takes the annotations out of `all` that are not read.
    pub fn keep(&self, all: &mut StringMap) {
        if all.iter().any(|(key, _)| !self.has(key)) {
            *all = all.filtered(|key, _| self.has(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::AllowedEffects;

    fn prefixes(of: &[&str]) -> Box<[Box<str>]> {
        of.iter().map(|prefix| Box::from(*prefix)).collect()
    }

    fn kept(read: &ReadAnnotations, keys: &[&str]) -> Vec<String> {
        let mut all: StringMap = keys.iter().map(|key| (*key, "x")).collect();
        read.keep(&mut all);
        all.iter().map(|(key, _)| key.to_owned()).collect()
    }

    #[test]
    fn annotations_that_are_not_read_are_dropped() {
        let capability = Capability {
            reads: prefixes(&["example.com/"]),
            effects: AllowedEffects {
                annotations: prefixes(&["status.example.com/"]),
                ..AllowedEffects::default()
            },
            ..Capability::default()
        };
        let keys = [
            "example.com/size",
            "junk",
            ANNOTATION_OF_KUBECTL,
            "outrigger.dev/paused",
            ANNOTATION_SOURCE_RANGES,
            "status.example.com/id",
        ];
        let read = [
            "example.com/size",
            "outrigger.dev/paused",
            ANNOTATION_SOURCE_RANGES,
            "status.example.com/id",
        ];
        let of_services = ReadAnnotations::of_services(&capability);
        assert_eq!(kept(&of_services, &keys), read);
        assert_eq!(kept(&of_services, &["junk"]), [""; 0]);
        // A provider that declares nothing reads all.
        let all = ReadAnnotations::of_services(&Capability::default());
        assert_eq!(kept(&all, &keys).len(), keys.len() - 1);

        let keys = ["a.example/x", "b.example/x", ANNOTATION_PROVIDED_NODE_IP];
        for (reads, kept_keys) in [
            (&[][..], &[ANNOTATION_PROVIDED_NODE_IP, "b.example/x"][..]),
            (
                &["a.example/"],
                &["a.example/x", ANNOTATION_PROVIDED_NODE_IP, "b.example/x"],
            ),
            (
                &[ALL],
                &["a.example/x", ANNOTATION_PROVIDED_NODE_IP, "b.example/x"],
            ),
        ] {
            let of_nodes = ReadAnnotations::of_nodes(&prefixes(reads), &prefixes(&["b.example/"]));
            let mut expected = kept_keys.to_vec();
            expected.sort_unstable();
            assert_eq!(kept(&of_nodes, &keys), expected, "{reads:?}");
        }
    }

    #[test]
    fn only_wider_prefixes_need_another_list() {
        let of = |reads: &[&str]| ReadAnnotations::of_nodes(&prefixes(reads), &[]);
        let all = ReadAnnotations::default();
        assert!(all.covers(&all) && all.covers(&of(&["a/"])) && of(&["a/"]).covers(&of(&["a/b"])));
        assert!(!of(&["a/"]).covers(&all) && !of(&["a/b"]).covers(&of(&["a/"])));
        assert!(of(&["a/"]).covers(&of(&[])) && !of(&[]).covers(&of(&["a/"])));
    }
}
