use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_provider_sdk::v1::{Service, ServicePort};
use proptest::prelude::*;

use super::*;

fn wanted(uid: u8, mode: AddressMode, families: &[&str]) -> LoadBalancerSpec {
    let families = families.iter().map(|family| (*family).to_owned());
    let service = Service {
        uid: uid.to_string(),
        ip_families: families.collect(),
        ports: vec![ServicePort {
            protocol: "TCP".to_owned(),
            port: 80,
            ..ServicePort::default()
        }],
        ..Service::default()
    };
    let rules = LoadBalancerRules {
        address_mode: mode,
        ..rules()
    };
    LoadBalancerSpec::of(&service, &rules).unwrap()
}

/// Small pools, so that addresses run out.
fn rules() -> LoadBalancerRules {
    LoadBalancerRules {
        pools: vec![
            "192.0.2.0/29".parse().unwrap(),
            "2001:db8::/125".parse().unwrap(),
        ],
        quota: Some(8),
        ..LoadBalancerRules::default()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Ensure(u8, AddressMode, &'static [&'static str]),
    Target(u8, usize),
    Begin(u8),
    Remove(u8),
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![Just(AddressMode::Ip), Just(AddressMode::Hostname)];
    let families = prop_oneof![
        Just(&["IPv4"][..]),
        Just(&["IPv6"][..]),
        Just(&["IPv4", "IPv6"][..])
    ];
    prop_oneof![
        4 => (0_u8..12, mode, families).prop_map(|(uid, mode, of)| Step::Ensure(uid, mode, of)),
        1 => (0_u8..12, 0_usize..3).prop_map(|(uid, count)| Step::Target(uid, count)),
        1 => (0_u8..12).prop_map(Step::Begin),
        1 => (0_u8..12).prop_map(Step::Remove),
        1 => Just(Step::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever is asked for: a key has one load balancer at most, an address one owner, the quota
    /// holds, and what is restored is what was there.
    #[test]
    fn keys_addresses_and_the_quota_hold(steps in proptest::collection::vec(step(), 1..60)) {
        let (rules, now) = (rules(), Timestamp::UNIX_EPOCH);
        let mut inventory = LoadBalancerInventory::default();
        for step in steps {
            let id = |inventory: &LoadBalancerInventory, uid: u8| {
                inventory.find("c", &uid.to_string()).map(|found| found.id.clone())
            };
            match step {
                Step::Ensure(uid, mode, families) => {
                    let wanted = wanted(uid, mode, families);
                    let ensured = match id(&inventory, uid) {
                        None => inventory.create("c", &wanted, Arc::default(), &rules, now),
                        Some(id) => inventory.change(&id, &wanted, &rules),
                    };
                    if let Ok(ensured) = ensured {
                        prop_assert_eq!(wanted.differences(&ensured), Vec::<String>::new());
                    }
                }
                Step::Target(uid, count) => {
                    if let Some(id) = id(&inventory, uid) {
                        let target = |index: usize| Target {
                            node: index.to_string().into(),
                            address: None,
                        };
                        inventory.set_targets(&id, (0..count).map(target).collect()).unwrap();
                    }
                }
                Step::Begin(uid) => {
                    if let Some(found) = inventory.find("c", &uid.to_string()).cloned() {
                        let going = LoadBalancer {
                            gone_at: Some(now),
                            ..LoadBalancer::clone(&found)
                        };
                        inventory.replace(going).unwrap();
                    }
                }
                Step::Remove(uid) => {
                    if let Some(id) = id(&inventory, uid) {
                        inventory.remove(&id).unwrap();
                    }
                }
                Step::Settle => {
                    inventory.settle(now);
                    prop_assert!(inventory.iter().all(|one| one.gone_at.is_none()));
                }
            }
            prop_assert!(inventory.iter().len() <= 8);
            let mut owners = BTreeMap::new();
            for one in inventory.iter() {
                for address in &one.addresses {
                    prop_assert_eq!(owners.insert(*address, one.id.clone()), None);
                }
                let uid = &one.service.as_ref().unwrap().uid;
                prop_assert_eq!(&inventory.find("c", uid).unwrap().id, &one.id);
            }
            let saved = inventory.iter().map(|one| LoadBalancer::clone(one)).collect();
            let restored = LoadBalancerInventory::restore(saved).unwrap();
            prop_assert!(restored == inventory);
        }
    }
}

#[test]
fn ports_are_read_as_they_are_written() {
    for text in ["TCP/80:30080", "UDP/53:0"] {
        assert_eq!(text.parse::<Port>().unwrap().to_string(), text);
    }
    assert_eq!("TCP/80".parse::<Port>().unwrap().node_port, 0);
    for bad in ["", "80", "TCP/0", "TCP/x", "TCP/80:70000"] {
        assert!(
            bad.parse::<Port>().unwrap_err().contains("TCP/80:30080"),
            "{bad}"
        );
    }
}
