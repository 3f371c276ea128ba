//! Routes that carry packets.

use std::io::ErrorKind;

use outrigger_provider_linux::load_balancer::internal;
use outrigger_provider_sdk::v1::Route;
use outrigger_provider_sdk::{ErrorReason, Routes as _};

use crate::rig::{Rig, Server, context, tcp};

/// A route to this Pod CIDR that leads to the machine.
fn route(cidr: &str, server: &Server) -> Route {
    let addresses = server.machine.addresses.iter().copied();
    Route {
        destination_cidr: cidr.to_owned(),
        node_name: server.machine.name.clone(),
        node_addresses: addresses.map(internal).collect(),
        ..Route::default()
    }
}

#[test]
fn pods_are_reached_by_the_routes_of_their_cluster_alone() {
    let Some(rig) = Rig::new("troutes") else {
        return;
    };
    let [one, two] = ["worker-1", "worker-2"]
        .map(|name| Server::start(rig.machine(name), &["10.244.1.5", "fd00:244:1::5"], &[80]));
    let client = rig.machine("client");
    let provider = rig.provider();
    let (create, delete) = (
        |route: Route| {
            rig.in_router(async || provider.create_route(&context("cluster-1"), &route).await)
        },
        |cluster: &str, route: &Route| {
            rig.in_router(async || provider.delete_route(&context(cluster), route).await)
        },
    );
    assert!(tcp(&client, "10.244.1.5", 80).is_err());
    for (cidr, pod) in [
        ("10.244.1.0/24", "10.244.1.5"),
        ("fd00:244:1::/64", "fd00:244:1::5"),
    ] {
        for _ in 0..2 {
            create(route(cidr, &one)).unwrap();
        }
        assert_eq!(tcp(&client, pod, 80).unwrap(), "worker-1");
        let error = create(route(cidr, &two)).unwrap_err();
        assert_eq!(
            error.reason(),
            Some(ErrorReason::ConflictingResource),
            "{error}"
        );
        // Another cluster, and another Node, have no such route.
        delete("cluster-2", &route(cidr, &one)).unwrap();
        delete("cluster-1", &route(cidr, &two)).unwrap();
        assert_eq!(tcp(&client, pod, 80).unwrap(), "worker-1");
        delete("cluster-1", &route(cidr, &one)).unwrap();
        assert!(tcp(&client, pod, 80).is_err());
        create(route(cidr, &two)).unwrap();
        assert_eq!(tcp(&client, pod, 80).unwrap(), "worker-2");
    }
    rig.runtime
        .block_on(rig.cloud.power("worker-1", false))
        .unwrap();
    let error = create(route("10.244.9.0/24", &one)).unwrap_err();
    assert_eq!(
        error.reason(),
        Some(ErrorReason::DependencyNotReady),
        "{error}"
    );
    rig.in_router(async || outrigger_provider_linux::clean_up_routes("cluster-1").await)
        .unwrap();
    assert_ne!(tcp(&client, "10.244.1.5", 80), Ok("worker-2".to_owned()));
    assert_eq!(rig.traces(), "");
    assert_eq!(
        tcp(&client, "fd00:244:1::5", 80).unwrap_err(),
        ErrorKind::NetworkUnreachable
    );
}
