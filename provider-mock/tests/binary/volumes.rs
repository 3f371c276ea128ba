//! Volumes of a running mock.

use outrigger_api::v1::{
    CallContext, CsiVolumeSource, GetVolumeRequest, Volume, VolumeSource,
    get_volume_response::Outcome, volume_source::Source,
    volumes_service_client::VolumesServiceClient,
};
use tonic::Status;

use crate::harness::{Served, within};

const FLAGS: [&str; 2] = ["--csi-driver", "disk.example"];

async fn ask(mock: &Served, handle: &str) -> Result<Outcome, Status> {
    let volume = Volume {
        source: Some(VolumeSource {
            source: Some(Source::Csi(CsiVolumeSource {
                driver: "disk.example".into(),
                volume_handle: handle.into(),
                ..CsiVolumeSource::default()
            })),
        }),
        ..Volume::default()
    };
    let request = GetVolumeRequest {
        context: Some(CallContext {
            request_id: "r".into(),
            cluster_name: "kubernetes".into(),
            ..CallContext::default()
        }),
        volume: Some(volume),
    };
    let mut client = VolumesServiceClient::new(mock.channel().await);
    let answer = within("the lookup", client.get_volume(request)).await?;
    Ok(answer.into_inner().outcome.unwrap())
}

/// The zones of a volume; none if it is not found.
async fn zones(mock: &Served, handle: &str) -> Option<String> {
    match ask(mock, handle).await {
        Ok(Outcome::Found(topology)) => {
            let zone = topology.labels.get("topology.kubernetes.io/zone");
            Some(zone.cloned().unwrap_or_default())
        }
        _ => None,
    }
}

#[tokio::test]
async fn volumes_are_made_moved_broken_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &FLAGS).await;
    mock.ctl("set-volume vol-1 --region mock-1 --zone mock-1a --zone mock-1b")
        .await;
    mock.ctl("set-volume vol-2").await;
    assert_eq!(mock.json("status").await["volumes"], 2);
    for (handle, expected) in [
        ("vol-1", Some("mock-1a__mock-1b")),
        ("vol-2", Some("")),
        ("vol-3", None),
    ] {
        assert_eq!(zones(&mock, handle).await.as_deref(), expected);
    }

    // A field that is left out is not kept.
    mock.ctl("set-volume vol-1 --zone mock-1c").await;
    assert_eq!(zones(&mock, "vol-1").await.unwrap(), "mock-1c");
    for state in ["foreign", "failing", "hidden"] {
        mock.ctl(&format!("set-volume vol-1 --state {state}")).await;
        let json = mock.json("volumes").await;
        assert_eq!(json["volumes"][0]["state"], state);
        let answer = ask(&mock, "vol-1").await;
        let is_as_set = match &answer {
            Ok(Outcome::NotManaged(_)) => state == "foreign",
            Ok(Outcome::Absent(_)) => state == "hidden",
            Ok(Outcome::Found(_)) => false,
            Err(_) => state == "failing",
        };
        assert!(is_as_set, "{state}: {answer:?}");
    }

    for (command, says) in [
        (
            "set-volume vol-4 --state lost",
            "[possible values: available",
        ),
        ("set-volume v\u{1b}[2J", "control characters"),
        ("set-volume vol-4 --zone z\u{7}", "control characters"),
        (
            "delete-volumes vol-1 vol-9",
            "no volume vol-9; nothing was changed",
        ),
        ("delete-volumes", "<NAME|ID>"),
    ] {
        let error = mock.ctl_fails(command).await;
        assert!(error.contains(says), "{command}: {error}");
    }
    assert_eq!(mock.count("delete-volumes vol-1", "volumes").await, 1);
    assert_eq!(mock.count("delete-volumes --all", "volumes").await, 1);
    mock.terminate().await;
}
