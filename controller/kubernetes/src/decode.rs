//! The API server's JSON into Rust types, and lists and watch events object by object.
//!
//! One object that cannot be decoded is reported by its key, with the field and the cause, and leaves
//! the rest of its list, and the watch, alone: every kubelet may write odd values about its own Node.

use kube::core::WatchEvent;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::error::ApiError;

mod field;
mod list;

pub(super) use list::ListReader;

#[cfg(test)]
mod tests;

/// Longest cause that is reported, in characters: a cause may quote a value of any length.
const LONGEST_CAUSE: usize = 200;

/// `metadata` of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListMeta {
    /// The version that the list shows.
    pub resource_version: String,
    /// Token of the next page; empty on the last.
    pub r#continue: String,
}

/// One object of a list, or of a watch event.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<V> {
    /// It was decoded.
    Decoded(V),
    /// It cannot be decoded.
    Undecodable(Undecodable),
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectEvent<V> {
    /// The object as it is now: made or changed.
    Applied(Item<V>),
    /// The object as it was when it was deleted, with the resourceVersion of the deletion.
    Deleted(Item<V>),
    /// All changes up to this resourceVersion have been sent.
    Bookmark(String),
}

/// As much of an object as is known when it cannot be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undecodable {
    /// Name, or namespace/name; empty if there is no readable name.
    pub key: String,
    /// `metadata.uid`, if readable.
    pub uid: String,
    /// `metadata.resourceVersion`, if readable.
    pub resource_version: String,
    /// Field and cause, such as `metadata.deletionTimestamp: "soon" is no time`.
    pub cause: String,
}

impl<V: DeserializeOwned> Item<V> {
    pub(super) fn of(json: &[u8]) -> Self {
        match serde_json::from_slice(json) {
            Ok(view) => Self::Decoded(view),
            Err(error) => Self::Undecodable(Undecodable::of(json, &error)),
        }
    }
}

impl Undecodable {
    fn of(json: &[u8], error: &serde_json::Error) -> Self {
        #[derive(Default, Deserialize)]
        struct Object {
            metadata: Metadata,
        }

        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Metadata {
            name: Option<String>,
            namespace: Option<String>,
            uid: Option<String>,
            resource_version: Option<String>,
        }

        let Object { metadata } = serde_json::from_slice(json).unwrap_or_default();
        let name = metadata.name.unwrap_or_default();
        let namespace = metadata.namespace.filter(|namespace| !namespace.is_empty());
        Self {
            key: namespace.map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}")),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            cause: cause(json, error),
        }
    }
}

/// One whole answer.
pub(super) fn object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(json).map_err(|error| ApiError::Decode(cause(json, &error)))
}

/// One line of a watch. An event of type `ERROR` is the error that it carries.
pub(super) fn event<V: DeserializeOwned>(line: &str) -> Result<ObjectEvent<V>, ApiError> {
    Ok(match serde_json::from_str::<WatchEvent<V>>(line) {
        Ok(WatchEvent::Added(view) | WatchEvent::Modified(view)) => {
            ObjectEvent::Applied(Item::Decoded(view))
        }
        Ok(WatchEvent::Deleted(view)) => ObjectEvent::Deleted(Item::Decoded(view)),
        Ok(WatchEvent::Bookmark(mark)) => ObjectEvent::Bookmark(mark.metadata.resource_version),
        Ok(WatchEvent::Error(status)) => return Err(ApiError::from_status(&status)),
        Err(_) => {
            let Line { kind, object: json } = object(line.as_bytes())?;
            match &*kind {
                "ADDED" | "MODIFIED" => ObjectEvent::Applied(Item::of(json.get().as_bytes())),
                "DELETED" => ObjectEvent::Deleted(Item::of(json.get().as_bytes())),
                _ => {
                    return Err(ApiError::Decode(format!(
                        "the watch event of type {kind:?} cannot be read"
                    )));
                }
            }
        }
    })
}

/// A line of a watch whose object is decoded by itself.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The field, if it is known, and its defect.
fn cause(json: &[u8], error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rfind(" at line ").map_or(&*text, |end| &text[..end]);
    let field = match (error.line(), error.column()) {
        (1, column) => field::at(json, column),
        // The API server writes one line; others' answers have no fields that mean anything here.
        _ => String::new(),
    };
    let separator = if field.is_empty() { "" } else { ": " };
    let cause = field.chars().chain(separator.chars()).chain(text.chars());
    cause.take(LONGEST_CAUSE).collect()
}
