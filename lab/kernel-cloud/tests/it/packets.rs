//! Load balancers that carry packets.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use outrigger_provider_linux::LinuxProvider;
use outrigger_provider_sdk::v1::{
    DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, GetLoadBalancerRequest,
    LoadBalancerAnswer,
    LoadBalancerDisposition::{Differs, Ready},
    LoadBalancerIngress, LoadBalancerStatus, Service, UpdateLoadBalancerNodesRequest,
};
use outrigger_provider_sdk::{LoadBalancers as _, Targets};

use crate::rig::{
    Connection, Datagrams, HEALTH, Rig, Server, context, inside, service, targets, tcp,
};

const V4: &str = "198.51.100.0";
const V6: &str = "2001:db8:1::";

async fn get(
    provider: &LinuxProvider,
    service: &Service,
    targets: Option<&Targets>,
) -> LoadBalancerAnswer {
    let request = GetLoadBalancerRequest {
        service: Some(service.clone()),
        ..GetLoadBalancerRequest::default()
    };
    let ctx = context("cluster-1");
    let observed = provider.get_load_balancer(&ctx, &request, targets);
    observed.await.unwrap()
}

/// Ensures, and returns the addresses.
fn ensure(
    rig: &Rig,
    provider: &LinuxProvider,
    service: &Service,
    targets: &Targets,
) -> Vec<IpAddr> {
    let request = EnsureLoadBalancerRequest {
        service: Some(service.clone()),
        ..EnsureLoadBalancerRequest::default()
    };
    let ensured = rig.in_router(async || {
        let ctx = context("cluster-1");
        let ensured = provider.ensure_load_balancer(&ctx, &request, targets);
        let ensured = ensured.await.unwrap();
        let observed = get(provider, service, Some(targets)).await;
        assert_eq!(observed.disposition(), Ready, "{observed:?}");
        ensured
    });
    assert_eq!(ensured.disposition(), Ready, "{ensured:?}");
    let address = |ingress: LoadBalancerIngress| {
        assert_eq!(ingress.ip_mode.as_deref(), Some("VIP"));
        ingress.ip.parse().unwrap()
    };
    let ingress = ensured.status.unwrap().ingress.into_iter();
    ingress.map(address).collect()
}

fn update(rig: &Rig, provider: &LinuxProvider, service: &Service, targets: &Targets) {
    let request = UpdateLoadBalancerNodesRequest {
        service: Some(service.clone()),
        ..UpdateLoadBalancerNodesRequest::default()
    };
    let updated = rig.in_router(async || {
        let ctx = context("cluster-1");
        let updated = provider.update_load_balancer_nodes(&ctx, &request, targets);
        updated.await.unwrap()
    });
    assert_eq!(updated.disposition(), Ready, "{updated:?}");
}

fn round(rig: &Rig, provider: &LinuxProvider) {
    rig.in_router(async || provider.balancer().round().await)
        .unwrap();
}

/// Two servers and a client.
fn machines(rig: &Rig) -> (Server, Server, outrigger_provider_linux::cloud::Machine) {
    let [one, two] =
        ["worker-1", "worker-2"].map(|name| Server::start(rig.machine(name), &[V4, V6], &[80, 53]));
    (one, two, rig.machine("client"))
}

fn answers<T: Ord>(count: usize, ask: impl FnMut(usize) -> T) -> BTreeSet<T> {
    (0..count).map(ask).collect()
}

