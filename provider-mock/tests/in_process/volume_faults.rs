//! Faults of lookups of volumes.

use outrigger_api::v1::{
    CsiVolumeSource, GetVolumeRequest, Volume as Asked, VolumeSource, get_volume_response::Outcome,
    volume_source::Source, volumes_service_client::VolumesServiceClient,
};
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, Method};
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
