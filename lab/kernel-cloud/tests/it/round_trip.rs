//! Whatever a Service asks for, the kernel gives back: the translation and its reading are each other's inverse.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use outrigger_provider_linux::load_balancer::{Family, Key, LoadBalancer, Protocol, Target};
use outrigger_provider_linux::options::Check;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::rig::Rig;

fn address(family: Family, number: u8) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([198, 51, 100, number]),
        Family::V6 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(number)]),
    }
}

fn networks(family: Family) -> impl Strategy<Value = Vec<IpNet>> {
    let network = (any::<u128>(), 0..=128_u8).prop_map(move |(bits, length)| match family {
        Family::V4 => IpNet::from(Ipv4Net::new((bits as u32).into(), length % 33).unwrap()).trunc(),
        Family::V6 => IpNet::from(Ipv6Net::new(bits.into(), length).unwrap()).trunc(),
    });
    prop::collection::vec(network, 0..4)
}

fn balancers() -> impl Strategy<Value = LoadBalancer> {
    let families = prop::sample::subsequence(Family::ALL.to_vec(), 1..=2);
    let ports = prop::collection::btree_set(
        (
            prop::sample::select(vec![Protocol::Tcp, Protocol::Udp]),
            1..=u16::MAX,
        ),
        1..5,
    );
    let targets = prop::collection::btree_map(1..=20_u8, any::<bool>(), 0..5);
    let ranges = prop::option::of((networks(Family::V4), networks(Family::V6)));
    let options = (
        prop::option::of(1..100_000_u32),
        prop::option::of((1..=u16::MAX, prop::option::of("/[!#-~]{0,99}"))),
        any::<bool>(),
    );
    (families, 0..=15_u8, ports, targets, ranges, options).prop_map(
        |(families, number, ports, targets, ranges, (affinity, health, internal))| {
            let health = health.map(|(port, path)| Check { port, path });
            let targets = families.iter().flat_map(|family| {
                targets.iter().map(|(number, healthy)| {
                    let node = format!("worker-{number}");
                    (
                        address(*family, 100 + number),
                        Target {
                            node,
                            healthy: *healthy || health.is_none(),
                        },
                    )
                })
            });
            let source_ranges = ranges.map(|(v4, v6)| {
                let both: Vec<_> = v4
                    .into_iter()
                    .chain(v6)
                    .filter(|range| families.contains(&Family::of(range.addr())))
                    .collect();
                IpNet::aggregate(&both).into_iter().collect::<BTreeSet<_>>()
            });
            LoadBalancer {
                name: "default/web".to_owned(),
                addresses: families
                    .iter()
                    .map(|family| (*family, address(*family, number)))
                    .collect(),
                ports,
                source_ranges,
                affinity,
                internal,
                health: health.clone(),
                targets: targets.collect::<BTreeMap<_, _>>(),
            }
        },
    )
}

#[test]
fn every_change_of_a_load_balancer_is_read_as_it_was_written() {
    let Some(rig) = Rig::new("tround") else {
        return;
    };
    let provider = rig.provider();
    let key = Key {
        cluster: "cluster-1".to_owned(),
        service: "uid-of-web".to_owned(),
    };
    let config = Config {
        cases: 60,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    // Each case changes what the case before it has made.
    let run = runner.run(&balancers(), |desired| {
        let read = rig.in_router(async || {
            // No target answers here: those of a Service with health checks keep the health that they are given.
            provider
                .balancer()
                .change(&key, |_| Ok(Some(desired.clone())))
                .await
                .unwrap();
            provider.balancer().read().await.unwrap()
        });
        prop_assert_eq!(read.balancers.get(&key), Some(&desired));
        Ok(())
    });
    run.unwrap();
    rig.in_router(async || provider.balancer().clean_up("cluster-1").await)
        .unwrap();
    assert_eq!(rig.traces(), "");
}