#[test]
fn connections_of_both_families_and_protocols_are_spread_over_the_targets() {
    let Some(rig) = Rig::new("tspread") else {
        return;
    };
    let (one, two, client) = machines(&rig);
    let provider = rig.provider();
    let web = service("web", &[("TCP", 80), ("UDP", 53)], &["IPv6", "IPv4"]);
    let addresses = ensure(&rig, &provider, &web, &targets(&[&one, &two]));
    assert_eq!(
        addresses,
        [V6.parse::<IpAddr>().unwrap(), V4.parse().unwrap()]
    );
    let both = BTreeSet::from(["worker-1".to_owned(), "worker-2".to_owned()]);
    for address in [V4, V6] {
        assert_eq!(
            answers(4, |_| tcp(&client, address, 80).unwrap()),
            both,
            "{address}"
        );
        assert_eq!(
            answers(4, |_| Datagrams::open(&client, address, 53).ask().unwrap()),
            both,
            "{address}"
        );
    }
    // The server sees the client itself.
    let (_, client_at_server) = Connection::open(&client, V4, 80).unwrap().ask().unwrap();
    assert_eq!(client_at_server, client.addresses[0].to_string());
    // A machine is a client too, and a port that is none of the Service is refused.
    assert!(tcp(&rig.machine("worker-3"), V4, 80).is_ok());
    assert_eq!(
        tcp(&client, V4, 81).unwrap_err(),
        ErrorKind::ConnectionRefused
    );
    assert_eq!(
        tcp(&client, "198.51.100.7", 80).unwrap_err(),
        ErrorKind::ConnectionRefused
    );
    let delete = DeleteLoadBalancerRequest {
        service: Some(web),
        ..DeleteLoadBalancerRequest::default()
    };
    rig.in_router(async || {
        provider
            .delete_load_balancer(&context("cluster-1"), &delete)
            .await
    })
    .unwrap();
    assert_eq!(
        tcp(&client, V4, 80).unwrap_err(),
        ErrorKind::ConnectionRefused
    );
}

#[test]
fn clients_outside_of_the_source_ranges_are_dropped() {
    let Some(rig) = Rig::new("tranges") else {
        return;
    };
    let (one, _, client) = machines(&rig);
    let provider = rig.provider();
    let allowed = format!("{}/32", client.addresses[0]);
    let web = service("web", &[("TCP", 80)], &["IPv4", "IPv6"]);
    let limited = Service {
        load_balancer_source_ranges: vec!["10.200.0.0/16".to_owned(), allowed],
        ..web.clone()
    };
    ensure(&rig, &provider, &limited, &targets(&[&one]));
    assert_eq!(tcp(&client, V4, 80).unwrap(), "worker-1");
    // Ranges of IPv4 alone let no client of IPv6 in.
    assert_eq!(tcp(&client, V6, 80).unwrap_err(), ErrorKind::TimedOut);
    let elsewhere = Service {
        load_balancer_source_ranges: vec!["10.200.0.0/16".to_owned()],
        ..web.clone()
    };
    ensure(&rig, &provider, &elsewhere, &targets(&[&one]));
    assert_eq!(tcp(&client, V4, 80).unwrap_err(), ErrorKind::TimedOut);
    ensure(&rig, &provider, &web, &targets(&[&one]));
    assert_eq!(tcp(&client, V6, 80).unwrap(), "worker-1");
}

#[test]
fn a_client_stays_at_its_target_and_goes_to_another_when_that_has_gone() {
    let Some(rig) = Rig::new("taffinity") else {
        return;
    };
    let (one, two, client) = machines(&rig);
    let provider = rig.provider();
    let web = Service {
        session_affinity: "ClientIP".to_owned(),
        session_affinity_timeout: Duration::from_secs(30).try_into().ok(),
        ..service("web", &[("TCP", 80)], &["IPv4"])
    };
    ensure(&rig, &provider, &web, &targets(&[&one, &two]));
    let first = answers(6, |_| tcp(&client, V4, 80).unwrap());
    assert_eq!(first.len(), 1);
    let other = if first.contains("worker-1") {
        &two
    } else {
        &one
    };
    update(&rig, &provider, &web, &targets(&[other]));
    assert_eq!(
        answers(3, |_| tcp(&client, V4, 80).unwrap()),
        BTreeSet::from([other.machine.name.clone()])
    );
    // The kernel remembers it over a change of the Service.
    update(&rig, &provider, &web, &targets(&[&one, &two]));
    assert_eq!(
        answers(6, |_| tcp(&client, V4, 80).unwrap()),
        BTreeSet::from([other.machine.name.clone()])
    );
}

