//! Which of the targets a Service selects, by its annotations.

use std::num::NonZeroUsize;

use crate::{selector::Selector, string_map::StringMap};

/// Annotation with a label selector, as `kubectl get nodes -l` reads it: only Nodes that it selects are targets of the
/// Service's load balancer.
pub const ANNOTATION_NODE_SELECTOR: &str = "outrigger.dev/node-selector";

/// Annotation with the number of targets, 1 at least, that the Service's load balancer has at most.
pub const ANNOTATION_MAX_TARGETS: &str = "outrigger.dev/max-targets";

/// Bytes of a selector. Longer annotations of ours are not kept of a Service that is too large.
const LONGEST: usize = 1_024;

/// Which of all targets a Service selects, and how many of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection<'a> {
    /// The value of [`ANNOTATION_NODE_SELECTOR`], and its meaning.
    pub selector: Option<(&'a str, Selector)>,
    /// The value of [`ANNOTATION_MAX_TARGETS`].
    pub most: Option<NonZeroUsize>,
}

impl<'a> Selection<'a> {
    /// The selection in the annotations of a Service.
    ///
    /// # Errors
    /// A sentence for people that begins with the key of the annotation that is wrong.
    pub fn of(annotations: &'a StringMap) -> Result<Self, String> {
        let selector = |text: &'a str| {
            if text.len() > LONGEST {
                return Err(format!(
                    "has {} bytes; at most {LONGEST} are read",
                    text.len()
                ));
            }
            Ok((text, text.parse()?))
        };
        let most = |text: &str| {
            text.parse().map_err(|_error| {
                let shown: String = text.chars().take(64).collect();
                format!("is {shown:?}; it must be a whole number, 1 at least")
            })
        };
        let wrong = |key, complaint: String| format!("{key} {complaint}");
        let selector = annotations.get(ANNOTATION_NODE_SELECTOR).map(selector);
        let most = annotations.get(ANNOTATION_MAX_TARGETS).map(most);
        Ok(Self {
            selector: selector
                .transpose()
                .map_err(|complaint| wrong(ANNOTATION_NODE_SELECTOR, complaint))?,
            most: most
                .transpose()
                .map_err(|complaint| wrong(ANNOTATION_MAX_TARGETS, complaint))?,
        })
    }
}

/// Returns true if two Services with these annotations have other targets, or none that can be read.
pub fn selects_otherwise(a: &StringMap, b: &StringMap) -> bool {
    [ANNOTATION_NODE_SELECTOR, ANNOTATION_MAX_TARGETS]
        .into_iter()
        .any(|key| a.get(key) != b.get(key))
}

#[cfg(test)]
mod tests {
    use super::{ANNOTATION_MAX_TARGETS, ANNOTATION_NODE_SELECTOR, Selection, selects_otherwise};
    use crate::fixture::map;

    #[test]
    fn what_is_selected() {
        assert_eq!(Selection::of(&map(&[])), Ok(Selection::default()));
        let annotations = map(&[
            (ANNOTATION_NODE_SELECTOR, "pool in (a, b),!gpu"),
            (ANNOTATION_MAX_TARGETS, "12"),
        ]);
        let selection = Selection::of(&annotations).unwrap();
        let (text, selector) = selection.selector.unwrap();
        assert_eq!(text, "pool in (a, b),!gpu");
        assert!(selector.matches(&map(&[("pool", "b")])));
        assert!(!selector.matches(&map(&[("pool", "b"), ("gpu", "")])));
        assert_eq!(selection.most.map(usize::from), Some(12));
    }

    #[test]
    fn wrong_values_are_named() {
        let long = "a,".repeat(512) + "a";
        for (key, value, complaint) in [
            (
                ANNOTATION_NODE_SELECTOR,
                "",
                "is empty, which would select everything",
            ),
            (ANNOTATION_NODE_SELECTOR, "pool=", ""),
            (
                ANNOTATION_NODE_SELECTOR,
                "pool in a",
                "has \"a\" at 9, where '(' should be",
            ),
            (
                ANNOTATION_NODE_SELECTOR,
                &long,
                "has 1025 bytes; at most 1024 are read",
            ),
            (
                ANNOTATION_MAX_TARGETS,
                "0",
                "is \"0\"; it must be a whole number, 1 at least",
            ),
            (
                ANNOTATION_MAX_TARGETS,
                "-1",
                "is \"-1\"; it must be a whole number, 1 at least",
            ),
            (
                ANNOTATION_MAX_TARGETS,
                "many",
                "is \"many\"; it must be a whole number, 1 at least",
            ),
        ] {
            let annotations = map(&[(key, value)]);
            let error = Selection::of(&annotations).err();
            let expected = (!complaint.is_empty()).then(|| format!("{key} {complaint}"));
            assert_eq!(error, expected, "{value}");
        }
    }

    #[test]
    fn another_selection() {
        let none = map(&[("example.com/a", "b")]);
        for key in [ANNOTATION_NODE_SELECTOR, ANNOTATION_MAX_TARGETS] {
            let some = map(&[(key, "1")]);
            assert!(
                selects_otherwise(&none, &some) && selects_otherwise(&some, &map(&[(key, "2")]))
            );
            assert!(!selects_otherwise(
                &some,
                &some.with([("example.com/a", "b")])
            ));
        }
    }
}
