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
            cause: "status.conditions[1].status: invalid type: map, expected a string".to_owned(),
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
