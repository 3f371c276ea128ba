use outrigger_api::v1::{
    EffectsCapability, HandshakeResponse, InstancesCapability, ListLoadBalancersRequest,
    LoadBalancersCapability, LookupPreference, PlanLoadBalancerRequest, VolumeSourceKind,
};

use outrigger_core::{
    effects::GrantedPrefixes, node::ownership::ProviderIdOwner, volume::InTreeKind,
};

use super::*;
use crate::{Cluster, fixture as fake};

fn granted(prefixes: &[&str]) -> GrantedPrefixes {
    GrantedPrefixes::new(prefixes.iter().map(|&prefix| prefix.to_owned())).unwrap()
}

fn options() -> Options {
    Options {
        expected_name: None,
        allow_untagged: false,
        effect_prefixes: granted(&["fake.example/"]),
        controller_name: String::new(),
        controller_version: String::new(),
        kubernetes_version: String::new(),
        cluster: Cluster::default(),
        cluster_uid: String::new(),
        standby: false,
    }
}

fn accept_changed(change: impl FnOnce(&mut HandshakeResponse)) -> Result<HandshakeResult, Outage> {
    let mut answer = fake::handshake();
    change(&mut answer);
    accept(&options(), None, answer)
}

fn instances(answer: &mut HandshakeResponse) -> &mut InstancesCapability {
    let offered = answer.capabilities.get_or_insert_default();
    offered.instances.get_or_insert_default()
}

fn balancers(answer: &mut HandshakeResponse) -> &mut LoadBalancersCapability {
    let offered = answer.capabilities.get_or_insert_default();
    offered.load_balancers.get_or_insert_default()
}

fn volumes(answer: &mut HandshakeResponse) -> &mut v1::VolumesCapability {
    let offered = answer.capabilities.get_or_insert_default();
    offered.volumes.get_or_insert_default()
}

fn effects(answer: &mut HandshakeResponse) -> &mut EffectsCapability {
    let offered = answer.capabilities.get_or_insert_default();
    offered.effects.get_or_insert_default()
}

#[test]
fn absent_fields_have_the_contracts_defaults() {
    let session = accept_changed(|answer| {
        answer.provider_version = String::new();
    })
    .unwrap();
    assert_eq!(session.max_send_bytes, 4 << 20);
    assert!(session.load_balancers.is_none() && session.routes.is_none());
    assert!(session.rates.is_empty());
    let instances = session.instances.unwrap();
    assert_eq!(instances.max_batch_size, 100);
    assert_eq!(instances.visibility_delay, Duration::from_mins(1));
    assert_eq!(instances.prefixes.iter().collect::<Vec<_>>(), ["fake://"]);
    assert!(!instances.without_provider_id && !instances.allocates_pod_cidrs);
}

#[test]
fn declarations_that_decide_about_a_service_are_taken_over() {
    let session = accept_changed(|answer| {
        answer.service_annotation_prefixes = vec!["read.example/".into()];
        *balancers(answer) = LoadBalancersCapability {
            list: true,
            plan: true,
            classes: vec!["fake.example/fast".into()],
            without_default_class: true,
            configuration_revision: "r1".into(),
            ..LoadBalancersCapability::default()
        };
        *effects(answer) = EffectsCapability {
            service_annotation_prefixes: vec!["read.example/id".into()],
            node_annotation_prefixes: vec!["fake.example/id".into()],
            condition_type_prefixes: vec!["fake.example/".into()],
        };
    })
    .unwrap();
    assert!(session.declares::<ListLoadBalancersRequest>());
    assert!(session.declares::<PlanLoadBalancerRequest>());
    let capability = session.load_balancers.unwrap().capability;
    assert!(!capability.serves(None) && capability.serves(Some("fake.example/fast")));
    assert_eq!(&*capability.configuration_revision, "r1");
    assert!(capability.reads("read.example/x") && !capability.reads("other.example/x"));
    let allowed = |annotations: &str| AllowedEffects {
        annotations: [annotations.into()].into(),
        conditions: ["fake.example/".into()].into(),
        granted: granted(&["fake.example/"]),
    };
    assert_eq!(capability.effects, allowed("read.example/id"));
    assert_eq!(session.node_effects, Some(allowed("fake.example/id")));
    assert_eq!(*session.effects_not_granted, ["read.example/id".into()]);
}

