//! Label selectors in Kubernetes' syntax, equality and sets: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
//!
//! Ours: kube-core matches selectors but does not read their text, and the one crate that does
//! (simple-selectors, of 2018) takes no key with a prefix.

use std::str::FromStr;

use crate::string_map::StringMap;

mod parse;

/// Requirements on labels. Has at least one requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Box<[Requirement]>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: Box<str>,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Exists,
    DoesNotExist,
    In(Box<[Box<str>]>),
    /// Holds without the label too.
    NotIn(Box<[Box<str>]>),
}

impl Selector {
    /// Keys of the labels that it looks at; one may come twice.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|requirement| &*requirement.key)
    }

    /// How many requirements it has.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns false: it has one at least.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if all requirements hold.
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            let is_one_of = |values: &[Box<str>]| {
                value.is_some_and(|value| values.iter().any(|one| **one == *value))
            };
            match &requirement.condition {
                Condition::Exists => value.is_some(),
                Condition::DoesNotExist => value.is_none(),
                Condition::In(values) => is_one_of(values),
                Condition::NotIn(values) => !is_one_of(values),
            }
        })
    }
}

impl FromStr for Selector {
    /// Why the text is no selector, in a sentence that follows the flag's name. Places count bytes from 1.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse::requirements(text).map(|requirements| Self(requirements.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::Selector;
    use crate::fixture::map;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        selector.parse::<Selector>().unwrap().matches(&map(labels))
    }

    #[test]
    fn equality_and_sets_select_as_in_kubernetes() {
        let node = [("pool", "blue"), ("example.com/rack", "7"), ("empty", "")];
        for (selector, expected) in [
            ("pool=blue", true),
            ("pool==blue", true),
            ("pool = blue", true),
            ("pool=red", false),
            ("pool!=red", true),
            ("pool!=blue", false),
            // Without the label it is not equal either.
            ("other!=red", true),
            ("other=red", false),
            ("other=", false),
            ("empty=", true),
            ("empty=,pool=blue", true),
            ("pool", true),
            ("other", false),
            ("!other", true),
            ("! other", true),
            ("!pool", false),
            ("pool in (red,blue)", true),
            ("pool in ( red , blue )", true),
            ("pool in(blue)", true),
            ("pool in (red)", false),
            ("pool notin (red)", true),
            ("pool notin (red,blue)", false),
            ("other notin (red)", true),
            ("other in (red)", false),
            ("empty in ()", true),
            ("empty in (,x)", true),
            ("pool in ()", false),
            ("example.com/rack=7,pool in (blue),!other", true),
            ("example.com/rack=7,pool in (red)", false),
            ("  pool=blue  ", true),
            // Words of the grammar are legal values.
            ("pool in (in,notin)", false),
            ("pool!=in", true),
        ] {
            assert_eq!(matches(selector, &node), expected, "{selector}");
        }
        assert!(matches("!pool", &[]));
    }

    #[test]
    fn invalid_selectors_are_explained_in_a_sentence() {
        for (selector, error) in [
            ("", "is empty, which would select everything"),
            ("  ", "is empty, which would select everything"),
            ("=a", r#"has "=" at 1, where a key or '!' should be"#),
            ("a,", r"has its end at 3, where a key or '!' should be"),
            (",a", r#"has "," at 1, where a key or '!' should be"#),
            ("a=b c=d", r#"has "c" at 5, where ',' or the end should be"#),
            (
                "a b",
                r#"has "b" at 3, where '=', '==', '!=', 'in', 'notin', ',' or the end should be"#,
            ),
            (
                "a(b)",
                r#"has "(" at 2, where '=', '==', '!=', 'in', 'notin', ',' or the end should be"#,
            ),
            (
                "a IN (b)",
                r#"has "IN" at 3, where '=', '==', '!=', 'in', 'notin', ',' or the end should be"#,
            ),
            ("a in b", r#"has "b" at 6, where '(' should be"#),
            ("a in (b", "has its end at 8, where ',' or ')' should be"),
            ("a in (b c)", r#"has "c" at 9, where ',' or ')' should be"#),
            ("a in ((b))", r#"has "(" at 7, where a value should be"#),
            ("a===b", r#"has "=" at 4, where a value should be"#),
            ("!!a", r#"has "!" at 2, where a key should be"#),
            ("!", "has its end at 2, where a key should be"),
            ("!a=b", r#"has "=" at 3, where ',' or the end should be"#),
            (
                "a>5",
                "has '>' at 2: only =, ==, !=, in, notin, a key alone and !key are supported",
            ),
            (
                "a in (b,<)",
                "has '<' at 9: only =, ==, !=, in, notin, a key alone and !key are supported",
            ),
            (
                "Bad.com/a=b",
                r#"has the key "Bad.com/a", which has a prefix that is no DNS subdomain of at most 253 bytes"#,
            ),
            (
                "a=-b",
                r#"has the value "-b", which is no label value: letters, digits, '-', '_' and '.', the first and last a letter or digit"#,
            ),
            (
                "a in (b/c)",
                r#"has the value "b/c", which is no label value: letters, digits, '-', '_' and '.', the first and last a letter or digit"#,
            ),
            (
                "ä",
                r#"has the key "ä", which is no label key: [prefix/]name with a name of at most 63 letters, digits, '-', '_' and '.', the first and last a letter or digit"#,
            ),
        ] {
            let refused = selector.parse::<Selector>().unwrap_err();
            assert_eq!(refused, error, "{selector}");
        }
    }

    proptest::proptest! {
        /// Whatever an operator types: an answer, and no panic.
        #[test]
        fn any_text_is_answered(text in "[a-z/ ,()=!<>ä\u{2003}-]{0,24}") {
            match text.parse::<Selector>() {
                Ok(selector) => {
                    selector.matches(&map(&[("a", "b")]));
                }
                Err(error) => proptest::prop_assert!(error.len() < 300),
            }
        }
    }
}
