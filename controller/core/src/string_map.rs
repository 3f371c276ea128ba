//! String maps in the least memory: most of what a view holds is labels and annotations.
//!
//! A map is read far more often than it is made, and never changed in place: each change makes a new one.

use std::{collections::BTreeMap, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A read-only string map: one text with all keys and values, sorted by key, and 8 bytes an entry
/// to find them. Two allocations whatever its size, so that a copy of a view is cheap too.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct StringMap {
    text: Box<str>,
    ends: Box<[Ends]>,
}

/// Where the key and the value of an entry end in the text; the key starts where the value before
/// it ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Ends {
    key: u32,
    value: u32,
}

impl StringMap {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter()
            .find_map(|(k, value)| (k == key).then_some(value))
    }

    /// Returns true if `key` is there, with whatever value.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All entries by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        (0..self.ends.len()).map(|at| self.entry(at))
    }

    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is none.
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys and values.
    pub const fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The same without `key`.
    #[must_use]
    pub fn without(self, key: &str) -> Self {
        if self.contains_key(key) {
            self.filtered(|k, _| k != key)
        } else {
            self
        }
    }

    /// A copy with the entries, key and value, that are to be kept.
    #[must_use]
    pub fn filtered(&self, keep: impl Fn(&str, &str) -> bool) -> Self {
        Self::packed(self.iter().filter(|(key, value)| keep(key, value)))
    }

    /// A copy with `changes` written over it.
    #[must_use]
    pub fn with<'a>(&'a self, changes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut entries: BTreeMap<&str, &str> = self.iter().collect();
        entries.extend(changes);
        Self::packed(entries)
    }

    /// A copy with `changes` made to it: key and value; none removes the key.
    #[must_use]
    pub fn changed(&self, changes: &[(Box<str>, Option<Box<str>>)]) -> Self {
        let mut entries: BTreeMap<&str, &str> = self.iter().collect();
        for (key, value) in changes {
            match value {
                Some(value) => entries.insert(key, value),
                None => entries.remove(&**key),
            };
        }
        Self::packed(entries)
    }

    fn entry(&self, at: usize) -> (&str, &str) {
        let start = match at.checked_sub(1).and_then(|before| self.ends.get(before)) {
            Some(before) => before.value as usize,
            None => 0,
        };
        let Some(ends) = self.ends.get(at) else {
            return ("", "");
        };
        let (key, value) = (ends.key as usize, ends.value as usize);
        let text = |range| self.text.get(range).unwrap_or_default();
        (text(start..key), text(key..value))
    }

    /// From entries that are sorted by key, no key twice.
    fn packed<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut text = String::new();
        let mut ends = Vec::new();
        // The API server stops objects far below 4 GiB.
        let place = |text: &str| u32::try_from(text.len()).unwrap_or(u32::MAX);
        for (key, value) in entries {
            text.push_str(key);
            let key = place(&text);
            text.push_str(value);
            let value = place(&text);
            ends.push(Ends { key, value });
        }
        Self {
            text: text.into(),
            ends: ends.into(),
        }
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for StringMap {
    /// If a key comes twice, its later entry is kept.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries: Vec<(K, V)> = entries.into_iter().collect();
        let sorted: BTreeMap<&str, &str> = entries
            .iter()
            .map(|(k, v)| (k.as_ref(), v.as_ref()))
            .collect();
        Self::packed(sorted)
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = StringMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_unit<E>(self) -> Result<StringMap, E> {
                Ok(StringMap::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringMap, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<Box<str>, Option<Box<str>>>()? {
                    entries.push((key, value.unwrap_or_default()));
                }
                Ok(entries.into_iter().collect())
            }
        }

        deserializer.deserialize_any(Entries)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};
    use serde_json::json;

    use super::StringMap;

    #[test]
    fn the_later_of_two_equal_keys_counts_and_order_does_not() {
        let map: StringMap = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
        let entries: Vec<_> = map.iter().collect();
        assert_eq!(entries, [("a", "2"), ("b", "3")]);
        assert_eq!(map, [("b", "3"), ("a", "2")].into_iter().collect());
        assert_eq!(map.get("b"), Some("3"));
        assert_eq!(map.get("c"), None);
    }

    #[test]
    fn null_is_an_empty_map_and_anything_else_is_refused() {
        let read = |value| serde_json::from_value::<StringMap>(value);
        assert_eq!(read(json!(null)).unwrap(), StringMap::default());
        let map = read(json!({"a": "1", "b": null})).unwrap();
        assert_eq!(format!("{map:?}"), r#"{"a": "1", "b": ""}"#);
        let error = read(json!(["a"])).unwrap_err().to_string();
        assert!(error.contains("expected a map of strings"), "{error}");
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_map_of_any_texts(
            entries in vec(("[a-c/]{0,2}|\\PC{0,3}", "\\PC{0,4}"), 0..12),
            changes in vec(("[a-c/]{0,2}", "\\PC{0,4}"), 0..4),
            gone in "[a-c/]{0,2}",
        ) {
            let mut model: BTreeMap<String, String> = entries.iter().cloned().collect();
            let map: StringMap = entries.into_iter().collect();
            prop_assert!(map.iter().eq(model.iter().map(|(k, v)| (&**k, &**v))));
            for (key, value) in &model {
                prop_assert_eq!(map.get(key), Some(&**value));
            }
            prop_assert_eq!(map.contains_key(&gone), model.contains_key(&gone));

            let map = map.with(changes.iter().map(|(k, v)| (&**k, &**v))).without(&gone);
            model.extend(changes);
            model.remove(&gone);
            prop_assert!(map.iter().eq(model.iter().map(|(k, v)| (&**k, &**v))));
            prop_assert_eq!(map.len(), model.len());
            let short = map.filtered(|key, value| key.len() + value.len() < 3);
            prop_assert!(short.iter().eq(map.iter().filter(|(k, v)| k.len() + v.len() < 3)));
            prop_assert_eq!(map, model.into_iter().collect());
        }
    }
}
