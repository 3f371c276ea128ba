//! The memory of a store that users fill.

use std::{collections::BTreeMap, sync::atomic::AtomicUsize};

use outrigger_core::{
    csr::{CsrProblem, CsrView, ServingRequest, SubjectName},
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
    let shed = |name: &str| store.get(&format!("default/{name}")).unwrap().shed.clone();
    assert!(shed("small").is_none());
    assert_eq!(shed("s0099").unwrap().field, "metadata.annotations");
    store.apply(service("s0099", 2, &[("read", 60 << 10)]), Origin::Watch);
    assert!(shed("s0099").is_none());
    // Only a list shows the rest of those that are shed, which may be small without what is not read.
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

/// A request with as many and as long names as one can have, or of a client that is no kubelet.
fn csr(name: String, is_of_kubelet: bool) -> CsrView {
    let request = || ServingRequest {
        node: "n1".into(),
        names: (0..64)
            .map(|at| SubjectName::Dns(format!("{at:0140}").into()))
            .collect(),
    };
    CsrView {
        uid: name.as_str().into(),
        name: name.into(),
        resource_version: "1".into(),
        created: None,
        pending: Some(is_of_kubelet.then(request).ok_or(CsrProblem::NoNames)),
    }
}

#[test]
fn requests_for_certificates_share_a_bound_and_leave_a_part_to_kubelets() {
    let store = Store::<CsrView>::default();
    let added = Arc::new(AtomicUsize::default());
    let counted = Arc::clone(&added);
    store.subscribe(move |change: &Change<'_, CsrView>, _| {
        if matches!(change, Change::Added(_)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let bytes = || store.all().iter().map(|csr| csr.bytes()).sum::<usize>();
    for at in 0..50_000 {
        store.apply(csr(format!("stranger-{at:06}"), false), Origin::Watch);
    }
    let strangers = store.len();
    assert!((10_000..20_000).contains(&strangers), "{strangers}");
    assert!(store.lacks_room() && !store.has_room());
    for at in 0..5_000 {
        store.apply(csr(format!("kubelet-{at:06}"), true), Origin::Watch);
    }
    let kubelets = store.len() - strangers;
    assert!((600..1_000).contains(&kubelets), "{kubelets}");
    assert!(bytes() <= 32 << 20, "{}", bytes());
    assert_eq!(added.load(Ordering::Relaxed), strangers + kubelets);

    // A list, which shows the others again, is worth it once half of the memory is free.
    for at in 0..kubelets {
        store.delete(&format!("kubelet-{at:06}"), Origin::Watch);
    }
    assert!(!store.has_room());
    for at in 0..strangers {
        let decided = csr(format!("stranger-{at:06}"), false).decided("2");
        store.apply(decided, Origin::Watch);
    }
    assert!(store.is_empty() && store.has_room());
    store.begin_list();
    store.apply(csr("kubelet-004999".to_owned(), true), Origin::List);
    store.finish_list(|_| true);
    assert!(store.len() == 1 && !store.lacks_room());
}
