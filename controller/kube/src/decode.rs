//! Decodes the API server's JSON into Rust types; lists and watch events object by object.
//!
//! An object that cannot be decoded is reported by its key, with the field and the cause, and leaves
//! the rest of its list, and the watch, alone: every kubelet may write odd values about its own Node.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use super::error::ApiError;

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

/// An object of a list, or of a watch event.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<V> {
    /// It was decoded.
    Decoded(V),
    /// It cannot be decoded.
    Undecodable(Undecodable),
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectEvent<V> {
    /// The object as it is now: made or changed.
    Applied(Item<V>),
    /// The object as it was when it was deleted, with the resourceVersion of the deletion.
    Deleted(Item<V>),
    /// All changes up to this resourceVersion have been sent.
    Bookmark(String),
}

/// The readable part of an object that cannot be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undecodable {
    /// Name, or namespace/name; empty if the name cannot be read.
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
            Err(_) => Self::Undecodable(Undecodable::of::<V>(json)),
        }
    }
}

impl Undecodable {
    fn of<V: DeserializeOwned>(json: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        struct Object {
            metadata: Metadata,
        }

        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Metadata {
            name: Value,
            namespace: Value,
            uid: Value,
            resource_version: Value,
        }

        let Object { metadata } = serde_json::from_slice(json).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, namespace) = (text(&metadata.name), text(&metadata.namespace));
        Self {
            key: match &*namespace {
                "" => name,
                namespace => format!("{namespace}/{name}"),
            },
            uid: text(&metadata.uid),
            resource_version: text(&metadata.resource_version),
            cause: cause::<V>(json),
        }
    }
}

/// A whole answer.
pub(super) fn object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(json).map_err(|_| ApiError::Decode(cause::<T>(json)))
}

/// A line of a watch. An event of type `ERROR` is the error that it carries.
pub(super) fn event<V: DeserializeOwned>(line: &str) -> Result<ObjectEvent<V>, ApiError> {
    let Line { kind, object: json } = object(line.as_bytes())?;
    let json = json.get().as_bytes();
    match &*kind {
        "ADDED" | "MODIFIED" => Ok(ObjectEvent::Applied(Item::of(json))),
        "DELETED" => Ok(ObjectEvent::Deleted(Item::of(json))),
        "BOOKMARK" => {
            let Frame { metadata } = object(json)?;
            Ok(ObjectEvent::Bookmark(metadata.resource_version))
        }
        "ERROR" => Err(ApiError::from_status(&object(json)?, None)),
        _ => Err(ApiError::Decode(format!(
            "the watch event of type {kind:?} cannot be read"
        ))),
    }
}

/// A line of a watch whose object is decoded by itself.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// A list without its objects, or a bookmark.
#[derive(Deserialize)]
struct Frame {
    metadata: ListMeta,
}

/// The field, if there is one, and its defect. Decodes once more, with each step on record.
fn cause<'a, T: Deserialize<'a>>(json: &'a [u8]) -> String {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut reader) else {
        return "the object is followed by something else".to_owned();
    };
    let field = error.path().to_string();
    let text = error.into_inner().to_string();
    let text = text.rfind(" at line ").map_or(&*text, |end| &text[..end]);
    let cause = match &*field {
        "." => text.to_owned(),
        _ => format!("{field}: {text}"),
    };
    cause.chars().take(LONGEST_CAUSE).collect()
}
