//! String maps in the least memory: most of what a node view holds is labels and annotations.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A read-only string map, sorted by key: 32 bytes an entry and no spare capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StringMap(Box<[(Box<str>, Box<str>)]>);

impl StringMap {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| &**value)
    }

    /// Whether `key` is there, with whatever value.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// All entries by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (&**k, &**v))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A copy with `changes` written over it.
    #[must_use]
    pub fn with<'a>(&self, changes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut entries = self.0.to_vec();
        for (key, value) in changes {
            match entries.binary_search_by(|(k, _)| (**k).cmp(key)) {
                Ok(at) => entries[at].1 = value.into(),
                Err(at) => entries.insert(at, (key.into(), value.into())),
            }
        }
        Self(entries.into_boxed_slice())
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for StringMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut entries: Vec<(Box<str>, Box<str>)> = entries
            .into_iter()
            .map(|(k, v)| (k.into(), v.into()))
            .collect();
        // Stable, so that of two equal keys the later one is the one that is kept.
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.reverse();
        entries.dedup_by(|a, b| a.0 == b.0);
        entries.reverse();
        Self(entries.into_boxed_slice())
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
                let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some(entry) = map.next_entry::<Box<str>, Box<str>>()? {
                    entries.push(entry);
                }
                Ok(entries.into_iter().collect())
            }
        }

        deserializer.deserialize_any(Entries)
    }
}
