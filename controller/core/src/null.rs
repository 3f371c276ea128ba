//! A `null` in the API's JSON counts as absent everywhere: one odd object must not end a watch. Nothing is written for an
//! absent field either.

use serde::{Deserialize, Deserializer};

/// For `#[serde(deserialize_with)]` beside `#[serde(default)]`.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// For `#[serde(skip_serializing_if)]`.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::is_default;

    #[test]
    fn only_a_default_is_left_out() {
        assert!(is_default(&"") && !is_default(&"x"));
    }
}
