//! Requests of the event writer.

use super::*;

#[tokio::test(start_paused = true)]
async fn e1_an_event_is_posted_as_upstream_writes_it() {
    let rig = Rig::start(&[]);
    rig.synced("n1");
    assert!(rig.events.flush(SECOND).await);
    let requests = rig.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].method, "POST");
    assert_eq!(requests[0].path, "/api/v1/namespaces/default/events");
    assert_eq!(requests[0].content_type, "application/json");
    assert!(requests[0].accept.contains("as=PartialObjectMetadata"));
    let body = &requests[0].body;
    let name = body["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("n1."), "{name}");
    let first = body["firstTimestamp"].as_str().unwrap();
    assert_eq!(first.len(), "2026-11-02T10:00:00Z".len(), "whole seconds");
    assert_eq!(
        *body,
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "0b6e"},
            "type": "Normal",
            "reason": "Synced",
            "message": "Node synced successfully",
            "count": 1,
            "firstTimestamp": first,
            "lastTimestamp": first,
            "source": {"component": "cloud-node-controller"},
            "reportingComponent": "cloud-node-controller",
            "reportingInstance": "",
        })
    );
    assert_eq!(rig.count("created"), 1);
}

#[tokio::test(start_paused = true)]
async fn b10_an_event_lives_where_its_object_lives() {
    let rig = Rig::start(&[]);
    let service = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "77aa", "resourceVersion": "12"},
    });
    let service = ObjectRef::service(&serde_json::from_value(service).unwrap());
    let recorder = rig.events.recorder("service-controller");
    let event = EventContent::warning("SyncLoadBalancerFailed", "no quota");
    recorder.event(service, event);
    assert!(rig.events.flush(SECOND).await);
    let [request] = &rig.requests()[..] else {
        panic!("{:?}", rig.requests())
    };
    assert_eq!(request.path, "/api/v1/namespaces/shop/events");
    assert_eq!(request.body["metadata"]["namespace"], "shop");
    assert_eq!(
        request.body["involvedObject"],
        json!({
            "apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web",
            "uid": "77aa", "resourceVersion": "12",
        })
    );
    assert_eq!(request.body["reason"], "SyncLoadBalancerFailed");
    assert_eq!(request.body["type"], "Warning");
    assert_eq!(request.body["reportingComponent"], "service-controller");
}

#[tokio::test(start_paused = true)]
async fn e2_a_repeat_is_a_patch_of_count_and_time() {
    let rig = Rig::start(&[]);
    rig.synced("n1");
    rig.synced("n1");
    assert!(rig.events.flush(SECOND).await);
    let [post, patch] = &rig.requests()[..] else {
        panic!("{:?}", rig.requests())
    };
    assert_eq!(patch.method, "PATCH");
    let name = post.body["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        patch.path,
        format!("/api/v1/namespaces/default/events/{name}?fieldValidation=Ignore")
    );
    assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    let last = patch.body["lastTimestamp"].as_str().unwrap();
    assert_eq!(patch.body, json!({"count": 2, "lastTimestamp": last}));
    assert_eq!(rig.count("repeated"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_message_is_cut() {
    let rig = Rig::start(&[]);
    rig.says("n1", &"ä".repeat(4000));
    assert!(rig.events.flush(SECOND).await);
    assert_eq!(rig.requests()[0].body["message"], "ä".repeat(512));
}

#[tokio::test(start_paused = true)]
async fn one_write_is_in_flight() {
    let rig = Rig::start(&[]);
    rig.script.lock().otherwise = Some(Answer(10 * MS, 201));
    for n in 0..100 {
        rig.synced(&format!("n{n}"));
    }
    assert!(rig.events.flush(2 * SECOND).await);
    assert_eq!(rig.requests().len(), 100);
    assert_eq!(rig.script.lock().most_in_flight, 1);
}
