//! Routes of a running mock.

use outrigger_api::v1::routes_service_client::RoutesServiceClient;
use outrigger_api::v1::{CallContext, CreateRouteRequest, NodeAddress, Route};
use serde_json::Value;
use tonic::Code;

use crate::harness::{Served, within};

/// Makes a route. Returns how that ended.
async fn create(mock: &Served, destination: &str, node: &str) -> Code {
    let request = CreateRouteRequest {
        context: Some(CallContext {
            request_id: "r".into(),
            cluster_name: "kubernetes".into(),
            ..CallContext::default()
        }),
        route: Some(Route {
            destination_cidr: destination.into(),
            node_name: node.into(),
            provider_id: format!("mock://{node}"),
            node_addresses: vec![NodeAddress {
                r#type: "InternalIP".into(),
                address: "10.0.0.1".into(),
            }],
            ..Route::default()
        }),
    };
    let mut client = RoutesServiceClient::new(mock.channel().await);
    let made = within("creating", client.create_route(request)).await;
    made.err().map_or(Code::Ok, |error| error.code())
}

#[tokio::test]
async fn routes_are_listed_added_changed_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &["--routes"]).await;
    assert_eq!(mock.ctl("routes list").await, "");
    assert_eq!(create(&mock, "10.1.0.0/24", "n-1").await, Code::Ok);
    let listed = mock.ctl("routes list").await;
    let fields: Vec<&str> = listed.trim_end().split('\t').collect();
    let name = fields[0].to_owned();
    assert_eq!(
        fields[1..],
        [
            "10.1.0.0/24",
            "n-1",
            "mock://n-1",
            "10.0.0.1",
            "kubernetes",
            "active"
        ]
    );
    let added = mock.ctl("routes add 10.1.0.7/24 --next-hop 10.0.0.9").await;
    assert_eq!(added, "added by-hand-1 (10.1.0.7/24)\n");
    let added = mock
        .ctl("routes add 2001:db8::/64 --name theirs --cluster other --node n-9 --blackhole")
        .await;
    assert_eq!(added, "added theirs (2001:db8::/64)\n");
    assert!(mock.ctl("status").await.contains("routes\t3\n"));

    // One destination has two routes now: both are meant.
    let changed = mock.ctl("routes blackhole 10.1.0.0/24").await;
    let expected = format!("changed by-hand-1 (10.1.0.7/24)\nchanged {name} (10.1.0.0/24)\n");
    assert_eq!(changed, expected);
    let edit = "--node n-2 --provider-id mock://n-2 --next-hop 10.0.0.2 --blackhole false --untag";
    mock.ctl(&format!("routes edit {name} {edit}")).await;
    let json: Value = serde_json::from_str(&mock.ctl("routes list -o json").await).unwrap();
    let by_hand = &json["routes"][0];
    assert_eq!(by_hand["blackhole"], true);
    assert_eq!(by_hand["target"]["nextHop"], "10.0.0.9");
    let edited = &json["routes"][1];
    assert_eq!(edited["target"]["node"], "n-2");
    assert_eq!(edited["target"]["providerId"], "mock://n-2");
    assert_eq!(edited["target"]["nextHop"], "10.0.0.2");
    assert_eq!(
        (&edited["blackhole"], &edited["cluster"]),
        (&Value::Bool(false), &Value::Null)
    );

    for (command, says) in [
        ("routes add 10.1.0.0", "is no CIDR"),
        (
            "routes add 10.1.0.0/24 --name theirs",
            "a route theirs already",
        ),
        (
            "routes add 10.1.0.0/24 --node n\u{1b}[2J",
            "control characters",
        ),
        ("routes edit theirs --node n\u{7}", "control characters"),
        (
            "routes remove theirs r-9",
            "no route r-9; nothing was changed",
        ),
        ("routes blackhole 10.9.0.0/24", "no route 10.9.0.0/24"),
        ("routes remove", "<NAME|ID>"),
    ] {
        let error = mock.ctl_fails(command).await;
        assert!(error.contains(says), "{command}: {error}");
    }
    let removed = mock.ctl("routes remove theirs").await;
    assert_eq!(removed, "removed theirs (2001:db8::/64)\n");
    assert_eq!(mock.ctl("routes remove --all").await.lines().count(), 2);
    let counters = mock.ctl("counters").await;
    assert!(
        counters.contains("call\tCreateRoute\tOK\t1\n"),
        "{counters}"
    );
    assert!(
        counters.contains("cloud\tCreateRoute\tserved\t1\n"),
        "{counters}"
    );
    mock.terminate().await;
}

#[tokio::test]
async fn faults_of_routes_are_set_from_outside() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &["--routes"]).await;
    for (command, says) in [
        (
            "set errors --method CreateRoute --code RESOURCE_EXHAUSTED --reason QUOTA_EXCEEDED \
             --route 10.1.0.0/24 --count 1",
            "set: CreateRoute fails with RESOURCE_EXHAUSTED (QUOTA_EXCEEDED, \
             retry after 1s), about 10.1.0.0/24, once\n",
        ),
        (
            "answers --bad malformed-cidr --method ListRoutes --route 10.1.0.0/24",
            "set: answers of ListRoutes are bad: malformed-cidr, about 10.1.0.0/24, until cleared\n",
        ),
        (
            "hang --method DeleteRoute --for 1s",
            "set: DeleteRoute hangs for 1s, until cleared\n",
        ),
    ] {
        assert_eq!(mock.ctl(command).await, says);
    }
    // A fault replaces the one about its destination only.
    mock.ctl("answers --bad empty --method ListRoutes --route 10.1.1.0/24")
        .await;
    mock.ctl("answers --bad empty --method ListRoutes --route 10.1.1.0/24")
        .await;
    let faults = mock.ctl("status").await;
    assert_eq!(
        faults.matches("answers of ListRoutes").count(),
        2,
        "{faults}"
    );
    let exhausted = Code::ResourceExhausted;
    assert_eq!(create(&mock, "10.1.0.0/24", "n-1").await, exhausted);
    assert_eq!(create(&mock, "10.1.0.0/24", "n-1").await, Code::Ok);
    mock.terminate().await;
}

/// With --state-sync whatever was answered survives a kill.
#[tokio::test]
async fn a_kill_loses_no_route_that_was_answered() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state.json");
    let flags = [
        "--routes",
        "--state",
        state.to_str().unwrap(),
        "--state-sync",
        "--state-interval",
        "1ms",
    ];
    for round in 1..=3 {
        let mock = Served::start(directory.path(), &flags).await;
        let destination = format!("10.1.{round}.0/24");
        assert_eq!(create(&mock, &destination, "n-1").await, Code::Ok);
        mock.kill().await;
    }
    let mock = Served::start(directory.path(), &flags).await;
    let before = mock.ctl("routes list -o json").await;
    assert_eq!(before.matches("\"n-1\"").count(), 3);
    // Found again by its tag, not made again.
    assert_eq!(create(&mock, "10.1.1.0/24", "n-1").await, Code::Ok);
    assert_eq!(mock.ctl("routes list -o json").await, before);
    mock.terminate().await;
}
