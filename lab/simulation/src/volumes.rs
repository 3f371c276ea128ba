//! Volumes that no provisioner has made, and the labels that the controller gives them.

use outrigger_provider_mock::{
    Cloud,
    volumes::{Volume, VolumeState},
};
use serde_json::{Value, json};

/// Their collection.
pub const VOLUMES: &str = "/api/v1/persistentvolumes";

/// The CSI driver whose volumes the provider looks up.
pub const DRIVER: &str = "disk.example";

/// Handles of volumes in the cluster; the cloud has a volume for the first two.
pub const HANDLES: [&str; 3] = ["one-zone", "two-zones", "nowhere"];

const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The annotation of a volume that has its labels.
const LABELLED: &str = "outrigger.dev/volume-labelled";

/// A zone that no volume of the cloud is in.
const WRONG_ZONE: &str = "zone-z";

/// The cloud has its volumes from the start on, and they never change.
pub fn make(cloud: &Cloud) {
    let zones = [&["zone-a"][..], &["zone-a", "zone-b"]];
    let volumes = HANDLES.into_iter().zip(zones).map(|(handle, zones)| {
        let volume = Volume {
            handle: handle.to_owned(),
            region: "region-1".to_owned(),
            zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
            state: VolumeState::default(),
        };
        (handle.to_owned(), volume)
    });
    cloud.edit_volumes(|all| all.extend(volumes));
}

/// The object of a volume with this handle. A user may have given it a zone, the wrong one.
pub fn object(name: &str, handle: &str, is_wrong: bool) -> Value {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": DRIVER, "volumeHandle": handle},
        },
    });
    if is_wrong {
        object["metadata"]["labels"] = json!({ZONE: WRONG_ZONE});
    }
    object
}

/// A controller has written a volume.
///
/// # Errors
/// The promise that is broken.
pub fn written(before: &Value, after: &Value) -> Result<(), String> {
    let name = &before["metadata"]["name"];
    if !before["metadata"]["annotations"][LABELLED].is_null() {
        return Err(format!("the volume {name} is labelled again"));
    }
    let labels = before["metadata"]["labels"].as_object();
    for (key, value) in labels.into_iter().flatten() {
        if after["metadata"]["labels"][key] != *value {
            return Err(format!("the label {key} of the volume {name} changes"));
        }
    }
    Ok(())
}

/// Differences of `volume` from what the cloud says about it.
pub fn complaints(volume: &Value, cloud: &Cloud) -> Option<String> {
    let metadata = &volume["metadata"];
    let handle = volume["spec"]["csi"]["volumeHandle"].as_str();
    let volumes = cloud.volumes();
    let is_wrong = metadata["labels"][ZONE] == WRONG_ZONE;
    let in_cloud = volumes
        .into_iter()
        .find(|one| Some(&*one.handle) == handle && !is_wrong);
    let (labels, terms) = match &in_cloud {
        Some(volume) => {
            let within = |key, values| json!({"key": key, "operator": "In", "values": values});
            let requirements = [
                within(REGION, json!([volume.region])),
                within(ZONE, json!(volume.zones)),
            ];
            (
                json!({REGION: volume.region, ZONE: volume.zones.join("__")}),
                json!([{"matchExpressions": requirements}]),
            )
        }
        None if is_wrong => (json!({ZONE: WRONG_ZONE}), Value::Null),
        None => (Value::Null, Value::Null),
    };
    let actual = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    let is_marked = !metadata["annotations"][LABELLED].is_null();
    let is_right =
        metadata["labels"] == labels && *actual == terms && is_marked == in_cloud.is_some();
    (!is_right).then(|| {
        format!(
            "the volume {} has the labels {} and the terms {actual}, and the cloud says {in_cloud:?}",
            metadata["name"], metadata["labels"]
        )
    })
}
