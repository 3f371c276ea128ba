use outrigger_runtime::fixture::near::{self, Edit};
use proptest::prelude::*;

use super::*;

fn lease() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l", "namespace": "kube-system", "uid": "u", "resourceVersion": "7",
                     "annotations": {"a": "b"}, "labels": {"c": "d"}},
        "spec": {"holderIdentity": "h", "leaseDurationSeconds": 15, "leaseTransitions": 2, "strategy": "s",
                 "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z"},
    })
}

proptest! {
    /// A PUT replaces the whole Lease: fields that are not known here are in it.
    #[test]
    fn a_lease_loses_nothing(edits in prop::collection::vec(any::<Edit>(), 0..6)) {
        let bytes = near::bytes(lease().to_string().as_bytes(), &edits);
        let _ = serde_json::from_slice::<LeaseObject>(&bytes);
        let read = near::value(&lease(), &edits);
        let Ok(lease) = serde_json::from_value::<LeaseObject>(read.clone()) else {
            return Ok(());
        };
        let _ = lease.record();
        let again: LeaseObject = serde_json::from_value(json!(lease)).unwrap();
        prop_assert_eq!(&again, &lease);
        let written = json!(lease.with(&LeaseRecord::default()));
        prop_assert_eq!(without_ours(written), without_ours(read));
    }
}

/// A Lease without the fields that the election writes, and without those that say nothing.
fn without_ours(mut lease: Value) -> Value {
    const OURS: [&str; 5] = [
        "holderIdentity",
        "leaseDurationSeconds",
        "leaseTransitions",
        "acquireTime",
        "renewTime",
    ];
    if let Some(spec) = lease["spec"].as_object_mut() {
        spec.retain(|key, _| !OURS.contains(&&**key));
    }
    if lease["spec"].is_null() {
        lease["spec"] = json!({});
    }
    if let Some(metadata) = lease["metadata"].as_object_mut() {
        let ours = ["uid", "resourceVersion", "annotations"];
        metadata.retain(|key, value| {
            !ours.contains(&&**key) || (*value != json!("") && *value != json!({}))
        });
    }
    lease
}
