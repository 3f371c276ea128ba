//! Volumes that exist get labels and node affinity from the loop persistentvolume-labels (P-10 to P-33).

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{Api, api::PostParams};
use outrigger_provider_mock::volumes::VolumeState;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, services::merge},
    look::label,
    mock::Mock,
    rights::{Rights, VOLUMES},
    stage::{Setup, Stage},
    wait::{holds, until},
};

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

    /// Makes a volume of each source kind, named as its handle behind `prefix`.
    pub(crate) async fn create_each_kind(&self, prefix: &str) -> Vec<PersistentVolume> {
        let mut created = Vec::new();
        for (handle, source) in each_kind() {
            let volume = persistent_volume(source, named(&format!("{prefix}{handle}")));
            let volume = self.create_volume(volume).await;
            created.push(volume.unwrap_or_else(|error| panic!("{handle}: {error}")));
        }
        created
    }
}

impl Mock {
    /// Has a disk for each source kind.
    pub(crate) async fn set_each_kind(&self) {
        for (handle, _) in each_kind() {
            self.set_volume(handle, VolumeState::Available).await;
        }
    }
}

/// With a mock that serves every kind of source.
pub(crate) fn serving() -> Setup {
    let driver = format!("--csi-driver={DRIVER}");
    Setup::mock(&[&driver, "--in-tree-volumes"])
}

/// Checks that the volume has the labels and the node affinity of its zones.
pub(crate) fn is_labelled(volume: &PersistentVolume) -> Result<(), String> {
    let labels = (label(volume, ZONE), label(volume, REGION));
    let within = |key, values| json!({"key": key, "operator": "In", "values": values});
    let expected = [within(REGION, &["north"][..]), within(ZONE, &["a", "b"])];
    let spec = volume.spec.as_ref().unwrap();
    let affinity = spec.node_affinity.as_ref();
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    let terms = json!(required.map(|required| &required.node_selector_terms));
    let has_terms = terms == json!([{"matchExpressions": expected}]);
    holds(labels == (Some("a__b"), Some("north")) && has_terms, || {
        format!("{:?}: {labels:?}", volume.metadata.name)
    })
}

impl Stage {
    /// The writes to volumes so far, in order of their names.
    fn volume_writes(&self) -> Vec<String> {
        let mut writes = self.writes();
        writes.retain(|write| write.contains("persistentvolumes"));
        writes.sort();
        writes
    }
}

#[tokio::test]
async fn a_volume_of_each_kind_is_labelled_in_one_write() {
    let setup = serving().flag("--controllers=*,persistentvolume-labels");
    let stage = setup.prepare().await;
    Rights::documented(VOLUMES).grant(&stage.plane).await;
    stage.mock.set_each_kind().await;
    stage.create_each_kind("").await;
    let nfs = json!({"nfs": {"server": "nfs.example.org", "path": "/"}});
    let mut others = Vec::new();
    for (name, source, change) in [
        ("nfs", nfs, json!({})),
        (
            "other-driver",
            json!({"csi": {"driver": "other.example.org", "volumeHandle": "csi"}}),
            json!({}),
        ),
        (
            "paused",
            csi("csi"),
            json!({"metadata": {"annotations": {"outrigger.dev/paused": "true"}}}),
        ),
    ] {
        let mut volume = persistent_volume(source, change);
        volume["metadata"]["name"] = name.into();
        others.push(stage.create_volume(volume).await.unwrap());
    }
    let stage = stage.start();
    for (handle, _) in each_kind() {
        until(&format!("{handle} is labelled"), async || {
            is_labelled(&stage.volume(handle).await)
        })
        .await;
    }
    let mut expected = each_kind()
        .map(|(handle, _)| format!("PATCH /api/v1/persistentvolumes/{handle}"))
        .to_vec();
    expected.sort();
    assert_eq!(stage.volume_writes(), expected);
    // A volume that is created later is labelled, too.
    stage.mock.set_volume("late", VolumeState::Available).await;
    let late = persistent_volume(csi("late"), named("late"));
    stage.create_volume(late).await.unwrap();
    until("it is labelled", async || {
        is_labelled(&stage.volume("late").await)
    })
    .await;
    assert_eq!(stage.mock.volume_lookups().await, 7);
    for before in others {
        let name = before.metadata.name.as_deref().unwrap();
        assert_eq!(stage.volume(name).await, before);
    }
}
