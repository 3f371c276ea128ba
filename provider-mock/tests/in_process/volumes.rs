//! Volumes, as a controller asks about them.

use outrigger_api::v1::{
    BatchGetVolumesRequest, CinderVolumeSource, CsiVolumeSource, Volume as Asked, VolumeResult,
    VolumeSource, VsphereVolumeSource, volume_result::Outcome, volume_source::Source,
    volumes_service_client::VolumesServiceClient,
};
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, InjectedError, Method};
use outrigger_provider_mock::volumes::{Volume, VolumeState};
use outrigger_provider_mock::{Cloud, CloudConfig, ProviderOptions, ServedVolumes};

use crate::harness::{Mock, context};

async fn start() -> Mock {
    let cloud = Cloud::new(CloudConfig::new().unwrap());
    let options = ProviderOptions {
        volumes: Some(ServedVolumes {
            csi_drivers: vec!["disk.example".into()],
            in_tree: true,
            max_batch_size: 10,
        }),
        ..ProviderOptions::default()
    };
    Mock::over(cloud, options).await
}

fn put(mock: &Mock, handle: &str, zones: &[&str], state: VolumeState) {
    let volume = Volume {
        handle: handle.into(),
        region: "mock-1".into(),
        zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
        state,
    };
    mock.cloud
        .edit_volumes(|volumes| volumes.insert(volume.handle.clone(), volume.clone()));
}

async fn ask(mock: &Mock, sources: Vec<Source>) -> Vec<VolumeResult> {
    let volumes = sources.into_iter().zip(0..).map(|(source, key)| Asked {
        key: key.to_string(),
        source: Some(VolumeSource {
            source: Some(source),
        }),
        ..Asked::default()
    });
    let request = BatchGetVolumesRequest {
        context: Some(context()),
        items: volumes.collect(),
    };
    let mut client = VolumesServiceClient::new(mock.channel.clone());
    client
        .batch_get_volumes(request)
        .await
        .unwrap()
        .into_inner()
        .results
}

fn csi(handle: &str) -> Source {
    Source::Csi(CsiVolumeSource {
        driver: "disk.example".into(),
        volume_handle: handle.into(),
        ..CsiVolumeSource::default()
    })
}

/// VOL-01 to VOL-04.
#[tokio::test]
async fn a_volume_answers_as_it_was_set() {
    let mock = start().await;
    put(&mock, "two-zones", &["a", "b"], VolumeState::Available);
    put(&mock, "foreign", &[], VolumeState::Foreign);
    put(&mock, "failing", &[], VolumeState::Failing);
    put(&mock, "hidden", &[], VolumeState::Hidden);
    let cinder = Source::Cinder(CinderVolumeSource {
        volume_id: "two-zones".into(),
    });
    let handles = [
        "two-zones",
        "missing",
        "foreign",
        "failing",
        "hidden",
        "no handle",
    ];
    let volumes = || {
        handles
            .map(csi)
            .into_iter()
            .chain([cinder.clone()])
            .collect()
    };
    let results = ask(&mock, volumes()).await;
    assert_eq!(
        ask(&mock, volumes()).await,
        results,
        "a lookup changes nothing"
    );
    let shown = results
        .iter()
        .map(|result| match result.outcome.as_ref().unwrap() {
            Outcome::Found(topology) => topology.labels["topology.kubernetes.io/zone"].clone(),
            Outcome::Absent(absent) => absent.certainty().as_str_name().into(),
            Outcome::NotManaged(_) => "not managed".into(),
            Outcome::Error(status) => status.message.clone(),
        });
    let shown: Vec<_> = shown.collect();
    assert_eq!(
        shown,
        [
            "a__b",
            "ABSENCE_CERTAINTY_CONFIRMED",
            "not managed",
            "failing fails",
            "ABSENCE_CERTAINTY_NOT_VISIBLE_YET",
            "\"no handle\" is no handle of the mock: it is empty or has spaces",
            "a__b",
        ]
    );
}

fn message(result: &VolumeResult) -> Option<&str> {
    match &result.outcome {
        Some(Outcome::Error(status)) => Some(&status.message),
        _ => None,
    }
}