#[test]
fn a_preference_that_is_not_served_is_none() {
    for (list, expected) in [
        (true, LookupPreference::ListAll),
        (false, LookupPreference::Batch),
    ] {
        let session = accept_changed(|answer| {
            instances(answer).list = list;
            instances(answer).set_lookup_preference(LookupPreference::ListAll);
        });
        let instances = session.unwrap().instances.unwrap();
        assert_eq!(instances.preference, expected);
    }
}

#[test]
fn nonsense_is_refused_by_name() {
    type Change = fn(&mut HandshakeResponse);
    let many = || vec!["a".to_owned(); 65];
    let bad = DownCause::BadHandshake;
    let table: [(Change, DownCause, &str); _] = [
        (|a| a.minor = 0, bad, "minor is not set"),
        (
            |a| a.minor = MINOR + 1,
            DownCause::Incompatible,
            "upgrade the older",
        ),
        (
            |a| a.without_cluster_id = true,
            DownCause::NoClusterId,
            "--allow-untagged-cloud",
        ),
        (|a| a.boot_id = "x".repeat(65), bad, "boot_id has more"),
        (|a| a.boot_id.clear(), bad, "boot_id is empty"),
        (
            |a| a.max_receive_message_bytes = 1,
            bad,
            "max_receive_message_bytes is 1",
        ),
        // It would make every node of the cluster ours.
        (
            |a| instances(a).provider_id_prefixes = vec![String::new()],
            bad,
            "provider_id_prefixes",
        ),
        (
            |a| instances(a).managed_label_keys = vec!["a b".into()],
            bad,
            "managed_label_keys",
        ),
        (
            |a| instances(a).managed_label_keys = vec!["Example.com/rack".into()],
            bad,
            "managed_label_keys has the entry \"Example.com/rack\", which has a prefix",
        ),
        (
            |a| balancers(a).configuration_revision = "x".repeat(65),
            bad,
            "configuration_revision",
        ),
        (
            |a| balancers(a).classes = vec!["a b".into()],
            bad,
            "load_balancers.classes",
        ),
        // A label would never have it, and no target would follow it.
        (
            |a| balancers(a).target_label_keys = vec!["zone".into(), "example.com/zone=a".into()],
            bad,
            "\"example.com/zone=a\", which is no label key",
        ),
        (
            |a| {
                let options = balancers(a).options.get_or_insert_default();
                options.health_check = Some(v1::HealthCheckCapability::default());
            },
            bad,
            "load_balancers.options.health_check has no protocol",
        ),
        (
            |a| volumes(a).csi_drivers = vec!["a\nb".into()],
            bad,
            "volumes.csi_drivers has the entry \"a\\nb\"",
        ),
        (
            |a| effects(a).condition_type_prefixes = vec![String::new()],
            bad,
            "effects.condition_type_prefixes",
        ),
    ];
    let check = |refused: Result<HandshakeResult, Outage>, cause: DownCause, says: &str| {
        let refusal = refused.unwrap_err();
        assert_eq!(refusal.cause, cause, "{says}");
        assert!(refusal.reason.contains(says), "{says}: {}", refusal.reason);
        assert!(!refusal.reason.contains('\n'), "{}", refusal.reason);
    };
    for (change, cause, says) in table {
        check(accept_changed(change), cause, says);
    }
    for name in ["", "Fake", "a b", "a_b", "é", "a\n", &"x".repeat(64)] {
        let refused = accept_changed(|answer| answer.provider_name = name.into());
        check(refused, bad, "provider_name");
    }
    for delay in [(-1, 0), (24 * 3600 + 1, 0), (0, -1), (i64::MAX, 0)] {
        let (seconds, nanos) = delay;
        let delay = prost_types::Duration { seconds, nanos };
        let refused = accept_changed(|answer| instances(answer).visibility_delay = Some(delay));
        check(refused, bad, "visibility_delay");
    }
    for list in [many(), vec![String::new()], vec!["x".repeat(254)]] {
        let refused = accept_changed(|answer| answer.node_annotation_prefixes = list);
        check(refused, bad, "node_annotation_prefixes");
    }
}