#[test]
fn a_target_that_leaves_keeps_its_connections_and_gets_no_new_ones() {
    let Some(rig) = Rig::new("tdrain") else {
        return;
    };
    let (one, two, client) = machines(&rig);
    let provider = rig.provider();
    let web = service("web", &[("TCP", 80), ("UDP", 53)], &["IPv4"]);
    ensure(&rig, &provider, &web, &targets(&[&one]));
    let mut connection = Connection::open(&client, V4, 80).unwrap();
    assert_eq!(connection.ask().unwrap().0, "worker-1");
    let datagrams = Datagrams::open(&client, V4, 53);
    assert_eq!(datagrams.ask().unwrap(), "worker-1");
    update(&rig, &provider, &web, &targets(&[&two]));
    for _ in 0..2 {
        assert_eq!(connection.ask().unwrap().0, "worker-1");
        assert_eq!(tcp(&client, V4, 80).unwrap(), "worker-2");
        // A client of UDP has no connection to end: it is sent elsewhere.
        assert_eq!(datagrams.ask().unwrap(), "worker-2");
        // The next hop stays as long as the connection.
        round(&rig, &provider);
    }
    assert!(rig.traces().contains(&one.machine.addresses[0].to_string()));
    drop(connection);
    inside(&rig.cloud.router(), &["conntrack", "-D", "-p", "tcp"]).unwrap();
    round(&rig, &provider);
    assert!(!rig.traces().contains(&one.machine.addresses[0].to_string()));
}

#[test]
fn a_connection_that_has_no_answer_yet_goes_to_a_target_that_is_left() {
    let Some(rig) = Rig::new("tunanswered") else {
        return;
    };
    let (one, two, client) = machines(&rig);
    let provider = rig.provider();
    let web = service("web", &[("TCP", 80)], &["IPv4"]);
    ensure(&rig, &provider, &web, &targets(&[&one]));
    // A machine that hangs: its link is up.
    let silent = "table ip silent { chain c { type filter hook input priority 0; policy drop; }; }";
    inside(&one.machine.namespace, &["nft", silent]).unwrap();
    let answer = thread::scope(|scope| {
        let asking = scope.spawn(|| tcp(&client, V4, 80));
        let unanswered = ["conntrack", "-L", "-p", "tcp", "--state", "SYN_SENT"];
        while !inside(&rig.cloud.router(), &unanswered)
            .unwrap()
            .contains(V4)
        {
            assert!(!asking.is_finished(), "the router has not seen its SYN");
            thread::yield_now();
        }
        update(&rig, &provider, &web, &targets(&[&two]));
        asking.join().unwrap()
    });
    assert_eq!(answer.unwrap(), "worker-2");
}

#[test]
fn a_target_without_endpoints_is_taken_out_until_it_has_some() {
    let Some(rig) = Rig::new("thealth") else {
        return;
    };
    let (one, two, client) = machines(&rig);
    let provider = rig.provider();
    let web = Service {
        external_traffic_policy: "Local".to_owned(),
        health_check_node_port: HEALTH,
        ..service("web", &[("TCP", 80)], &["IPv4"])
    };
    two.set_healthy(false);
    ensure(&rig, &provider, &web, &targets(&[&one, &two]));
    let only = |name: &str| BTreeSet::from([name.to_owned()]);
    assert_eq!(
        answers(4, |_| tcp(&client, V4, 80).unwrap()),
        only("worker-1")
    );
    one.set_healthy(false);
    two.set_healthy(true);
    round(&rig, &provider);
    assert_eq!(
        answers(4, |_| tcp(&client, V4, 80).unwrap()),
        only("worker-2")
    );
    // A machine that is off answers nothing.
    rig.runtime
        .block_on(rig.cloud.power("worker-2", false))
        .unwrap();
    round(&rig, &provider);
    assert_eq!(
        tcp(&client, V4, 80).unwrap_err(),
        ErrorKind::ConnectionRefused
    );
    rig.runtime
        .block_on(rig.cloud.power("worker-2", true))
        .unwrap();
    round(&rig, &provider);
    assert_eq!(
        answers(4, |_| tcp(&client, V4, 80).unwrap()),
        only("worker-2")
    );
}

