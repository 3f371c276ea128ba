//! Volumes that exist get labels and node affinity from the loop persistentvolume-labels (P-10 to P-33).

use k8s_openapi::api::core::v1::PersistentVolume;
use outrigger_provider_mock::volumes::VolumeState;
use serde_json::json;

use crate::{
    cluster::{
        Cluster,
        volumes::{
            DRIVER, REGION, ZONE, csi, each_kind, named, node_terms, persistent_volume, within,
        },
    },
    look::label,
    mock::Mock,
    rights::{Rights, VOLUMES},
    stage::{Backstage, Setup, Stage},
    wait::{holds, until},
};

/// With a mock that serves every kind of source.
pub(crate) fn serving(more: &[&str]) -> Setup {
    let driver = format!("--csi-driver={DRIVER}");
    let flags = [&[&*driver, "--in-tree-volumes"], more].concat();
    Setup::mock(&flags)
}

/// With the loop, and the rights that its documentation names.
async fn prepare(setup: Setup) -> Backstage {
    let setup = setup.flag("--controllers=*,persistentvolume-labels");
    let stage = setup.prepare().await;
    Rights::documented(VOLUMES).grant(&stage.plane).await;
    stage
}

impl Mock {
    /// Has a disk for each source kind.
    pub(crate) async fn set_each_kind(&self) {
        for (handle, _) in each_kind() {
            self.set_volume(handle, VolumeState::Available).await;
        }
    }
}

impl Cluster {
    /// Makes a volume of each source kind, named as its handle.
    pub(crate) async fn create_each_kind(&self) -> Vec<PersistentVolume> {
        let mut created = Vec::new();
        for (handle, source) in each_kind() {
            let volume = persistent_volume(source, named(handle));
            let volume = self.create_volume(volume).await;
            created.push(volume.unwrap_or_else(|error| panic!("{handle}: {error}")));
        }
        created
    }
}

/// Checks that the volume has the labels and the node affinity of its zones.
pub(crate) fn is_labelled(volume: &PersistentVolume) -> Result<(), String> {
    let labels = (label(volume, ZONE), label(volume, REGION));
    let expected = [within(REGION, &["north"]), within(ZONE, &["a", "b"])];
    let has_terms = node_terms(volume) == json!([{"matchExpressions": expected}]);
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
    let stage = prepare(serving(&[])).await;
    stage.mock.set_each_kind().await;
    stage.create_each_kind().await;
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
