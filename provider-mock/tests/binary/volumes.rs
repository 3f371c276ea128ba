//! Volumes of a running mock.

use outrigger_api::v1::{
    BatchGetVolumesRequest, CallContext, CsiVolumeSource, Volume, VolumeResult, VolumeSource,
    volume_result::Outcome, volume_source::Source, volumes_service_client::VolumesServiceClient,
};
use serde_json::Value;

use crate::harness::{Served, within};

const FLAGS: [&str; 2] = ["--csi-driver", "disk.example"];

/// Asks about volumes in one call.
async fn ask(mock: &Served, handles: &[&str]) -> Vec<VolumeResult> {
    let volumes = handles.iter().map(|&handle| Volume {
        key: format!("key of {handle}"),
        source: Some(VolumeSource {
            source: Some(Source::Csi(CsiVolumeSource {
                driver: "disk.example".into(),
                volume_handle: handle.into(),
                ..CsiVolumeSource::default()
            })),
        }),
        ..Volume::default()
    });
    let request = BatchGetVolumesRequest {
        context: Some(CallContext {
            request_id: "r".into(),
            cluster_name: "kubernetes".into(),
            ..CallContext::default()
        }),
        items: volumes.collect(),
    };
    let mut client = VolumesServiceClient::new(mock.channel().await);
    let answer = within("the lookup", client.batch_get_volumes(request)).await;
    answer.unwrap().into_inner().results
}

/// The zones in a result; none if the volume is not found.
fn zones(result: &VolumeResult) -> Option<&str> {
    match &result.outcome {
        Some(Outcome::Found(topology)) => {
            let zone = topology.labels.get("topology.kubernetes.io/zone");
            Some(zone.map_or("", String::as_str))
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
    let results = ask(&mock, &["vol-1", "vol-2", "vol-3"]).await;
    let zones_of_results: Vec<_> = results.iter().map(zones).collect();
    assert_eq!(zones_of_results, [Some("mock-1a__mock-1b"), Some(""), None]);

    // A field that is left out is not kept.
    mock.ctl("volumes set vol-1 --zone mock-1c").await;
    assert_eq!(zones(&ask(&mock, &["vol-1"]).await[0]), Some("mock-1c"));
    for state in ["foreign", "failing", "hidden"] {
        mock.ctl(&format!("volumes set vol-1 --state {state}"))
            .await;
        let json: Value = serde_json::from_str(&mock.ctl("volumes list -o json").await).unwrap();
        assert_eq!(json["volumes"][0]["state"], state);
        let result = &ask(&mock, &["vol-1"]).await[0];
        let is_foreign = matches!(result.outcome, Some(Outcome::NotManaged(_)));
        assert_eq!((zones(result), is_foreign), (None, state == "foreign"));
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
    for line in [
        "items\tBatchGetVolumes\tasked\t7\n",
        "cloud\tGetVolume\tserved\t7\n",
    ] {
        assert!(counters.contains(line), "{counters}");
    }
    mock.terminate().await;
}

#[tokio::test]
async fn one_volume_of_a_lookup_fails_as_it_was_set() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &FLAGS).await;
    for handle in ["vol-1", "vol-2"] {
        mock.ctl(&format!("volumes set {handle} --zone a")).await;
    }
    let set = "set errors --method BatchGetVolumes --code UNAVAILABLE --per-item --volume";
    let said = mock.ctl(&format!("{set} vol-1 --count 1")).await;
    let expected = "set: items of BatchGetVolumes fail with UNAVAILABLE (CLOUD_UNAVAILABLE), about \
                    vol-1, once\n";
    assert_eq!(said, expected);
    // One about another volume does not take its place.
    mock.ctl(&format!("{set} vol-9")).await;
    let results = ask(&mock, &["vol-1", "vol-2"]).await;
    assert_eq!(zones(&results[1]), Some("a"));
    let Some(Outcome::Error(error)) = &results[0].outcome else {
        panic!("{results:?}")
    };
    assert_eq!(error.code, tonic::Code::Unavailable as i32);
    assert_eq!(zones(&ask(&mock, &["vol-1"]).await[0]), Some("a"));
    let error = mock
        .ctl_fails("set errors --code UNAVAILABLE --volume vol-1")
        .await;
    assert!(error.contains("--per-item"), "{error}");
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
    assert_eq!(zones(&ask(&mock, &["vol-1"]).await[0]), Some("a"));
    mock.ctl("volumes delete --all").await;
    mock.terminate().await;
    let mock = Served::start(directory.path(), &flags).await;
    assert_eq!(mock.ctl("volumes list").await, "");
    mock.terminate().await;
}
