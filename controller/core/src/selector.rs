//! Label selectors in Kubernetes' syntax, equality and sets: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
//!
//! Ours: kube-core matches selectors but does not read their text, and the one crate that does (simple-selectors, of 2018)
//! takes no key with a prefix. `--node-selector` and the annotation of a Service that selects its targets are read here; an
//! empty selector, which would select everything, is refused.
//!
//! ```
//! use outrigger_core::{selector::Selector, string_map::StringMap};
//!
//! let selector: Selector = "zone in (a, b),!spot".parse()?;
//! let labels: StringMap = [("zone", "a")].into_iter().collect();
//! assert!(selector.matches(&labels));
//! assert!("".parse::<Selector>().is_err());
//! # Ok::<(), String>(())
//! ```

use std::str::FromStr;

use crate::{string_map::StringMap, syntax};

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
    /// How many requirements it has.
    pub const fn requirements(&self) -> usize {
        self.0.len()
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
    /// Why the text is no selector, in a sentence that follows the flag's name.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            // To Kubernetes it selects everything, which is never the intent of a selector.
            return Err("is empty, which would select everything".to_owned());
        }
        // A comma between parentheses divides values.
        let mut is_in_set = false;
        let requirements = text.split(|c| {
            is_in_set = c == '(' || (is_in_set && c != ')');
            c == ',' && !is_in_set
        });
        let requirements = requirements.map(str::parse).collect::<Result<_, _>>();
        requirements.map(Self)
    }
}

impl FromStr for Requirement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (key, condition) = if let Some((key, set)) = text.split_once('(') {
            let (key, operator) = key
                .trim_end()
                .rsplit_once(char::is_whitespace)
                .unwrap_or_default();
            let values = set.strip_suffix(')').map(|values| values.split(','));
            match (operator, values) {
                ("in", Some(values)) => (key, Condition::In(checked(values)?)),
                ("notin", Some(values)) => (key, Condition::NotIn(checked(values)?)),
                _ => {
                    return Err(format!(
                        "has {text:?}, which is neither key in (values) nor key notin (values)"
                    ));
                }
            }
        } else if let Some((key, value)) = text.split_once("!=") {
            (key, Condition::NotIn(checked([value])?))
        } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            (key, Condition::In(checked([value])?))
        } else if let Some(key) = text.strip_prefix('!') {
            (key, Condition::DoesNotExist)
        } else {
            (text, Condition::Exists)
        };
        let key = key.trim();
        syntax::label_key(key)
            .map_err(|complaint| format!("has the key {key:?}, which {complaint}"))?;
        Ok(Self {
            key: key.into(),
            condition,
        })
    }
}

/// Values of a requirement. A missing value is the empty value: `a=` and `a in (,b)` are legal.
fn checked<'a>(values: impl IntoIterator<Item = &'a str>) -> Result<Box<[Box<str>]>, String> {
    let values = values.into_iter().map(str::trim).map(|value| {
        syntax::label_value(value)
            .map_err(|complaint| format!("has the value {value:?}, which {complaint}"))?;
        Ok(value.into())
    });
    values.collect()
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
        let set = "which is neither key in (values) nor key notin (values)";
        let key = "which is no label key: [prefix/]name with a name of at most 63 letters, digits, '-', '_' and \
                   '.', the first and last a letter or digit";
        let value = "which is no label value: letters, digits, '-', '_' and '.', the first and last a letter or digit";
        let prefix = "which has a prefix that is no DNS subdomain of at most 253 bytes";
        let empty = "is empty, which would select everything";
        for (selector, about, complaint) in [
            ("", "", empty),
            ("  ", "", empty),
            ("=a", r#"has the key "", "#, key),
            ("a,", r#"has the key "", "#, key),
            (",a", r#"has the key "", "#, key),
            ("a=b c=d", r#"has the value "b c=d", "#, value),
            ("a b", r#"has the key "a b", "#, key),
            ("a(b)", r#"has "a(b)", "#, set),
            ("a IN (b)", r#"has "a IN (b)", "#, set),
            ("in (b)", r#"has "in (b)", "#, set),
            ("a in (b", r#"has "a in (b", "#, set),
            ("a in b", r#"has the key "a in b", "#, key),
            ("a in (b c)", r#"has the value "b c", "#, value),
            ("a in ((b))", r#"has the value "(b)", "#, value),
            ("a===b", r#"has the value "=b", "#, value),
            ("!!a", r#"has the key "!a", "#, key),
            ("!", r#"has the key "", "#, key),
            ("!a=b", r#"has the key "!a", "#, key),
            ("a>5", r#"has the key "a>5", "#, key),
            ("Bad.com/a=b", r#"has the key "Bad.com/a", "#, prefix),
            ("a=-b", r#"has the value "-b", "#, value),
            ("a in (b/c)", r#"has the value "b/c", "#, value),
            ("ä", r#"has the key "ä", "#, key),
        ] {
            let refused = selector.parse::<Selector>().unwrap_err();
            assert_eq!(refused, format!("{about}{complaint}"), "{selector}");
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
