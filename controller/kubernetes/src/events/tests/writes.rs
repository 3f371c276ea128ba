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
    assert_eq!(
        requests[0].body,
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "n1.18e43211121ca500", "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "0b6e"},
            "type": "Normal",
            "reason": "Synced",
            "message": "Node synced successfully",
            "count": 1,
            "firstTimestamp": "2026-11-02T10:00:00Z",
            "lastTimestamp": "2026-11-02T10:00:00Z",
            "source": {"component": "cloud-node-controller"},
            "reportingComponent": "cloud-node-controller",
            "reportingInstance": "",
        })
    );
    assert_eq!(rig.metrics.created.get(), 1);
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
    rig.at(90 * SECOND).await;
    rig.synced("n1");
    assert!(rig.events.flush(SECOND).await);
    let patch = &rig.requests()[1];
    assert_eq!(patch.method, "PATCH");
    assert_eq!(
        patch.path,
        "/api/v1/namespaces/default/events/n1.18e43211121ca500?fieldValidation=Ignore"
    );
    assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    assert_eq!(
        patch.body,
        json!({
            "count": 2,
            "lastTimestamp": "2026-11-02T10:01:30Z",
            "message": "Node synced successfully",
        })
    );
    assert_eq!(rig.metrics.repeated.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn e2_repeats_of_an_event_that_is_being_written_become_one_patch() {
    let rig = Rig::start(&[Answer(SECOND, 201)]);
    rig.synced("n1");
    rig.at(MS).await;
    for _ in 0..19 {
        rig.synced("n1");
    }
    assert!(rig.events.flush(2 * SECOND).await);
    assert_eq!(rig.writes(), writes(&[("POST", 1), ("PATCH", 20)]));
}

#[tokio::test(start_paused = true)]
async fn e2_repeats_before_the_first_write_become_one_post() {
    let rig = Rig::start(&[]);
    for _ in 0..3 {
        rig.synced("n1");
    }
    assert!(rig.events.flush(SECOND).await);
    let counted: u64 = rig.writes().iter().map(|(_, count)| *count).max().unwrap();
    assert_eq!(counted, 3);
    assert!(
        rig.writes()[1..]
            .iter()
            .all(|(method, _)| method == "PATCH")
    );
}

#[tokio::test(start_paused = true)]
async fn e3_many_messages_are_folded_into_one_event() {
    let rig = Rig::start(&[]);
    for n in 1..=12 {
        rig.says("n1", &format!("address {n}"));
        rig.at(n * SECOND).await;
    }
    assert!(rig.events.flush(SECOND).await);
    let requests = rig.requests();
    let folded = "(combined from similar events): address";
    assert_eq!(requests[8].body["message"], "address 9");
    assert_eq!(requests[9].method, "POST");
    assert_eq!(requests[9].body["message"], format!("{folded} 10"));
    assert_eq!(requests[11].method, "PATCH");
    assert_eq!(requests[11].body["message"], format!("{folded} 12"));
    assert_eq!(requests[11].body["count"], 3);
}

#[tokio::test(start_paused = true)]
async fn e4_a_chatty_source_is_cut_off() {
    let rig = Rig::start(&[]);
    for n in 0..40 {
        rig.at(n * SECOND).await;
        rig.synced("n1");
    }
    assert!(rig.events.flush(SECOND).await);
    assert_eq!(rig.requests().len(), 20);
    assert_eq!(rig.metrics.spam.get(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_long_message_is_cut() {
    let rig = Rig::start(&[]);
    rig.says("n1", &"ä".repeat(4000));
    assert!(rig.events.flush(SECOND).await);
    assert_eq!(rig.requests()[0].body["message"], "ä".repeat(512));
}

#[tokio::test(start_paused = true)]
async fn few_writes_are_in_flight() {
    let rig = Rig::start(&[]);
    rig.script.lock().otherwise = Some(Answer(10 * MS, 201));
    for n in 0..100 {
        rig.synced(&format!("n{n}"));
    }
    assert!(rig.events.flush(SECOND).await);
    assert_eq!(rig.requests().len(), 100);
    assert_eq!(rig.script.lock().most_in_flight, 4);
}
