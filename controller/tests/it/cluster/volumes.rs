//! Volumes as an administrator makes them by hand.

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use super::{Cluster, services::merge};

/// The CSI driver of the volumes.
pub(crate) const DRIVER: &str = "csi.example.org";

/// Labels that volumes get.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const REGION: &str = "topology.kubernetes.io/region";

/// A volume with this source, a generated name, and `change` merged into it.
pub(crate) fn persistent_volume(source: Value, change: Value) -> Value {
    let mut volume = json!({
        "metadata": {"generateName": "pv-"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
    });
    merge(&mut volume["spec"], source);
    merge(&mut volume, change);
    volume
}

/// A change that sets the name.
pub(crate) fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// The source of this handle of [`DRIVER`].
pub(crate) fn csi(handle: &str) -> Value {
    json!({"csi": {"driver": DRIVER, "volumeHandle": handle}})
}

/// A source of each kind that the contract knows, and the handle by which the mock knows it.
pub(crate) fn each_kind() -> [(&'static str, Value); 6] {
    let azure = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/azure";
    let azure = json!({"diskName": "azure", "diskURI": azure, "kind": "Managed"});
    [
        ("csi", csi("csi")),
        ("aws", json!({"awsElasticBlockStore": {"volumeID": "aws"}})),
        ("gce", json!({"gcePersistentDisk": {"pdName": "gce"}})),
        ("azure", json!({"azureDisk": azure})),
        ("cinder", json!({"cinder": {"volumeID": "cinder"}})),
        (
            "vsphere.vmdk",
            json!({"vsphereVolume": {"volumePath": "[store] vsphere.vmdk"}}),
        ),
    ]
}

/// The terms of its node affinity.
pub(crate) fn node_terms(volume: &PersistentVolume) -> Value {
    let spec = volume.spec.as_ref().unwrap();
    let affinity = spec.node_affinity.as_ref();
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    json!(required.map(|required| &required.node_selector_terms))
}

/// The requirement of a term that a label has one of these values.
pub(crate) fn within(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

impl Cluster {
    pub(crate) fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.admin())
    }

    /// Makes one as it would be applied; an error is the API server's sentence.
    pub(crate) async fn create_volume(&self, volume: Value) -> Result<PersistentVolume, String> {
        let volume = serde_json::from_value(volume).unwrap();
        let created = self.volumes().create(&PostParams::default(), &volume).await;
        created.map_err(|error| error.to_string())
    }

    pub(crate) async fn volume(&self, name: &str) -> PersistentVolume {
        self.volumes().get(name).await.unwrap()
    }
}
