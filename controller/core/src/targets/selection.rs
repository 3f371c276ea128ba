//! Which of the targets a Service selects, by its annotations.

use crate::{selector::Selector, string_map::StringMap};

/// Annotation with a label selector, as `kubectl get nodes -l` reads it: only Nodes that it selects are targets of the
/// Service's load balancer.
pub const ANNOTATION_NODE_SELECTOR: &str = "outrigger.dev/node-selector";

/// Requirements of a selector, each of which is looked at for each Node.
const MOST: usize = 16;

/// Bytes of a selector. Longer annotations of ours are not kept of a Service that is too large.
const LONGEST: usize = 1_024;

/// The selector in the annotations of a Service.
///
/// # Errors
/// A sentence for people that begins with the key of the annotation that is wrong.
pub fn node_selector(annotations: &StringMap) -> Result<Option<Selector>, String> {
    let Some(text) = annotations.get(ANNOTATION_NODE_SELECTOR) else {
        return Ok(None);
    };
    let wrong = |complaint: String| format!("{ANNOTATION_NODE_SELECTOR} {complaint}");
    if text.len() > LONGEST {
        let bytes = text.len();
        return Err(wrong(format!(
            "has {bytes} bytes; at most {LONGEST} are read"
        )));
    }
    let selector: Selector = text.parse().map_err(wrong)?;
    let requirements = selector.requirements();
    if requirements > MOST {
        let many = format!("has {requirements} requirements; at most {MOST} are read");
        return Err(wrong(many));
    }
    Ok(Some(selector))
}

/// Returns true if two Services with these annotations have other targets, or none that can be read.
pub fn selects_otherwise(a: &StringMap, b: &StringMap) -> bool {
    a.get(ANNOTATION_NODE_SELECTOR) != b.get(ANNOTATION_NODE_SELECTOR)
}

#[cfg(test)]
mod tests {
    use super::{ANNOTATION_NODE_SELECTOR, node_selector, selects_otherwise};
    use crate::fixture::map;

    #[test]
    fn what_is_selected() {
        assert_eq!(node_selector(&map(&[])), Ok(None));
        let annotations = map(&[(ANNOTATION_NODE_SELECTOR, "pool in (a, b),!gpu")]);
        let selector = node_selector(&annotations).unwrap().unwrap();
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
            (
                "pool in (a",
                "has \"pool in (a\", which is neither key in (values) nor key notin (values)",
            ),
            (&long, "has 1025 bytes; at most 1024 are read"),
            (&many, "has 17 requirements; at most 16 are read"),
        ] {
            let annotations = map(&[(ANNOTATION_NODE_SELECTOR, value)]);
            let error = node_selector(&annotations).err();
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
