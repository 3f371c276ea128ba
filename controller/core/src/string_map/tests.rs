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

#[test]
fn with_writes_over_a_copy_and_without_takes_out_one_key() {
    let map: StringMap = [("a", "1"), ("c", "3")].into_iter().collect();
    let more = map.with([("b", "2"), ("c", "4")]);
    let entries: Vec<_> = more.iter().collect();
    assert_eq!(entries, [("a", "1"), ("b", "2"), ("c", "4")]);
    assert_eq!(map.len(), 2);

    assert_eq!(more.clone().without("z"), more);
    assert_eq!(more.bytes(), 6);
    let entries: Vec<_> = more.iter().filter(|(k, _)| *k != "b").collect();
    assert_eq!(more.clone().without("b"), entries.into_iter().collect());
}

#[test]
fn null_is_an_empty_map_and_an_empty_value() {
    let map: StringMap = serde_json::from_str("null").unwrap();
    assert!(map.is_empty());
    let map: StringMap = serde_json::from_str(r#"{"b": null, "a": "x"}"#).unwrap();
    let entries: Vec<_> = map.iter().collect();
    assert_eq!(entries, [("a", "x"), ("b", "")]);
}

#[test]
fn a_value_that_is_no_map_of_strings_is_an_error_and_no_panic() {
    for json in ["[]", "7", r#""a""#, r#"{"a": 1}"#] {
        assert!(serde_json::from_str::<StringMap>(json).is_err(), "{json}");
    }
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
