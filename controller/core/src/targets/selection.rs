//! Which of the targets a Service selects, by its annotations.

use crate::{selector::Selector, string_map::StringMap};

/// Annotation with a label selector, as `kubectl get nodes -l` reads it: only Nodes that it selects are targets of the
/// Service's load balancer.
pub const ANNOTATION_NODE_SELECTOR: &str = "outrigger.dev/node-selector";

/// Requirements of a selector, each of which is looked at for each Node.
const MOST: usize = 16;

/// Bytes of a selector. Longer annotations of ours are not kept of a Service that is too large.
const LONGEST: usize = 1_024;

/// Which of all targets a Service selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection<'a> {
    /// The value of [`ANNOTATION_NODE_SELECTOR`], and its meaning.
    pub selector: Option<(&'a str, Selector)>,
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
            let selector: Selector = text.parse()?;
            if selector.len() > MOST {
                return Err(format!(
                    "has {} requirements; at most {MOST} are read",
                    selector.len()
                ));
            }
            Ok((text, selector))
        };
        let selector = annotations.get(ANNOTATION_NODE_SELECTOR).map(selector);
        let selector = selector
            .transpose()
            .map_err(|complaint: String| format!("{ANNOTATION_NODE_SELECTOR} {complaint}"))?;
        Ok(Self { selector })
    }
}

/// Returns true if two Services with these annotations have other targets, or none that can be read.
pub fn selects_otherwise(a: &StringMap, b: &StringMap) -> bool {
    a.get(ANNOTATION_NODE_SELECTOR) != b.get(ANNOTATION_NODE_SELECTOR)
}

#[cfg(test)]
mod tests {
    use super::{ANNOTATION_NODE_SELECTOR, Selection, selects_otherwise};
    use crate::fixture::map;

    #[test]
    fn what_is_selected() {
        assert_eq!(Selection::of(&map(&[])), Ok(Selection::default()));
        let annotations = map(&[(ANNOTATION_NODE_SELECTOR, "pool in (a, b),!gpu")]);
        let selection = Selection::of(&annotations).unwrap();
        let (text, selector) = selection.selector.unwrap();
        assert_eq!(text, "pool in (a, b),!gpu");
        assert!(selector.matches(&map(&[("pool", "b")])));
        assert!(!selector.matches(&map(&[("pool", "b"), ("gpu", "")])));
    }

    #[test]
    fn wrong_values_are_named() {
        let long = "a,".repeat(512) + "a";
        let many = "a,".repeat(16) + "a";
        for (value, complaint) in [
            ("", "is empty, which would select everything"),
            ("pool=", ""),
            ("pool in a", "has \"a\" at 9, where '(' should be"),
            (&long, "has 1025 bytes; at most 1024 are read"),
            (&many, "has 17 requirements; at most 16 are read"),
        ] {
            let annotations = map(&[(ANNOTATION_NODE_SELECTOR, value)]);
            let error = Selection::of(&annotations).err();
            let expected =
                (!complaint.is_empty()).then(|| format!("{ANNOTATION_NODE_SELECTOR} {complaint}"));
            assert_eq!(error, expected, "{value}");
        }
    }

    #[test]
    fn another_selection() {
        let none = map(&[("example.com/a", "b")]);
        let some = map(&[(ANNOTATION_NODE_SELECTOR, "1")]);
        let other = map(&[(ANNOTATION_NODE_SELECTOR, "2")]);
        assert!(selects_otherwise(&none, &some) && selects_otherwise(&some, &other));
        let same = some.with([("example.com/a", "b")]);
        assert!(!selects_otherwise(&some, &same));
    }
}