#[test]
fn a_provider_that_starts_again_finds_what_another_one_has_made_and_cleans_it_up() {
    let Some(rig) = Rig::new("tagainlb") else {
        return;
    };
    let (one, two, client) = machines(&rig);
    let web = Service {
        load_balancer_source_ranges: ["10.77.0.0/17", "10.77.128.0/17"].map(str::to_owned).into(),
        session_affinity: "ClientIP".to_owned(),
        ..service("web", &[("TCP", 80)], &["IPv4", "IPv6"])
    };
    let first = rig.provider();
    ensure(&rig, &first, &web, &targets(&[&one, &two]));
    let before = rig.traces();
    drop(first);
    let second = rig.provider();
    ensure(&rig, &second, &web, &targets(&[&one, &two]));
    assert_eq!(rig.traces(), before, "nothing was written");
    // A chain that was flushed by hand is seen, and made again.
    inside(
        &rig.cloud.router(),
        &[
            "nft",
            "flush",
            "chain",
            "inet",
            "outrigger",
            "lb/cluster-1/uid-of-web/4",
        ],
    )
    .unwrap();
    let observed = rig.in_router(async || get(&second, &web, None).await);
    assert_eq!(observed.disposition(), Differs, "{observed:?}");
    ensure(&rig, &second, &web, &targets(&[&one, &two]));
    assert!(tcp(&client, V4, 80).is_ok());
    assert_eq!(
        rig.in_router(async || second.balancer().clean_up("cluster-2").await)
            .unwrap(),
        0
    );
    assert!(tcp(&client, V4, 80).is_ok());
    assert_eq!(
        rig.in_router(async || second.balancer().clean_up("cluster-1").await)
            .unwrap(),
        1
    );
    assert_eq!(rig.traces(), "");
}

#[test]
fn with_masquerade_replies_come_back_through_the_router_and_pods_see_its_address() {
    let Some(rig) = Rig::new("tmasq") else { return };
    let (one, _, client) = machines(&rig);
    let provider = rig.provider_with(true);
    let web = service("web", &[("TCP", 80)], &["IPv4"]);
    ensure(&rig, &provider, &web, &targets(&[&one]));
    let (_, client_at_server) = Connection::open(&client, V4, 80).unwrap().ask().unwrap();
    assert_eq!(client_at_server, one.machine.gateways[0].to_string());
}

#[test]
fn after_a_start_of_the_host_a_service_gets_the_addresses_of_its_status() {
    let Some(rig) = Rig::new("treboot") else {
        return;
    };
    let provider = rig.provider();
    let status = LoadBalancerIngress {
        ip: "198.51.100.5".to_owned(),
        ..LoadBalancerIngress::default()
    };
    let status = Some(LoadBalancerStatus {
        ingress: vec![status],
    });
    let web = Service {
        status,
        ..service("web", &[("TCP", 80)], &["IPv4"])
    };
    let none = Targets::new([]);
    assert_eq!(
        ensure(&rig, &provider, &web, &none),
        ["198.51.100.5".parse::<IpAddr>().unwrap()]
    );
}

#[test]
fn a_part_that_was_deleted_by_hand_is_back_after_a_round() {
    let Some(rig) = Rig::new("tmend") else {
        return;
    };
    let (one, _, client) = machines(&rig);
    let provider = rig.provider();
    let web = service("web", &[("TCP", 80)], &["IPv4"]);
    ensure(&rig, &provider, &web, &targets(&[&one]));
    let router = rig.cloud.router();
    for deletion in [
        &[
            "nft",
            "flush",
            "chain",
            "inet",
            "outrigger",
            "lb/cluster-1/uid-of-web/4",
        ][..],
        &["nft", "flush", "chain", "inet", "outrigger", "prerouting"],
        &["ip", "rule", "delete", "priority", "21320"],
    ] {
        inside(&router, deletion).unwrap();
        assert!(tcp(&client, V4, 80).is_err(), "{deletion:?}");
        round(&rig, &provider);
        assert_eq!(tcp(&client, V4, 80).unwrap(), "worker-1", "{deletion:?}");
    }
}
