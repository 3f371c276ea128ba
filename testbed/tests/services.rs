//! Services, with a test client instead of the controller to set their addresses.

// Helpers of tests, too, fail by panicking.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use outrigger_testbed::{
    Error,
    nodes::Load,
    services::{self, Exposure},
    shared,
};
use serde_json::json;

const LABEL: &str = "example.com/of";

/// Creates a namespace.
async fn namespace(client: &Client, name: &str) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    made.unwrap();
}

fn exposure(namespace: &str, count: usize, timeout: Duration) -> Exposure<'_> {
    let names = services::numbered("web-", count);
    Exposure {
        namespace,
        services: names
            .map(|name| services::balanced(&name, (LABEL, "tests")))
            .collect(),
        selector: LABEL,
        is_ready: |service| !services::addresses(service).is_empty(),
        load: Load::default(),
        timeout,
    }
}

async fn set_address(services: &Api<Service>, name: &str, address: &str) {
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
    let (parameters, status) = (PatchParams::default(), Patch::Merge(status));
    while services
        .patch_status(name, &parameters, &status)
        .await
        .is_err()
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn services_are_made_and_seen_when_they_have_addresses() {
    let client = shared().await.unwrap().client().unwrap();
    namespace(&client, "exposed").await;
    let api: Api<Service> = Api::namespaced(client.clone(), "exposed");
    let addressing = async {
        for number in 0..5 {
            let (name, address) = (format!("web-{number:05}"), format!("198.18.0.{number}"));
            set_address(&api, &name, &address).await;
        }
    };
    let mut events = Vec::new();
    let exposure = exposure("exposed", 5, Duration::from_mins(1));
    let (exposed, ()) = tokio::join!(
        exposure.run(&client, |ready| events.push(ready)),
        addressing
    );
    let exposed = exposed.unwrap();
    assert_eq!(events, [1, 2, 3, 4, 5]);
    let addresses = exposed.objects.iter().map(|(service, _)| {
        let addresses = services::addresses(service);
        addresses.join(",")
    });
    let expected = (0..5).map(|number| format!("198.18.0.{number}"));
    assert!(addresses.eq(expected));
    assert!(exposed.percentile(0.5) <= exposed.percentile(1.0));
    assert!(exposed.percentile(1.0) <= exposed.ready);

    let names = services::list(&client, "exposed").await.unwrap();
    assert_eq!(names.len(), 5);
    let [names, again] = [&names, &names].map(|names| names.iter().cloned().collect());
    let minute = Duration::from_mins(1);
    for names in [names, again] {
        let deleted = services::delete_all(&client, "exposed", names, Load::default(), minute);
        deleted.await.unwrap();
        let left = services::list(&client, "exposed").await.unwrap();
        assert_eq!(left, [""; 0]);
    }
}

#[tokio::test]
async fn those_without_an_address_are_named_and_those_that_are_not_gone() {
    let client = shared().await.unwrap().client().unwrap();
    namespace(&client, "waiting").await;
    let api: Api<Service> = Api::namespaced(client.clone(), "waiting");
    let exposure = exposure("waiting", 2, Duration::from_secs(3));
    let addressing = set_address(&api, "web-00001", "198.18.0.1");
    let (exposed, ()) = tokio::join!(exposure.run(&client, |_| {}), addressing);
    let error = exposed.unwrap_err();
    assert!(matches!(&error, Error::Unready { late, .. } if *late == ["web-00000"]));
    assert_eq!(error.to_string(), "web-00000 has no address within 3s");

    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    let (parameters, held) = (PatchParams::default(), Patch::Merge(held));
    api.patch("web-00001", &parameters, &held).await.unwrap();
    let names = services::list(&client, "waiting").await.unwrap();
    let names = names.into_iter().collect();
    let soon = Duration::from_millis(300);
    let deleted = services::delete_all(&client, "waiting", names, Load::default(), soon).await;
    let error = deleted.unwrap_err().to_string();
    assert_eq!(error, "web-00001 is not gone within 300ms of being deleted");
}
