//! A `null` in the API's JSON counts as absent everywhere: one odd object must not end a watch.

use serde::{Deserialize, Deserializer};

/// For `#[serde(deserialize_with)]` beside `#[serde(default)]`.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
