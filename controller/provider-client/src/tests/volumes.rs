//! Lookups of volumes: batches, purposes, and answers.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use outrigger_api::{
    RpcStatus,
    v1::{self, volume_result::Outcome},
};
use outrigger_core::{
    error_class::ErrorClass,
    volume::{VolumeTopology, VolumeView},
};
use serde_json::json;
use tokio::time::{Instant, timeout};
use tonic::Code;

use super::{
    fake::{Reply, all_found, in_zone, refusal, volume_result},
    rig::Rig,
    secs,
};
use crate::{Error, VolumeLookup, VolumePurpose, admission::CallClass};

/// Volumes that exist wait for so long for others.
const GATHERING: Duration = Duration::from_millis(25);

fn volume(name: &str) -> Arc<VolumeView> {
    let volume = json!({
        "metadata": {
            "name": name, "uid": "u",
            "labels": {"topology.kubernetes.io/zone": "z", "app": "db"},
        },
        "spec": {"csi": {
            "driver": "disk.example", "volumeHandle": name, "volumeAttributes": {"a": "b"},
        }},
    });
    Arc::new(serde_json::from_value(volume).unwrap())
}

async fn serving(max_batch_size: u32, max_in_flight: u32) -> Rig {
    let rig = Rig::with(|_, fake| {
        fake.introduce(move |answer| {
            let offered = v1::VolumesCapability {
                csi_drivers: vec!["disk.example".into()],
                source_kinds: vec![v1::VolumeSourceKind::Cinder.into(), 99],
                max_batch_size,
                max_in_flight,
            };
            answer.capabilities.get_or_insert_default().volumes = Some(offered);
        });
    });
    rig.wait_until_serving().await;
    rig
}

pub(super) async fn look_up(rig: &Rig, name: &str) -> Result<VolumeLookup, Error> {
    let lookup = rig
        .provider
        .volumes()
        .look_up(volume(name), VolumePurpose::Labels);
    timeout(Duration::from_hours(1), lookup)
        .await
        .expect("an answer")
}

async fn look_up_all(rig: &Rig, count: usize) -> Vec<Result<VolumeLookup, Error>> {
    let names: Vec<_> = (0..count).map(|n| n.to_string()).collect();
    join_all(names.iter().map(|name| look_up(rig, name))).await
}