#[tokio::test]
async fn one_volume_of_a_batch_fails() {
    let mock = start().await;
    for handle in ["one", "other.vmdk"] {
        put(&mock, handle, &["a"], VolumeState::Available);
    }
    let vsphere = Source::VsphereVolume(VsphereVolumeSource {
        volume_path: "[store] other.vmdk".into(),
        ..VsphereVolumeSource::default()
    });
    let both = || vec![csi("one"), vsphere.clone()];
    let fault = |text: &str| {
        let error = InjectedError::new(tonic::Code::Unavailable).with_message(text);
        Fault::on(Method::BatchGetVolumes, Effect::ItemError(error)).times(1)
    };
    mock.cloud.inject(fault("elsewhere").for_volume("none"));
    mock.cloud.inject(fault("here").for_volume("other.vmdk"));
    let results = ask(&mock, both()).await;
    let failed: Vec<_> = results.iter().map(message).collect();
    assert_eq!(failed, [None, Some("here")]);
    // Any of them, once.
    mock.cloud.inject(fault("any"));
    let results = ask(&mock, both()).await;
    let failed: Vec<_> = results.iter().map(message).collect();
    assert_eq!(failed, [Some("any"), None]);

    for (refused, says) in [
        (
            Fault::on(Method::BatchGetVolumes, Effect::LoseReply).for_volume("one"),
            "fail the item of one",
        ),
        (
            Fault {
                method: Some(Method::BatchGetInstances),
                ..fault("").for_volume("one")
            },
            "BatchGetInstances is not about volumes",
        ),
    ] {
        assert!(refused.check().unwrap_err().contains(says), "{refused:?}");
    }
}

#[tokio::test]
async fn answers_about_volumes_are_missing_double_foreign_wrong_or_empty() {
    let mock = start().await;
    for handle in ["one", "two"] {
        put(&mock, handle, &["a"], VolumeState::Available);
    }
    let zone = |result: &VolumeResult| match &result.outcome {
        Some(Outcome::Found(topology)) => topology.labels["topology.kubernetes.io/zone"]
            .len()
            .to_string(),
        Some(Outcome::Absent(_)) => "absent".into(),
        Some(Outcome::NotManaged(_)) => "not managed".into(),
        Some(Outcome::Error(_)) => "error".into(),
        None => "none".into(),
    };
    // The keys are those of `ask`.
    for (bad, expected) in [
        (BadAnswer::MissingResult, &[("0", "1")][..]),
        (
            BadAnswer::DuplicateResult,
            &[("0", "1"), ("1", "1"), ("1", "1")],
        ),
        (BadAnswer::Empty, &[("0", "1"), ("1", "none")]),
        (BadAnswer::NotManaged, &[("0", "1"), ("1", "not managed")]),
        (BadAnswer::FalseAbsence, &[("0", "1"), ("1", "absent")]),
        (BadAnswer::BadLabel, &[("0", "1"), ("1", "15")]),
        (BadAnswer::OversizedStrings, &[("0", "1"), ("1", "2000")]),
    ] {
        let fault = Fault::on(Method::BatchGetVolumes, Effect::BadAnswer(bad)).times(1);
        mock.cloud.inject(fault.for_volume("two"));
        let results = ask(&mock, vec![csi("one"), csi("two")]).await;
        let zones: Vec<_> = results.iter().map(|one| (&*one.key, zone(one))).collect();
        let zones: Vec<_> = zones.iter().map(|(key, zone)| (*key, &**zone)).collect();
        assert_eq!(zones, expected, "{bad}");
    }
    let foreign = Effect::BadAnswer(BadAnswer::ForeignResult);
    mock.cloud
        .inject(Fault::on(Method::BatchGetVolumes, foreign).times(1));
    let results = ask(&mock, vec![csi("one")]).await;
    assert_eq!(results[1].key, "stray");
    let none = Effect::BadAnswer(BadAnswer::MalformedCidr);
    let refused = Fault::on(Method::BatchGetVolumes, none).check();
    assert!(refused.unwrap_err().contains("could be malformed-cidr"));
}

#[tokio::test]
async fn volumes_are_declared_only_where_they_are_asked_for() {
    let mock = Mock::start(|_| {}).await;
    assert!(mock.handshake.capabilities.unwrap().volumes.is_none());
    let mock = start().await;
    let offered = mock.handshake.capabilities.unwrap().volumes.unwrap();
    assert_eq!(offered.csi_drivers, ["disk.example"]);
    assert_eq!(
        (offered.source_kinds.len(), offered.max_batch_size),
        (5, 10)
    );
}
