//! The condition `NetworkUnavailable`.

use super::*;

fn patches(fixture: &Fixture) -> usize {
    let writes = fixture.api_writes();
    let patches = writes.iter().filter(|write| write.starts_with("PATCH"));
    patches.count()
}

fn with_condition(node: Value, status: &str, reason: &str) -> Value {
    let mut node = node;
    node["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({
            "type": "NetworkUnavailable", "status": status, "reason": reason,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }));
    node
}

/// by its own key, whatever a heartbeat writes meanwhile, and the others stay.
#[tokio::test(start_paused = true)]
async fn a_heartbeat_does_not_refuse_the_condition() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).prepare();
    fixture.cluster.before_next_patch(|node| {
        node["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-02-01T00:00:00Z".into();
    });
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    let conditions = fixture.live("a")["status"]["conditions"].clone();
    let mut conditions = conditions.as_array().unwrap().iter();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    assert_eq!(ready.unwrap()["lastHeartbeatTime"], "2026-02-01T00:00:00Z");
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
    assert_eq!(patches(&fixture), 1);
}

/// The UID in the patch: a Node that was made again has routes of its own to wait for.
#[tokio::test(start_paused = true)]
async fn a_node_made_again_does_not_get_the_condition_of_the_last_one() {
    let fixture = Rig::with([routed("a", 1, &[A])], [route(A, "a", 1)]).prepare();
    fixture.cluster.before_next_patch(|node| {
        node["metadata"]["uid"] = "another".into();
    });
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    fixture.settle().await;
    assert_eq!(condition(&fixture, "a"), None);
    fixture.refresh("a");
    fixture.settle().await;
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
}

/// Another client's condition is put right, but not fought over.
#[tokio::test(start_paused = true)]
async fn a_condition_of_another_client_is_put_right_with_the_next_list() {
    let fixture = Rig::with([routed("a", 1, &[A])], []).begun().await;
    fixture.cluster.change_node("a", |node| {
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        let mut conditions = conditions.iter_mut();
        let theirs = conditions.find(|condition| condition["type"] == "NetworkUnavailable");
        let condition = theirs.unwrap();
        condition["status"] = "True".into();
        condition["reason"] = "Theirs".into();
    });
    fixture.refresh("a");
    fixture.settle().await;
    assert_eq!(condition(&fixture, "a").as_deref(), Some("True Theirs"));
    next_list(&fixture).await;
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
}

/// The answer comes after the Node was made again: its effects are about the last one.
#[tokio::test(start_paused = true)]
async fn effects_do_not_reach_a_node_of_the_same_name() {
    let rig = Rig {
        served: ServedRoutes {
            effects: true,
            ..ServedRoutes::default()
        },
        ..Rig::with(
            [routed("a", 1, &[A]), routed("b", 2, &["10.244.2.0/24"])],
            [],
        )
    };
    let fixture = rig.prepare();
    // The route of `a` is about to be made, that of `b` to be deleted.
    let stale = Route {
        blackhole: true,
        ..route("10.244.2.0/24", "b", 2)
    };
    add(&fixture, stale);
    for method in [Method::CreateRoute, Method::DeleteRoute] {
        let duration = Some(Duration::from_secs(5));
        inject(&fixture, method, Effect::Hang { duration }, 1);
    }
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut without = routed("b", 2, &[]);
    without["spec"].as_object_mut().unwrap().remove("podCIDRs");
    for (name, mut again) in [("a", routed("a", 1, &[A])), ("b", without)] {
        fixture.vanish(name);
        again["metadata"]["uid"] = "another".into();
        again["metadata"]["annotations"] = json!({"status.mock.example/route": "theirs"});
        fixture.register(again);
    }
    fixture.settle().await;
    assert_eq!(asked(&fixture, "CreateRoute"), 1);
    assert_eq!(asked(&fixture, "DeleteRoute"), 1);
    for name in ["a", "b"] {
        let annotations = fixture.live(name)["metadata"]["annotations"].clone();
        assert_eq!(annotations["status.mock.example/route"], "theirs", "{name}");
    }
    assert_eq!(fixture.events(), [""; 0]);
}

/// Beside results: of the Node that the route leads to, in a write of their own.
#[tokio::test(start_paused = true)]
async fn effects_of_the_provider_reach_the_node() {
    let rig = Rig {
        served: ServedRoutes {
            effects: true,
            ..ServedRoutes::default()
        },
        ..Rig::with([routed("a", 1, &[A])], [])
    };
    let fixture = rig.begun().await;
    let annotations = || fixture.live("a")["metadata"]["annotations"].clone();
    assert!(annotations()["status.mock.example/route"].is_string());
    assert!(fixture.events().contains(&"MockRouteMade".to_owned()));
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
    assert_eq!(patches(&fixture), 2);

    // The route leads nowhere: it is deleted, then made again.
    fixture.cluster.refuse("/status", 500, 2);
    change_route(&fixture, A, |route| route.blackhole = true);
    let before = fixture.events().len();
    next_list(&fixture).await;
    assert!(annotations()["status.mock.example/route"].is_string());
    assert!(fixture.events()[before..].contains(&"MockRouteMade".to_owned()));
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
}

/// Upstream's is not written before the first list either; here nothing may keep Pods from the Node else.
#[tokio::test(start_paused = true)]
async fn a_new_node_without_a_route_says_that_the_routes_cannot_be_listed() {
    let missing =
        outrigger_provider_mock::faults::InjectedError::new(tonic::Code::PermissionDenied)
            .with_reason("PERMISSION_MISSING")
            .with_message("routes.list is not allowed");
    let had = with_condition(routed("b", 2, &["10.244.2.0/24"]), "False", "RouteCreated");
    let fixture = Rig::with([routed("a", 1, &[A]), had], []).prepare();
    fixture
        .cloud
        .inject(Fault::on(Method::ListRoutes, Effect::Error(missing)));
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(condition(&fixture, "a").as_deref(), NOT_CREATED);
    let said = message(&fixture, "a");
    assert!(
        said.contains("cannot be listed") && said.contains("routes.list is not allowed"),
        "{said}"
    );
    assert_eq!(condition(&fixture, "b").as_deref(), CREATED);
    fixture.cloud.clear_faults();
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
}