fn sizes(rig: &Rig) -> Vec<usize> {
    let calls = rig.fake.volumes.calls();
    calls.iter().map(|(_, call)| call.items.len()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_asked_about_with_its_source_and_topology() {
    let rig = serving(0, 0).await;
    let offered = rig.provider.session().unwrap();
    let offered = offered.volumes.as_ref().unwrap();
    assert_eq!((offered.max_batch_size, offered.max_in_flight), (100, 4));
    assert_eq!(offered.served.kinds.len(), 1, "an unknown kind is ignored");
    let lookup = look_up(&rig, "pv").await.unwrap();
    assert!(
        matches!(lookup, VolumeLookup::Found(topology) if topology != VolumeTopology::default())
    );
    let (_, call) = rig.fake.volumes.calls().remove(0);
    let sent = v1::Volume {
        key: "0".into(),
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
    assert_eq!(call.items, [sent]);
}

#[tokio::test(start_paused = true)]
async fn many_volumes_go_out_together_in_full_batches() {
    let rig = serving(0, 0).await;
    let started = Instant::now();
    for answer in look_up_all(&rig, 250).await {
        answer.unwrap();
    }
    assert_eq!(started.elapsed(), GATHERING);
    assert_eq!(sizes(&rig), [100, 100, 50]);
    let metrics = rig.metrics();
    assert!(metrics.contains("outrigger_provider_volume_batch_volumes_count 3"));
}

#[tokio::test(start_paused = true)]
async fn volumes_that_wait_for_a_call_in_flight_share_the_next() {
    let rig = serving(0, 1).await;
    rig.fake
        .volumes
        .on(|request| Reply::After(secs(1), Box::new(Reply::Say(all_found(request)))));
    let later = async {
        tokio::time::sleep(secs(1) / 2).await;
        look_up_all(&rig, 30).await
    };
    let (first, _) = tokio::join!(look_up(&rig, "first"), later);
    first.unwrap();
    assert_eq!(sizes(&rig), [1, 30]);
}

/// A request to the API server waits for one, and nothing for the other.
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_created_goes_before_those_that_exist() {
    let rig = serving(1, 1).await;
    rig.fake
        .volumes
        .on(|request| Reply::After(secs(1), Box::new(Reply::Say(all_found(request)))));
    let started = Instant::now();
    let admitted = async {
        tokio::time::sleep(secs(1) / 2).await;
        let lookup = rig
            .provider
            .volumes()
            .look_up(volume("new"), VolumePurpose::Admission);
        lookup.await.unwrap();
        started.elapsed()
    };
    let (_, admitted) = tokio::join!(look_up_all(&rig, 4), admitted);
    assert_eq!(admitted, GATHERING + secs(2));
    assert_eq!(started.elapsed(), GATHERING + secs(5));
}

/// A webhook's request ends long before the deadline of a call.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_caller_is_cancelled() {
    let rig = serving(0, 1).await;
    rig.fake.volumes.on(|_| Reply::Hang);
    let lookup = rig
        .provider
        .volumes()
        .look_up(volume("hangs"), VolumePurpose::Admission);
    timeout(secs(5), lookup).await.unwrap_err();
    rig.fake
        .volumes
        .on(|request| Reply::Say(all_found(request)));
    let started = Instant::now();
    look_up(&rig, "next").await.unwrap();
    assert_eq!(started.elapsed(), GATHERING);
}

#[tokio::test(start_paused = true)]
async fn each_result_is_checked_by_itself() {
    let rig = serving(0, 0).await;
    rig.fake.volumes.on(|request| {
        let status = |code: Code, message: &str| RpcStatus {
            code: code.into(),
            message: message.to_owned(),
            details: Vec::new(),
        };
        let reason = || "why".to_owned();
        let of = |name: &str| match name {
            "0" => vec![Outcome::Absent(v1::Absent {
                certainty: v1::AbsenceCertainty::Confirmed.into(),
                reason: reason(),
                ..v1::Absent::default()
            })],
            "1" => vec![Outcome::NotManaged(v1::NotManaged { reason: reason() })],
            "2" => vec![Outcome::Error(status(Code::Internal, "failed"))],
            "3" => vec![Outcome::Error(status(Code::Ok, ""))],
            "4" => vec![],
            "5" => vec![
                Outcome::Absent(v1::Absent::default()),
                Outcome::Absent(v1::Absent::default()),
            ],
            "6" => {
                let label = ("kubernetes.io/hostname".to_owned(), "n".to_owned());
                let labels = [label].into();
                vec![Outcome::Found(v1::VolumeTopology {
                    labels,
                    node_terms: vec![],
                })]
            }
            _ => vec![Outcome::Found(v1::VolumeTopology::default())],
        };
        let volumes = request.items.iter();
        let mut results: Vec<_> = volumes
            .flat_map(|volume| {
                let outcomes = of(&volume.name).into_iter();
                outcomes.map(|outcome| volume_result(&volume.key, outcome))
            })
            .collect();
        results.push(in_zone("stray", "z"));
        results.push(in_zone("99", "z"));
        Reply::Say(v1::BatchGetVolumesResponse { results })
    });
    let answers = look_up_all(&rig, 8).await;
    let reason = || "why".into();
    assert_eq!(answers[0], Ok(VolumeLookup::Absent { reason: reason() }));
    assert_eq!(
        answers[1],
        Ok(VolumeLookup::NotManaged { reason: reason() })
    );
    let classes: Vec<_> = answers[2..7]
        .iter()
        .map(|answer| answer.as_ref().unwrap_err().class())
        .collect();
    let malformed = ErrorClass::Malformed;
    let expected = [
        ErrorClass::Transient,
        malformed,
        malformed,
        malformed,
        malformed,
    ];
    assert_eq!(classes, expected);
    assert_eq!(
        answers[7],
        Ok(VolumeLookup::Found(VolumeTopology::default()))
    );
    assert!(
        rig.metrics()
            .contains("outrigger_provider_stray_results_total 2")
    );
}

#[tokio::test(start_paused = true)]
async fn only_a_confirmed_absence_of_a_volume_is_believed() {
    use v1::AbsenceCertainty::{Confirmed, NotVisibleYet, Unspecified};
    let rig = serving(0, 0).await;
    for (certainty, age, says) in [
        (NotVisibleYet, None, "may exist: why"),
        (Unspecified, None, "no certainty"),
        (Confirmed, Some(secs(1)), "asked before the call"),
    ] {
        rig.fake.volumes.on(move |request| {
            let absent = v1::Absent {
                certainty: certainty.into(),
                age: age.map(|age| age.try_into().unwrap()),
                reason: "why".into(),
            };
            let results = vec![volume_result(
                &request.items[0].key,
                Outcome::Absent(absent),
            )];
            Reply::Say(v1::BatchGetVolumesResponse { results })
        });
        let error = look_up(&rig, "pv").await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::NotReady, "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_limits_the_rate_pauses_volumes_alone() {
    let rig = serving(0, 0).await;
    rig.fake.volumes.on(|_| {
        let refused = refusal(Code::ResourceExhausted, "RATE_LIMITED", Some(secs(7)));
        Reply::Fail(refused)
    });
    let error = look_up(&rig, "pv").await.unwrap_err();
    assert!(matches!(error.class(), ErrorClass::RateLimited { .. }));
    rig.fake
        .volumes
        .on(|request| Reply::Say(all_found(request)));
    let started = Instant::now();
    rig.open(CallClass::Instances).await;
    assert_eq!(started.elapsed(), Duration::ZERO);
    look_up(&rig, "pv").await.unwrap();
    assert_eq!(started.elapsed(), secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_volumes_is_not_asked() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let error = look_up(&rig, "pv").await.unwrap_err();
    assert!(matches!(error, Error::NotOffered { .. }), "{error}");
}
