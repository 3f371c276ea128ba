//! Volumes of a running mock.

use outrigger_api::v1::{
    CallContext, CsiVolumeSource, GetVolumeRequest, Volume, VolumeSource,
    get_volume_response::Outcome, volume_source::Source,
    volumes_service_client::VolumesServiceClient,
};
use serde_json::Value;
use tonic::{Code, Status};

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
    assert_eq!(mock.ctl("volumes list").await, "");
    let set = "volumes set vol-1 --region mock-1 --zone mock-1a --zone mock-1b";
    assert_eq!(mock.ctl(set).await, "set vol-1\n");
    mock.ctl("volumes set vol-2").await;
    let listed = mock.ctl("volumes list").await;
    let expected = "vol-1\tmock-1\tmock-1a,mock-1b\tavailable\nvol-2\t-\t-\tavailable\n";
    assert_eq!(listed, expected);
    assert!(mock.ctl("status").await.contains("volumes\t2\n"));
    for (handle, expected) in [
        ("vol-1", Some("mock-1a__mock-1b")),
        ("vol-2", Some("")),
        ("vol-3", None),
    ] {
        assert_eq!(zones(&mock, handle).await.as_deref(), expected);
    }

    // A field that is left out is not kept.
    mock.ctl("volumes set vol-1 --zone mock-1c").await;
    assert_eq!(zones(&mock, "vol-1").await.unwrap(), "mock-1c");
    for state in ["foreign", "failing", "hidden"] {
        mock.ctl(&format!("volumes set vol-1 --state {state}"))
            .await;
        let json: Value = serde_json::from_str(&mock.ctl("volumes list -o json").await).unwrap();
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
            "volumes set vol-4 --state lost",
            "[possible values: available",
        ),
        ("volumes set v\u{1b}[2J", "control characters"),
        ("volumes set vol-4 --zone z\u{7}", "control characters"),
        (
            "volumes delete vol-1 vol-9",
            "no volume vol-9; nothing was changed",
        ),
        ("volumes delete", "<NAME|ID>"),
    ] {
        let error = mock.ctl_fails(command).await;
        assert!(error.contains(says), "{command}: {error}");
    }
    assert_eq!(mock.ctl("volumes delete vol-1").await, "deleted vol-1\n");
    assert_eq!(mock.ctl("volumes delete --all").await, "deleted vol-2\n");
    assert_eq!(mock.ctl("volumes list").await, "");
    let counters = mock.ctl("counters").await;
    assert!(
        counters.contains("cloud\tGetVolume\tserved\t7\n"),
        "{counters}"
    );
    mock.terminate().await;
}

#[tokio::test]
async fn the_lookup_of_one_volume_fails_as_it_was_set() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &FLAGS).await;
    for handle in ["vol-1", "vol-2"] {
        mock.ctl(&format!("volumes set {handle} --zone a")).await;
    }
    let set = "set errors --method GetVolume --code UNAVAILABLE --volume";
    let said = mock.ctl(&format!("{set} vol-1 --count 1")).await;
    let expected = "set: GetVolume fails with UNAVAILABLE (CLOUD_UNAVAILABLE), about vol-1, once\n";
    assert_eq!(said, expected);
    // One about another volume does not take its place.
    mock.ctl(&format!("{set} vol-9")).await;
    assert_eq!(zones(&mock, "vol-2").await.unwrap(), "a");
    let error = ask(&mock, "vol-1").await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(zones(&mock, "vol-1").await.unwrap(), "a");
    mock.terminate().await;
}

#[tokio::test]
async fn volumes_outlive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state.json");
    let flags = [&FLAGS[..], &["--state", state.to_str().unwrap()]].concat();
    let mock = Served::start(directory.path(), &flags).await;
    mock.ctl("volumes set vol-1 --region r --zone a").await;
    mock.ctl("volumes set vol-2 --state foreign").await;
    let before = mock.ctl("volumes list -o json").await;
    mock.terminate().await;
    let mock = Served::start(directory.path(), &flags).await;
    assert_eq!(mock.ctl("volumes list -o json").await, before);
    assert_eq!(zones(&mock, "vol-1").await.unwrap(), "a");
    mock.ctl("volumes delete --all").await;
    mock.terminate().await;
    let mock = Served::start(directory.path(), &flags).await;
    assert_eq!(mock.ctl("volumes list").await, "");
    mock.terminate().await;
}
