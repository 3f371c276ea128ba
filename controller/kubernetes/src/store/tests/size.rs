//! The memory of a store that users fill.

use std::collections::BTreeMap;

use outrigger_core::service::{ServiceView, capability::Capability};

use super::*;

/// A Service of type `LoadBalancer` with annotations of so many bytes each.
fn service(name: &str, version: u64, annotations: &[(&str, usize)]) -> ServiceView {
    let annotations = annotations
        .iter()
        .map(|(key, bytes)| (*key, "x".repeat(*bytes)));
    let annotations: BTreeMap<_, _> = annotations.collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "annotations": annotations,
            "resourceVersion": version.to_string(),
        },
        "spec": {"type": "LoadBalancer"},
    }))
    .unwrap()
}

fn memory(store: &Store<ServiceView>) -> usize {
    store.all().iter().map(|service| service.bytes()).sum()
}

#[test]
fn annotations_that_are_not_read_take_no_memory_and_change_nothing() {
    let store = Store::<ServiceView>::default();
    store.keep_annotations(&ReadAnnotations::of_services(&Capability {
        reads: ["example.com/".into()].into(),
        ..Capability::default()
    }));
    for at in 0..1_000 {
        let annotations = [("junk", 250 << 10), ("example.com/a", 10)];
        store.apply(service(&format!("s{at}"), 1, &annotations), Origin::List);
    }
    let kept = memory(&store);
    assert!(kept < 1 << 20, "{kept}");
    assert_eq!(store.shed(), (0, false));

    // Read beside the watch.
    let held = store.get("default/s0").unwrap();
    let read = service("s0", 2, &[("junk", 5), ("example.com/a", 10)]);
    store.refresh(&Arc::new(read));
    let same = ServiceView {
        resource_version: "2".into(),
        ..(*held).clone()
    };
    assert_eq!(*store.get("default/s0").unwrap(), same);
}

#[test]
fn large_views_share_a_bound_and_small_ones_are_always_kept() {
    let store = Store::<ServiceView>::default();
    for at in 0..1_000 {
        let large = service(&format!("s{at:04}"), 1, &[("read", 250 << 10)]);
        store.apply(large, Origin::List);
        let small = service(&format!("t{at:04}"), 1, &[("read", 100)]);
        store.apply(small, Origin::List);
    }
    let kept = memory(&store);
    assert!((60 << 20..66 << 20).contains(&kept), "{kept}");
    let shed = |name: &str| store.get(&format!("default/{name}")).unwrap().shed.clone();
    assert!(shed("s0000").is_none() && shed("t0999").is_none());
    assert_eq!(shed("s0999").unwrap().field, "metadata.annotations");
    let (count, has_room) = store.shed();
    assert!(count > 700 && !has_room, "{count}");

    // Half of the large ones go: a list would show others whole.
    for at in 0..200 {
        store.delete(&format!("default/s{at:04}"), Origin::Watch);
    }
    assert!(store.shed().1);
    store.apply(service("s0999", 1, &[("read", 250 << 10)]), Origin::List);
    assert!(shed("s0999").is_none());
    store.finish_list(|_| false);
    assert_eq!((store.shed(), memory(&store)), ((0, false), 0));
}
