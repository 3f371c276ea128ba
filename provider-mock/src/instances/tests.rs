use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::lookup::Rules;
use super::*;

fn placement() -> Placement {
    let value = |text: &str| text.parse().unwrap();
    Placement::new(value("mock-1"), Vec::new(), value("mock.medium")).unwrap()
}

fn rules(placement: &Placement) -> Rules<'_> {
    Rules {
        synthesize: true,
        placement,
        pod_cidrs: &[],
        visibility_delay: Duration::ZERO,
        now: Timestamp::UNIX_EPOCH,
    }
}

fn by_name(name: &str) -> LookupRequest {
    LookupRequest {
        key: Key::Name(name.parse().unwrap()),
        provided: Vec::new(),
    }
}

fn by_id(id: &InstanceId, name: &str) -> LookupRequest {
    LookupRequest {
        key: Key::Id(id.clone(), Some(name.parse().unwrap())),
        provided: Vec::new(),
    }
}

fn synthesized(inventory: &mut Inventory, request: &LookupRequest) -> std::sync::Arc<Instance> {
    match inventory.look_up_or_create(request, rules(&placement())) {
        LookupResult::Instance(instance) => instance,
        other => panic!("{request:?} gave {other:?}"),
    }
}

/// Provider IDs of running clusters are made like this, so it must never change.
#[test]
fn derived_values_never_change() {
    let instance = synthesized(&mut Inventory::default(), &by_name("worker-1"));
    let addresses: Vec<_> = instance.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(instance.id.as_str(), "i-646356604c197d66");
    assert_eq!(instance.zone.as_str(), "mock-1b");
    assert_eq!(
        addresses,
        [
            "InternalIP=10.100.99.86",
            "InternalIP=fd00:6d6f:636b:4c:0:6463:4c19:7d66",
            "Hostname=worker-1"
        ]
    );
}

#[test]
fn the_kubelets_address_is_the_instances() {
    for (provided, want) in [
        (&["192.0.2.7"][..], &["192.0.2.7", "fd"][..]),
        (&["2001:db8::7"], &["2001:db8::7", "10."]),
        (&["2001:db8::7", "192.0.2.7"], &["2001:db8::7", "192.0.2.7"]),
    ] {
        let provided: Vec<IpAddr> = provided.iter().map(|ip| ip.parse().unwrap()).collect();
        let request = LookupRequest {
            provided,
            ..by_name("worker-1")
        };
        let instance = synthesized(&mut Inventory::default(), &request);
        let ips = instance
            .addresses
            .iter()
            .filter(|one| one.kind() == AddressType::InternalIp);
        let ips: Vec<_> = ips.map(Address::as_str).collect();
        assert_eq!(ips.len(), want.len(), "{ips:?}");
        for (ip, want) in ips.iter().zip(want) {
            assert!(ip.starts_with(want), "{ips:?} should be like {want:?}");
        }
    }
}

#[test]
fn a_deleted_name_gets_another_id_when_it_is_made_again() {
    let mut inventory = Inventory::default();
    let mut ids = BTreeSet::new();
    for generation in 0..4 {
        let name: NodeName = "worker-1".parse().unwrap();
        assert_eq!(inventory.next_generation(&name), generation);
        let spec = InstanceSpec::named(name);
        let instance = spec.build(&placement(), generation, Timestamp::UNIX_EPOCH);
        let instance = inventory.insert(instance).unwrap();
        assert!(ids.insert(instance.id.clone()), "an id came back");
        inventory.remove(&instance.id).unwrap();
    }
}

#[test]
fn a_name_or_an_id_that_is_taken_is_refused_by_name() {
    let mut inventory = Inventory::default();
    let spec = |name: &str, id: &str| InstanceSpec {
        id: Some(id.parse().unwrap()),
        ..InstanceSpec::named(name.parse().unwrap())
    };
    let build = |spec: InstanceSpec| spec.build(&placement(), 0, Timestamp::UNIX_EPOCH);
    inventory.insert(build(spec("a", "i-1"))).unwrap();
    for (name, id, says) in [("a", "i-2", "i-1"), ("b", "i-1", "instance a")] {
        let error = inventory
            .insert(build(spec(name, id)))
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(inventory.iter().len(), 1);
}

/// Something that happens to a cloud which synthesises instances.
#[derive(Debug, Clone)]
enum Step {
    AskByName(u8),
    AskById(u8),
    Delete(u8),
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..4_u8).prop_map(Step::AskByName),
        (0..4_u8).prop_map(Step::AskById),
        (0..4_u8).prop_map(Step::Delete),
        Just(Step::Forget),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    /// An instance is the same whenever it is asked for, and a deleted one never comes back, unless
    /// the whole cloud was forgotten.
    #[test]
    fn synthesis_is_stable_and_deletion_final(steps in steps()) {
        let name = |n: u8| format!("node-{n}");
        let id = |n: u8| spec::derived_id(&name(n).parse().unwrap(), 0);
        let mut inventory = Inventory::default();
        let mut deleted = BTreeSet::new();
        let placement = placement();
        for step in steps {
            match step {
                Step::AskByName(n) | Step::AskById(n) => {
                    let asked = match step {
                        Step::AskByName(_) => by_name(&name(n)),
                        _ => by_id(&id(n), &name(n)),
                    };
                    match inventory.look_up_or_create(&asked, rules(&placement)) {
                        LookupResult::Instance(instance) => {
                            prop_assert_eq!(&instance.id, &id(n));
                            prop_assert!(!deleted.contains(&n), "{} came back", n);
                        }
                        LookupResult::Absent => prop_assert!(deleted.contains(&n), "{} is missing", n),
                        LookupResult::NotVisibleYet => prop_assert!(false, "there is no delay"),
                    }
                }
                Step::Delete(n) => {
                    if inventory.remove(&id(n)).is_some() {
                        deleted.insert(n);
                    }
                }
                Step::Forget => {
                    inventory = Inventory::default();
                    deleted.clear();
                }
            }
        }
    }
}

#[test]
fn an_id_that_is_not_its_nodes_is_never_synthesised() {
    let mut inventory = Inventory::default();
    let placement = placement();
    let other = spec::derived_id(&"another".parse().unwrap(), 0);
    for asked in [
        by_id(&other, "worker-1"),
        LookupRequest {
            key: Key::Id(other, None),
            provided: Vec::new(),
        },
    ] {
        assert_eq!(
            inventory.look_up_or_create(&asked, rules(&placement)),
            LookupResult::Absent
        );
    }
    assert!(inventory.iter().len() == 0);
}
