//! Lookups of volumes: purposes, and answers.

use std::time::Duration;

use outrigger_api::v1::{self, get_volume_response::Outcome};
use outrigger_core::{
    error_class::ErrorClass,
    volume::{VolumeTopology, VolumeView},
};
use serde_json::json;
use tokio::time::timeout;

use super::{
    fake::{Reply, volume_outcome},
    rig::Rig,
    secs,
};
use crate::{Error, VolumeLookup};

fn volume(name: &str) -> VolumeView {
    let volume = json!({
        "metadata": {
            "name": name, "uid": "u",
            "labels": {"topology.kubernetes.io/zone": "z", "app": "db"},
        },
        "spec": {"csi": {
            "driver": "disk.example", "volumeHandle": name, "volumeAttributes": {"a": "b"},
        }},
    });
    serde_json::from_value(volume).unwrap()
}

async fn serving(max_in_flight: u32) -> Rig {
    let rig = Rig::with(|_, fake| {
        fake.introduce(move |answer| {
            let offered = v1::VolumesCapability {
                csi_drivers: vec!["disk.example".into()],
                source_kinds: vec![v1::VolumeSourceKind::Cinder.into(), 99],
                max_in_flight,
            };
            answer.capabilities.get_or_insert_default().volumes = Some(offered);
        });
    });
    rig.wait_until_serving().await;
    rig
}

pub(super) async fn look_up(rig: &Rig, name: &str) -> Result<VolumeLookup, Error> {
    let volume = volume(name);
    let volumes = rig.provider.volumes();
    let answer = timeout(Duration::from_hours(1), volumes.look_up(&volume));
    answer.await.expect("an answer")
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_asked_about_with_its_source_and_topology() {
    let rig = serving(0).await;
    let lookup = look_up(&rig, "pv").await.unwrap();
    assert!(
        matches!(lookup, VolumeLookup::Found(topology) if topology != VolumeTopology::default())
    );
    let (_, call) = rig.fake.volumes.calls().remove(0);
    let sent = v1::Volume {
        name: "pv".into(),
        source: Some(v1::VolumeSource {
            source: Some(v1::volume_source::Source::Csi(v1::CsiVolumeSource {
                driver: "disk.example".into(),
                volume_handle: "pv".into(),
                volume_attributes: [("a".into(), "b".into())].into(),
            })),
        }),
        labels: [("topology.kubernetes.io/zone".into(), "z".into())].into(),
    };
    assert_eq!(call.volume, Some(sent));
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_a_volume_is_checked() {
    let rig = serving(0).await;
    let reason = || "why".to_owned();
    let labelled = |key: &str| {
        Outcome::Found(v1::VolumeTopology {
            labels: [(key.to_owned(), "n".to_owned())].into(),
            node_terms: Vec::new(),
        })
    };
    let absent = Outcome::Absent(v1::Absent {
        certainty: v1::AbsenceCertainty::Confirmed.into(),
        reason: reason(),
        ..v1::Absent::default()
    });
    let not_managed = Outcome::NotManaged(v1::NotManaged { reason: reason() });
    let why = || "why".into();
    for (outcome, expected) in [
        (Some(absent), Ok(VolumeLookup::Absent { reason: why() })),
        (
            Some(not_managed),
            Ok(VolumeLookup::NotManaged { reason: why() }),
        ),
        (
            Some(Outcome::Found(v1::VolumeTopology::default())),
            Ok(VolumeLookup::Found(VolumeTopology::default())),
        ),
        (
            Some(labelled("kubernetes.io/hostname")),
            Err(ErrorClass::Malformed),
        ),
        (None, Err(ErrorClass::Malformed)),
    ] {
        rig.fake.volumes.on(move |_| {
            Reply::Say(v1::GetVolumeResponse {
                outcome: outcome.clone(),
            })
        });
        let answer = look_up(&rig, "pv").await.map_err(|error| error.class());
        assert_eq!(answer, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_confirmed_absence_of_a_volume_is_believed() {
    use v1::AbsenceCertainty::{Confirmed, NotVisibleYet, Unspecified};
    let rig = serving(0).await;
    for (certainty, age, says) in [
        (NotVisibleYet, None, "may exist: why"),
        (Unspecified, None, "no certainty"),
        (Confirmed, Some(secs(1)), "asked before the call"),
    ] {
        rig.fake.volumes.on(move |_| {
            let absent = v1::Absent {
                certainty: certainty.into(),
                age: age.map(|age| age.try_into().unwrap()),
                reason: "why".into(),
            };
            Reply::Say(volume_outcome(Outcome::Absent(absent)))
        });
        let error = look_up(&rig, "pv").await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::NotReady, "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}
