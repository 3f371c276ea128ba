//! Another client undoes what the loop has written, whenever it sees it.

use serde_json::Value;

use super::*;

/// The other client watches the Service for some seconds.
async fn undoing(rig: &Rig, seconds: u64, undo: impl Fn(&mut Value)) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let mut undone = rig.cluster.service(WEB).unwrap();
        let settled = undone.clone();
        undo(&mut undone);
        if undone != settled {
            rig.cluster.change_service(WEB, |web| undo(web));
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn clear(web: &mut Value) {
    web["status"]["loadBalancer"] = json!({});
}

/// Beside the address that the provider gave.
fn add(web: &mut Value) {
    let ingress = &mut web["status"]["loadBalancer"]["ingress"];
    *ingress = json!([ingress[0], {"ip": "203.0.113.9", "ipMode": "VIP"}]);
}

fn release(web: &mut Value) {
    web["metadata"]["finalizers"] = json!([]);
}

fn forget(web: &mut Value) {
    let annotations = web["metadata"]["annotations"].as_object_mut();
    annotations.unwrap().remove("outrigger.dev/last-applied");
}

/// After 0, 5 and 15 s, and then ever more rarely.
#[tokio::test(start_paused = true)]
async fn another_clients_write_is_answered_with_back_off_and_without_a_call() {
    for undo in [clear, add, release, forget] {
        let rig = Rig::start().await;
        rig.cluster.create_service(service("web"));
        rig.ready(WEB).await;
        let settled = rig.cluster.service(WEB).unwrap();
        let before = rig.writes();
        undoing(&rig, 20, undo).await;
        assert_eq!(rig.writes() - before, 3, "{:?}", rig.cluster.log());
        undoing(&rig, 580, undo).await;
        assert_eq!(rig.writes() - before, 7, "{:?}", rig.cluster.log());
        assert_eq!(rig.mutations(), 1);
        // The other client gives up.
        secs(300).await;
        let now = rig.cluster.service(WEB).unwrap();
        for path in [
            "/status/loadBalancer",
            "/metadata/finalizers",
            "/metadata/annotations",
        ] {
            assert_eq!(now.pointer(path), settled.pointer(path), "{path}");
        }
        // A single write after ten minutes of peace is put right at once.
        secs(600).await;
        let warnings = |rig: &Rig| {
            let events = rig.events();
            let of_it = events.iter().filter(|e| *e == "OverwrittenByAnotherClient");
            of_it.count()
        };
        let warned = warnings(&rig);
        assert!(warned > 0, "{:?}", rig.events());
        let writes = rig.writes();
        rig.cluster.change_service(WEB, undo);
        secs(1).await;
        assert_eq!((rig.writes() - writes, warnings(&rig)), (1, warned));
        assert_eq!(rig.mutations(), 1);
    }
}
