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
    assert_eq!(create(&mock, "10.1.0.0/24", "n-1").await, Code::Ok);
    let made = mock.json("routes").await;
    let name = made["routes"][0]["name"].as_str().unwrap().to_owned();
    assert_eq!(made["routes"][0]["target"]["nextHop"], "10.0.0.1");
    let added = mock.json("add-route 10.1.0.7/24 --next-hop 10.0.0.9").await;
    assert_eq!(added["routes"][0]["name"], "by-hand-1");
    mock.ctl("add-route 2001:db8::/64 --name theirs --cluster other --node n-9 --blackhole")
        .await;
    assert_eq!(mock.json("status").await["routes"], 3);

    // One destination has two routes now: both are meant.
    let edited = mock.count("edit-routes --blackhole true 10.1.0.0/24", "routes");
    assert_eq!(edited.await, 2);
    let edit = "--node n-2 --provider-id mock://n-2 --next-hop 10.0.0.2 --blackhole false --untag";
    mock.ctl(&format!("edit-routes {name} {edit}")).await;
    let json = mock.json("routes").await;
    assert_eq!(json["routes"][0]["blackhole"], true);
    let edited = &json["routes"][1];
    assert_eq!(edited["target"]["node"], "n-2");
    assert_eq!(edited["target"]["providerId"], "mock://n-2");
    assert_eq!(
        (&edited["blackhole"], &edited["cluster"]),
        (&Value::Bool(false), &Value::Null)
    );

    for (command, says) in [
        ("add-route 10.1.0.0", "is no CIDR"),
        (
            "add-route 10.1.0.0/24 --name theirs",
            "a route theirs already",
        ),
        (
            "add-route 10.1.0.0/24 --node n\u{1b}[2J",
            "control characters",
        ),
        ("edit-routes theirs --node n\u{7}", "control characters"),
        (
            "remove-routes theirs r-9",
            "no route r-9; nothing was changed",
        ),
        ("edit-routes 10.9.0.0/24 --untag", "no route 10.9.0.0/24"),
        ("remove-routes", "<NAME|ID>"),
    ] {
        let error = mock.ctl_fails(command).await;
        assert!(error.contains(says), "{command}: {error}");
    }
    assert_eq!(mock.count("remove-routes theirs", "routes").await, 1);
    assert_eq!(mock.count("remove-routes --all", "routes").await, 2);
    mock.terminate().await;
}
