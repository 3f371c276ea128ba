//! A volume is made by hand, as without a provisioner, and gets the labels of its zone.

use std::{path::Path, time::Duration};

use k8s_openapi::{
    api::core::v1::{CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{Api, Client, ResourceExt, api::ObjectMeta};
use tokio::process::Command;

use super::{LABEL, Run, narrator::Narrator};
use crate::{
    Result,
    creation::{Created, Creation},
    nodes::Load,
    process::output,
    wire,
};

/// The CSI driver of the demo's volume.
const DRIVER: &str = "disk.mock.example";

/// Its place in the fake cloud.
const PLACE: [&str; 4] = ["--region", "mock-1", "--zone", "mock-1a"];

/// The plan.
pub(super) struct Labelling<'a> {
    pub(super) client: Client,
    /// The volume with the label of `selector`; without it nothing is done.
    pub(super) volume: Option<PersistentVolume>,
    pub(super) selector: String,
    /// The mock's program, and where it serves.
    pub(super) mock: &'a Path,
    pub(super) endpoint: String,
    pub(super) timeout: Duration,
}

impl Run {
    /// A volume as a user writes it for a disk that exists.
    pub(super) fn volume(&self) -> PersistentVolume {
        let name = format!("{}disk", self.prefix);
        PersistentVolume {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some([(LABEL.to_owned(), self.id.clone())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeSpec {
                capacity: Some([("storage".to_owned(), Quantity("10Gi".to_owned()))].into()),
                access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
                csi: Some(CSIPersistentVolumeSource {
                    driver: DRIVER.to_owned(),
                    volume_handle: name,
                    ..CSIPersistentVolumeSource::default()
                }),
                ..PersistentVolumeSpec::default()
            }),
            status: None,
        }
    }
}

impl Labelling<'_> {
    /// Makes the disk and the volume, and returns when the volume can be scheduled by its zone.
    pub(super) async fn watch(self, narrator: &Narrator) -> Result<Created<PersistentVolume>> {
        if let Some(volume) = &self.volume {
            narrator.begin("making 1 volume");
            self.make_disk(handle(volume)).await?;
        }
        let create = async |volume: PersistentVolume| {
            let what = format!("PersistentVolume {}", volume.name_any());
            let path = "/api/v1/persistentvolumes";
            wire::post(&self.client, path, &volume, &what)
                .await
                .map(drop)
        };
        let creation = Creation {
            api: Api::all(self.client.clone()),
            selector: &self.selector,
            kind: "the demo's volume",
            is_ready,
            load: Load::default(),
            timeout: self.timeout,
        };
        let volumes = self.volume.clone().into_iter();
        let volumes = volumes.map(|volume| (volume.name_any(), volume));
        let progress = |ready| narrator.progress(ready, 1, "1 volume", "labelled");
        creation.run(volumes.collect(), create, progress).await
    }

    async fn make_disk(&self, handle: &str) -> Result<()> {
        let mut ctl = Command::new(self.mock);
        ctl.args(["ctl", "--endpoint", &self.endpoint, "set-volume", handle])
            .args(PLACE);
        let made = output("provider-mock ctl", &mut ctl, || {
            format!("make the disk {handle}")
        });
        made.await.map(drop)
    }
}

/// The handle of its disk.
pub(super) fn handle(volume: &PersistentVolume) -> &str {
    let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
    csi.map_or("", |csi| &csi.volume_handle)
}

/// The requirements of its node affinity, in words.
pub(super) fn affinity(volume: &PersistentVolume) -> Vec<String> {
    let affinity = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    let terms = required
        .into_iter()
        .flat_map(|required| &required.node_selector_terms);
    let requirements = terms.flat_map(|term| term.match_expressions.iter().flatten());
    let words = requirements.map(|one| {
        let values = one.values.as_deref().unwrap_or_default().join(", ");
        format!("{} {} {values}", one.key, one.operator)
    });
    words.collect()
}

fn is_ready(volume: &PersistentVolume) -> bool {
    !affinity(volume).is_empty()
}
