use serde_json::{Value, json};

use super::{NodeRequirement, NodeTerm, VolumeSource, VolumeView};

pub(super) fn view(volume: Value) -> VolumeView {
    serde_json::from_value(volume).unwrap()
}

pub(super) fn within(key: &str, values: &[&str]) -> NodeRequirement {
    NodeRequirement::within(key, values.iter().map(|value| (*value).into()).collect())
}

pub(super) fn all_of(requirements: impl Into<Vec<NodeRequirement>>) -> NodeTerm {
    NodeTerm {
        match_expressions: requirements.into(),
        ..NodeTerm::default()
    }
}

#[test]
fn a_view_has_what_is_needed() {
    let volume = view(json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": "pv", "uid": "u", "resourceVersion": "7",
            "labels": {"a": "b"},
            "annotations": {"pv.kubernetes.io/provisioned-by": "x", "other": "y"},
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {
            "capacity": {"storage": "1Gi"},
            "csi": {
                "driver": "disk.example", "volumeHandle": "h",
                "volumeAttributes": {"type": "fast"}, "fsType": "ext4",
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
                {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]},
            ]}},
        },
        "status": {"phase": "Bound"},
    }));
    assert_eq!((&*volume.name, &*volume.uid), ("pv", "u"));
    assert_eq!(volume.annotations.len(), 1);
    assert!(volume.has_annotations);
    let Some(VolumeSource::Csi { attributes, .. }) = &volume.source else {
        panic!("{volume:?}");
    };
    assert_eq!(attributes.get("type"), Some("fast"));
    assert_eq!(volume.node_terms[0], all_of([within("k", &["v"])]));
    // The API server wants them back so.
    let field = json!([{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}]);
    assert_eq!(
        serde_json::to_value(&volume.node_terms[1..]).unwrap(),
        field
    );
}

/// P-22.
#[test]
fn every_source_of_the_contract_is_read() {
    let sources = [
        (
            json!({"awsElasticBlockStore": {"volumeID": "id", "fsType": "ext4"}}),
            "id",
        ),
        (json!({"gcePersistentDisk": {"pdName": "id"}}), "id"),
        (
            json!({"azureDisk": {"diskName": "id", "diskURI": "/x", "kind": "Managed"}}),
            "id",
        ),
        (json!({"cinder": {"volumeID": "id", "fsType": null}}), "id"),
        (
            json!({"vsphereVolume": {"volumePath": "id", "storagePolicyID": "p"}}),
            "id",
        ),
        (json!({"csi": {"driver": "d", "volumeHandle": "id"}}), "id"),
        (json!({"csi": {}}), ""),
    ];
    for (spec, id) in sources {
        let volume = view(json!({"metadata": {"name": "pv"}, "spec": spec}));
        assert_eq!(volume.source.unwrap().volume(), id, "{spec}");
    }
    for spec in [
        json!({"nfs": {"server": "s", "path": "/"}}),
        json!({"csi": null}),
        json!(null),
    ] {
        let volume = view(json!({"metadata": {"generateName": "pv-"}, "spec": spec}));
        assert_eq!((volume.source, &*volume.name), (None, ""), "{spec}");
    }
}
