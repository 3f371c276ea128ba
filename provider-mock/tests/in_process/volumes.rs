//! Volumes, as a controller asks about them.

use outrigger_api::v1::{
    CinderVolumeSource, CsiVolumeSource, GetVolumeRequest, Volume as Asked, VolumeSource,
    VsphereVolumeSource, get_volume_response::Outcome, volume_source::Source,
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

/// The answer about a volume, in words.
async fn ask(mock: &Mock, source: Source) -> String {
    let request = GetVolumeRequest {
        context: Some(context()),
        volume: Some(Asked {
            source: Some(VolumeSource {
                source: Some(source),
            }),
            ..Asked::default()
        }),
    };
    let mut client = VolumesServiceClient::new(mock.channel.clone());
    let answer = match client.get_volume(request).await {
        Ok(answer) => answer.into_inner(),
        Err(error) => return error.message().to_owned(),
    };
    match answer.outcome {
        Some(Outcome::Found(topology)) => topology.labels["topology.kubernetes.io/zone"].clone(),
        Some(Outcome::Absent(absent)) => absent.certainty().as_str_name().into(),
        Some(Outcome::NotManaged(_)) => "not managed".into(),
        None => "no outcome".into(),
    }
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
    for (source, says) in [
        (csi("two-zones"), "a__b"),
        (cinder, "a__b"),
        (csi("missing"), "ABSENCE_CERTAINTY_CONFIRMED"),
        (csi("foreign"), "not managed"),
        (csi("failing"), "failing fails"),
        (csi("hidden"), "ABSENCE_CERTAINTY_NOT_VISIBLE_YET"),
        (
            csi("no handle"),
            "\"no handle\" is no handle of the mock: it is empty or has spaces",
        ),
    ] {
        // A lookup changes nothing.
        for _ in 0..2 {
            assert_eq!(ask(&mock, source.clone()).await, says);
        }
    }
}

#[tokio::test]
async fn the_lookup_of_one_volume_fails() {
    let mock = start().await;
    for handle in ["one", "other.vmdk"] {
        put(&mock, handle, &["a"], VolumeState::Available);
    }
    let vsphere = Source::VsphereVolume(VsphereVolumeSource {
        volume_path: "[store] other.vmdk".into(),
        ..VsphereVolumeSource::default()
    });
    let fault = |text: &str| {
        let error = InjectedError::new(tonic::Code::Unavailable).with_message(text);
        Fault::on(Method::GetVolume, Effect::Error(error)).times(1)
    };
    mock.cloud.inject(fault("elsewhere").for_volume("none"));
    mock.cloud.inject(fault("here").for_volume("other.vmdk"));
    assert_eq!(ask(&mock, csi("one")).await, "a");
    assert_eq!(ask(&mock, vsphere).await, "here");
    // Any of them, once.
    mock.cloud.inject(fault("any"));
    assert_eq!(ask(&mock, csi("one")).await, "any");
    assert_eq!(ask(&mock, csi("one")).await, "a");
}

#[tokio::test]
async fn answers_about_volumes_are_wrong_or_empty() {
    let mock = start().await;
    for handle in ["one", "two"] {
        put(&mock, handle, &["a"], VolumeState::Available);
    }
    for (bad, expected) in [
        (BadAnswer::Empty, "no outcome"),
        (BadAnswer::NotManaged, "not managed"),
        (BadAnswer::FalseAbsence, "ABSENCE_CERTAINTY_CONFIRMED"),
        (BadAnswer::BadLabel, "no label value!"),
        (BadAnswer::OversizedStrings, &*"z".repeat(2_000)),
    ] {
        let fault = Fault::on(Method::GetVolume, Effect::BadAnswer(bad)).times(1);
        mock.cloud.inject(fault.for_volume("two"));
        assert_eq!(ask(&mock, csi("one")).await, "a");
        assert_eq!(ask(&mock, csi("two")).await, expected, "{bad}");
    }
    let none = Effect::BadAnswer(BadAnswer::MalformedCidr);
    let refused = Fault::on(Method::GetVolume, none).check();
    assert!(refused.unwrap_err().contains("could be malformed-cidr"));
}

#[tokio::test]
async fn volumes_are_declared_only_where_they_are_asked_for() {
    let mock = Mock::start(|_| {}).await;
    assert!(mock.handshake.capabilities.unwrap().volumes.is_none());
    let mock = start().await;
    let offered = mock.handshake.capabilities.unwrap().volumes.unwrap();
    assert_eq!(offered.csi_drivers, ["disk.example"]);
    assert_eq!(offered.source_kinds.len(), 5);
}
