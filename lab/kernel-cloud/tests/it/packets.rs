//! Load balancers that carry packets.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::thread;

use outrigger_provider_linux::LinuxProvider;
use outrigger_provider_linux::cloud::Machine;
use outrigger_provider_sdk::v1::{
    DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, GetLoadBalancerRequest, HealthCheck,
    HealthCheckProtocol, LoadBalancerAnswer,
    LoadBalancerDisposition::{Differs, Ready},
    LoadBalancerIngress, LoadBalancerOptions, LoadBalancerScheme, LoadBalancerStatus, Service,
    UpdateLoadBalancerNodesRequest,
};
use outrigger_provider_sdk::{LoadBalancers as _, Targets};

use crate::rig::{Connection, Datagrams, Rig, Server, context, inside, service, targets, tcp};

const V4: &str = "198.51.100.0";
const V6: &str = "2001:db8:1::";

const FLUSH: [&str; 2] = [
    "nft",
    "flush chain inet outrigger lb/cluster-1/uid-of-web/4",
];

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
fn machines(rig: &Rig) -> (Server, Server, Machine) {
    let [one, two] =
        ["worker-1", "worker-2"].map(|name| Server::start(rig.machine(name), &[V4, V6], &[80, 53]));
    (one, two, rig.machine("client"))
}

fn answers<T: Ord>(count: usize, ask: impl FnMut(usize) -> T) -> BTreeSet<T> {
    (0..count).map(ask).collect()
}

fn is_refused(client: &Machine, address: &str, port: u16) -> bool {
    tcp(client, address, port) == Err(ErrorKind::ConnectionRefused)
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
    assert!(is_refused(&client, V4, 81));
    assert!(is_refused(&client, "198.51.100.7", 80));
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
    assert!(is_refused(&client, V4, 80));
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
    inside(&rig.cloud.router(), &FLUSH).unwrap();
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
    // The rule too is back after a round.
    for _ in ["made", "deleted by hand"] {
        let (_, client_at_server) = Connection::open(&client, V4, 80).unwrap().ask().unwrap();
        assert_eq!(client_at_server, one.machine.gateways[0].to_string());
        let flush = ["nft", "flush chain inet outrigger postrouting"];
        inside(&rig.cloud.router(), &flush).unwrap();
        round(&rig, &provider);
    }
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
fn a_service_has_the_address_and_the_health_check_that_it_asks_for() {
    const ADDRESS: &str = "198.51.100.9";
    let Some(rig) = Rig::new("toptions") else {
        return;
    };
    let one = Server::start(rig.machine("worker-1"), &[ADDRESS], &[80, 9000]);
    let two = Server::start(rig.machine("worker-2"), &[ADDRESS], &[80]);
    let client = rig.machine("client");
    let provider = rig.provider();
    let both = targets(&[&one, &two]);
    let plain = service("web", &[("TCP", 80)], &["IPv4"]);
    let checked = |protocol: HealthCheckProtocol| {
        let check = HealthCheck {
            protocol: protocol.into(),
            port: 9000,
            path: "/ready".to_owned(),
            ..HealthCheck::default()
        };
        let options = LoadBalancerOptions {
            requested_addresses: vec![ADDRESS.to_owned()],
            health_check: Some(check),
            ..LoadBalancerOptions::default()
        };
        Service {
            load_balancer_options: Some(options),
            ..plain.clone()
        }
    };
    let web = checked(HealthCheckProtocol::Tcp);
    let addresses = ensure(&rig, &provider, &web, &both);
    assert_eq!(addresses, [ADDRESS.parse::<IpAddr>().unwrap()]);
    let workers = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let answered = || answers(4, |_| tcp(&client, ADDRESS, 80).unwrap());
    assert_eq!(answered(), workers(&["worker-1"]));
    // Neither server answers HTTP.
    ensure(&rig, &provider, &checked(HealthCheckProtocol::Http), &both);
    assert!(is_refused(&client, ADDRESS, 80));
    // Taken back, the check is the provider's own, and the address stays.
    assert_eq!(ensure(&rig, &provider, &plain, &both), addresses);
    assert_eq!(answered(), workers(&["worker-1", "worker-2"]));
}

#[test]
fn an_internal_load_balancer_serves_the_machines_and_refuses_a_client_outside() {
    let Some(rig) = Rig::new("tscheme") else {
        return;
    };
    let (one, two, machine) = machines(&rig);
    let outside = rig.machine("outside");
    // Its link is none of a machine from here on.
    let link = &outside.link;
    let rename = format!("ip link set {link} down && ip link set {link} name uplink up");
    inside(&rig.cloud.router(), &["sh", "-c", &rename]).unwrap();
    let provider = rig.provider();
    let both = targets(&[&one, &two]);
    let plain = service("web", &[("TCP", 80)], &["IPv4", "IPv6"]);
    let options = LoadBalancerOptions {
        scheme: LoadBalancerScheme::Internal.into(),
        ..LoadBalancerOptions::default()
    };
    let internal = Service {
        load_balancer_options: Some(options),
        ..plain.clone()
    };
    ensure(&rig, &provider, &plain, &both);
    let mut open = Connection::open(&outside, V4, 80).unwrap();
    for (web, is_internal) in [(&internal, true), (&plain, false)] {
        ensure(&rig, &provider, web, &both);
        for address in [V4, V6] {
            assert!(tcp(&machine, address, 80).is_ok(), "{address}");
            assert_eq!(is_refused(&outside, address, 80), is_internal, "{address}");
        }
        // A connection that was open is cut.
        assert!(open.ask().is_err());
    }
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
        &FLUSH[..],
        &["nft", "flush chain inet outrigger prerouting"],
        &["ip", "rule", "delete", "priority", "21320"],
    ] {
        inside(&router, deletion).unwrap();
        assert!(tcp(&client, V4, 80).is_err(), "{deletion:?}");
        round(&rig, &provider);
        assert_eq!(tcp(&client, V4, 80).unwrap(), "worker-1", "{deletion:?}");
    }
}
