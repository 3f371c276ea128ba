//! Decodes the API server's JSON into Rust types; lists and watch events object by object.
//!
//! An object that cannot be decoded is reported by its key, with the field and the cause, and leaves
//! the rest of its list, and the watch, alone: every kubelet may write odd values about its own Node.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use super::error::ApiError;

mod list;

pub(super) use list::ListReader;

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
        let object: Value = serde_json::from_slice(json).unwrap_or_default();
        let text = |field| object["metadata"][field].as_str().unwrap_or_default();
        let (name, namespace) = (text("name"), text("namespace"));
        Self {
            key: match namespace {
                "" => name.to_owned(),
                namespace => format!("{namespace}/{name}"),
            },
            uid: text("uid").to_owned(),
            resource_version: text("resourceVersion").to_owned(),
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

#[cfg(test)]
mod tests {
    use outrigger_core::{node::NodeView, service::ServiceView};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The objects of a list, and where it stands.
    fn decoded<V: DeserializeOwned>(json: &Value) -> (Vec<Item<V>>, ListMeta) {
        let mut reader = ListReader::default();
        let mut items = Vec::new();
        reader.read(json.to_string().as_bytes(), |object| {
            items.push(Item::of(object));
        });
        (items, reader.end().unwrap())
    }

    fn undecodable<V>(item: &Item<V>) -> &Undecodable {
        match item {
            Item::Undecodable(object) => object,
            Item::Decoded(_) => panic!("it was decoded"),
        }
    }

    #[test]
    fn one_object_does_not_cost_the_list() {
        let (items, meta) = decoded::<NodeView>(
            &json!({"metadata": {"resourceVersion": "7"}, "items": [
                {"metadata": {"name": "a", "uid": "1"}},
                {"metadata": {"name": "b", "uid": "2", "resourceVersion": "6"}, "status": {"conditions": [
                    {"type": "A"}, {"type": "Ready", "status": {"not": "a word"}},
                ]}},
                {"metadata": {"name": "c", "uid": "3"}},
            ]}),
        );
        assert_eq!(meta.resource_version, "7");
        let names = items.iter().map(|item| match item {
            Item::Decoded(node) => &*node.name,
            Item::Undecodable(object) => &object.key,
        });
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(
            *undecodable(&items[1]),
            Undecodable {
                key: "b".to_owned(),
                uid: "2".to_owned(),
                resource_version: "6".to_owned(),
                cause: "status.conditions[1].status: invalid type: map, expected a string"
                    .to_owned(),
            }
        );
    }

    #[test]
    fn the_cause_names_the_field() {
        for (object, cause) in [
            (
                json!({"metadata": {"name": "a"}, "spec": 7}),
                "spec: invalid type: integer `7`",
            ),
            (
                json!({"metadata": {"uid": "1"}, "spec": {}}),
                "metadata: missing field `name`",
            ),
            (json!({"spec": {}}), "missing field `metadata`"),
            (
                json!({"metadata": {"name": "a", "annotations": {"a\"b": ["x"]}}}),
                "metadata.annotations",
            ),
            (
                json!({"metadata": {"name": "a", "deletionTimestamp": "soon"}}),
                "metadata.deletionTimestamp: \"soon\" is no time",
            ),
            (
                json!({"metadata": {"name": "a", "uid": {"x": "y".repeat(500)}}}),
                "metadata.uid: ",
            ),
        ] {
            let item: Item<NodeView> = Item::of(object.to_string().as_bytes());
            let full_cause = &undecodable(&item).cause;
            assert!(full_cause.starts_with(cause), "{full_cause}");
            assert!(full_cause.len() <= LONGEST_CAUSE, "{full_cause}");
        }
    }

    #[test]
    fn a_field_that_cannot_be_read_does_not_cost_the_others() {
        let json =
            json!({"metadata": {"name": "a", "namespace": "b", "uid": 7, "resourceVersion": "6"}});
        let item: Item<ServiceView> = Item::of(json.to_string().as_bytes());
        let object = undecodable(&item);
        assert_eq!((&*object.key, &*object.uid), ("b/a", ""));
        assert_eq!(object.resource_version, "6");
    }

    #[test]
    fn an_event_about_an_odd_object_is_an_event() {
        for kind in ["ADDED", "MODIFIED", "DELETED"] {
            let object = json!({"metadata": {"name": "a", "resourceVersion": "8"}, "spec": 7});
            // Whichever comes first.
            let line = match kind {
                "ADDED" => format!("{{\"type\":\"{kind}\",\"object\":{object}}}"),
                _ => format!("{{\"object\":{object},\"type\":\"{kind}\"}}"),
            };
            let item = match event::<NodeView>(&line).unwrap() {
                ObjectEvent::Applied(item) if kind != "DELETED" => item,
                ObjectEvent::Deleted(item) if kind == "DELETED" => item,
                other => panic!("{kind}: {other:?}"),
            };
            assert_eq!(undecodable(&item).resource_version, "8");
        }
        let error = event::<NodeView>(r#"{"type":"LATER","object":{}}"#).unwrap_err();
        assert!(error.to_string().contains("LATER"), "{error}");
    }

    prop_compose! {
        fn any_text()(text in "[a-zA-Z\"\\\\{}:,\\[\\]é-]{0,8}") -> String { text }
    }

    pub(super) fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any_text().prop_map(Value::from),
            Just("9999-12-31T23:59:59Z".into()),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((any_text(), inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }
}
