//! The memory of a store that users fill.

use std::collections::BTreeMap;

use outrigger_core::{
    csr::{CsrProblem, CsrView},
    service::{ServiceView, capability::Capability},
};

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
    assert!(!store.lacks_room());

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
fn of_a_service_beyond_the_cap_its_identity_is_kept_until_it_is_smaller() {
    let store = Store::<ServiceView>::default();
    for at in 0..100 {
        let large = service(&format!("s{at:04}"), 1, &[("read", 250 << 10)]);
        store.apply(large, Origin::List);
    }
    store.apply(service("small", 1, &[("read", 60 << 10)]), Origin::List);
    let kept = memory(&store);
    assert!((60 << 10..200 << 10).contains(&kept), "{kept}");
    let is_too_large = |name: &str| store.get(&format!("default/{name}")).unwrap().is_too_large;
    assert!(!is_too_large("small") && is_too_large("s0099"));
    store.apply(service("s0099", 2, &[("read", 60 << 10)]), Origin::Watch);
    assert!(!is_too_large("s0099"));
    // Only a list shows the rest of the others, which may be small without what is not read.
    let reads = |prefix: &str| {
        ReadAnnotations::of_services(&Capability {
            reads: [prefix.into()].into(),
            ..Capability::default()
        })
    };
    let mut views = store.views.write();
    assert!(views.keep_annotations(&reads("read")));
    views.retain(|key| key.ends_with("small"));
    assert!(!views.keep_annotations(&reads("read/more")));
}

fn csr(name: &str, requester: &str) -> CsrView {
    CsrView {
        uid: name.into(),
        name: name.into(),
        resource_version: "1".into(),
        created: None,
        requester: requester.into(),
        pending: Some(Err(CsrProblem::of("no_names", ""))),
    }
}

#[test]
fn of_one_requester_sixteen_pending_requests_are_kept() {
    let store = Store::<CsrView>::default();
    let apply = |name: &str, requester| store.apply(csr(name, requester), Origin::Watch);
    for at in 10..1_000 {
        apply(&at.to_string(), "eve");
    }
    assert_eq!(store.len(), 16);
    assert!(store.lacks_room());
    apply("of-a-kubelet", "system:node:n1");
    apply("10", "eve");
    assert_eq!(store.len(), 17, "others have room, and so has what is kept");
    store.apply(csr("10", "eve").decided("2"), Origin::Watch);
    assert_eq!(store.len(), 16);
    // A list shows again what was not kept.
    store.begin_list();
    assert!(!store.lacks_room());
    apply("999", "eve");
    assert!(store.len() == 17 && !store.lacks_room());
}