#[test]
fn names_are_held_against_the_flag_and_the_past() {
    let before = |name: &str| {
        let mut answer = fake::handshake();
        answer.provider_name = name.into();
        accept(&options(), None, answer).unwrap()
    };
    let accept_as = |expected: Option<&str>, last: &str| {
        let options = Options {
            expected_name: expected.map(Into::into),
            ..options()
        };
        accept(&options, Some(&before(last)), fake::handshake()).map(|_| ())
    };
    assert!(accept_as(Some("fake"), "fake").is_ok());
    let other = accept_as(Some("other"), "fake").unwrap_err();
    assert_eq!(other.cause, DownCause::WrongName);
    assert!(
        other.reason.contains("--cloud-provider is other"),
        "{}",
        other.reason
    );
    let changed = accept_as(None, "before").unwrap_err();
    assert_eq!(changed.cause, DownCause::WrongName);
    assert!(
        changed
            .reason
            .contains("was before and now calls itself fake"),
        "{}",
        changed.reason
    );
}

#[test]
fn declared_values_are_kept_within_bounds() {
    let session = accept_changed(|answer| {
        *instances(answer) = InstancesCapability {
            max_batch_size: 10_000,
            provider_id_prefixes: vec!["ocid1.instance.".into()],
            visibility_delay: Some(prost_types::Duration {
                seconds: 5,
                nanos: 0,
            }),
            lookup_preference: 99,
            ..InstancesCapability::default()
        };
    })
    .unwrap();
    let instances = session.instances.unwrap();
    assert_eq!(instances.max_batch_size, 200);
    assert_eq!(instances.visibility_delay, Duration::from_secs(5));
    assert_eq!(instances.preference, v1::LookupPreference::Unspecified);
    let ownership = |id| instances.prefixes.owner(id);
    assert_eq!(ownership("ocid1.instance.oc1"), ProviderIdOwner::Ours);
    assert_eq!(ownership("fake://a"), ProviderIdOwner::Foreign);
}

#[test]
fn load_balancers_are_declared_within_bounds() {
    let declared = |change: fn(&mut LoadBalancersCapability)| {
        accept_changed(|answer| change(balancers(answer))).unwrap()
    };
    let session = declared(|_| {});
    assert!(!session.declares::<ListLoadBalancersRequest>());
    assert!(!session.declares::<PlanLoadBalancerRequest>());
    let least = session.load_balancers.unwrap();
    assert_eq!(least.max_in_flight, 16);
    let capability = &least.capability;
    assert_eq!(&*capability.provider, "fake");
    assert!(capability.serves(None) && capability.reads("any.example/x"));
    assert_eq!(capability.effects, AllowedEffects::default());
    let most = declared(|load_balancers| load_balancers.max_in_flight = 1_000_000);
    assert_eq!(most.load_balancers.unwrap().max_in_flight, 256);
    // Their order means nothing.
    assert_eq!(capability.targets, TargetRules::default());
    let targets = declared(|load_balancers| {
        load_balancers.target_label_keys = ["b", "a", "b"].map(String::from).into();
    });
    let targets = &targets.load_balancers.unwrap().capability.targets;
    assert_eq!(*targets.label_keys, ["a".into(), "b".into()]);
}

#[test]
fn routes_and_volumes_are_declared_within_bounds() {
    for (max_in_flight, accepted) in [(0, 16), (1, 1), (1_000_000, 256)] {
        let session = accept_changed(|answer| {
            *volumes(answer) = v1::VolumesCapability {
                csi_drivers: vec!["disk.example".into()],
                // The last is of a later minor.
                source_kinds: vec![VolumeSourceKind::Cinder.into(), 0, 99],
                max_in_flight,
            };
            let offered = answer.capabilities.get_or_insert_default();
            offered.routes = Some(v1::RoutesCapability { max_in_flight });
        });
        let session = session.unwrap();
        assert_eq!(session.routes.unwrap().max_in_flight, accepted);
        let volumes = session.volumes.unwrap();
        assert_eq!(volumes.max_in_flight, accepted);
        let served = &volumes.served;
        assert_eq!(&*served.provider, "fake");
        assert_eq!(*served.csi_drivers, ["disk.example".into()]);
        assert_eq!(*served.kinds, [InTreeKind::Cinder]);
    }
}
