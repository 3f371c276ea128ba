use outrigger_api::v1::{
    CallClass, Capabilities, EffectsCapability, HandshakeResponse, InstancesCapability,
    ListLoadBalancersRequest, LoadBalancersCapability, LookupPreference, PlanLoadBalancerRequest,
    RateLimit, VolumeSourceKind,
};

use outrigger_core::{
    effects::GrantedPrefixes, node::ownership::ProviderIdOwner, volume::InTreeKind,
};

use super::*;
use crate::{Cluster, fixture as fake};
use outrigger_runtime::fixture::Warnings;

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

fn accept_changed(
    change: impl FnOnce(&mut HandshakeResponse),
) -> Result<HandshakeResult, RefusedHandshake> {
    let mut answer = fake::handshake();
    change(&mut answer);
    accept(&options(), None, 1, answer)
}

fn capabilities(
    change: impl FnOnce(&mut Capabilities),
) -> Result<HandshakeResult, RefusedHandshake> {
    accept_changed(|answer| change(answer.capabilities.as_mut().unwrap()))
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
        let offered = answer.capabilities.as_mut().unwrap();
        offered.load_balancers = Some(LoadBalancersCapability {
            list: true,
            plan: true,
            classes: vec!["fake.example/fast".into()],
            without_default_class: true,
            configuration_revision: "r1".into(),
            ..LoadBalancersCapability::default()
        });
        offered.effects = Some(EffectsCapability {
            service_annotation_prefixes: vec!["read.example/id".into()],
            node_annotation_prefixes: vec!["fake.example/id".into()],
            condition_type_prefixes: vec!["fake.example/".into()],
        });
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
fn a_preference_that_is_not_served_is_reported() {
    let warnings = Warnings::listen();
    let prefers = |list: bool| {
        let session = capabilities(|offered| {
            let instances = offered.instances.as_mut().unwrap();
            instances.list = list;
            instances.set_lookup_preference(LookupPreference::ListAll);
        });
        session.unwrap().instances.unwrap().preference
    };
    assert_eq!(prefers(true), LookupPreference::ListAll);
    assert!(warnings.with("").is_empty());
    assert_eq!(prefers(false), LookupPreference::Batch);
    assert_eq!(warnings.with("LOOKUP_PREFERENCE_LIST_ALL").len(), 1);
}

#[test]
fn nonsense_is_refused_by_name() {
    let check =
        |refused: Result<HandshakeResult, RefusedHandshake>, cause: DownCause, says: &str| {
            let refusal = refused.unwrap_err();
            assert_eq!(refusal.cause, cause, "{says}");
            assert!(refusal.reason.contains(says), "{says}: {}", refusal.reason);
            assert!(!refusal.reason.contains('\n'), "{}", refusal.reason);
        };
    let answer = |change: fn(&mut HandshakeResponse)| accept_changed(change);
    let bad = DownCause::BadHandshake;
    check(answer(|a| a.minor = 0), bad, "minor is not set");
    check(
        answer(|a| a.minor = MINOR + 1),
        DownCause::Incompatible,
        "upgrade the older",
    );
    for name in ["", "Fake", "a b", "a_b", "é", "a\n", &"x".repeat(64)] {
        let refused = accept_changed(|answer| answer.provider_name = name.into());
        check(refused, bad, "provider_name");
    }
    check(answer(|a| a.boot_id = "x".repeat(65)), bad, "boot_id");
    check(answer(|a| a.boot_id.clear()), bad, "boot_id is empty");
    check(
        answer(|a| a.max_receive_message_bytes = 1),
        bad,
        "max_receive_message_bytes is 1",
    );
    check(
        answer(|a| a.without_cluster_id = true),
        DownCause::NoClusterId,
        "--allow-untagged-cloud",
    );
    let field = "service_annotation_prefixes";
    check(
        answer(|a| a.service_annotation_prefixes = vec![String::new()]),
        bad,
        field,
    );
    check(
        answer(|a| a.service_annotation_prefixes = vec!["a".into(); 65]),
        bad,
        "65 entries",
    );
    let field = "node_annotation_prefixes";
    check(
        answer(|a| a.node_annotation_prefixes = vec!["x".repeat(254)]),
        bad,
        field,
    );
    check(
        answer(|a| a.node_annotation_prefixes = vec!["a\nb".into()]),
        bad,
        "a\\nb",
    );
    let instances = |change: fn(&mut InstancesCapability)| {
        capabilities(|offered| change(offered.instances.as_mut().unwrap()))
    };
    // It would make every node of the cluster ours.
    let field = "provider_id_prefixes";
    check(
        instances(|i| i.provider_id_prefixes = vec![String::new()]),
        bad,
        field,
    );
    check(
        instances(|i| i.managed_label_keys = vec!["a b".into()]),
        bad,
        "managed_label_keys",
    );
    for delay in [(-1, 0), (24 * 3600 + 1, 0), (0, -1), (i64::MAX, 0)] {
        let refused = capabilities(|offered| {
            let delay = prost_types::Duration {
                seconds: delay.0,
                nanos: delay.1,
            };
            offered.instances.as_mut().unwrap().visibility_delay = Some(delay);
        });
        check(refused, bad, "visibility_delay");
    }
    let refused = capabilities(|offered| {
        offered.load_balancers = Some(LoadBalancersCapability {
            configuration_revision: "x".repeat(65),
            ..LoadBalancersCapability::default()
        });
    });
    check(refused, bad, "configuration_revision");
    for classes in [
        vec![String::new()],
        vec!["a b".into()],
        vec!["a".into(); 65],
    ] {
        let target_label_keys = classes.clone();
        let refused = capabilities(|offered| {
            offered.load_balancers = Some(LoadBalancersCapability {
                classes,
                ..LoadBalancersCapability::default()
            });
        });
        check(refused, bad, "load_balancers.classes");
        let refused = capabilities(|offered| {
            offered.load_balancers = Some(LoadBalancersCapability {
                target_label_keys,
                ..LoadBalancersCapability::default()
            });
        });
        check(refused, bad, "load_balancers.target_label_keys");
    }
    // A label would never have it, and no target would follow it.
    let no_key = "topology.kubernetes.io/zone=a";
    let refused = capabilities(|offered| {
        offered.load_balancers = Some(LoadBalancersCapability {
            target_label_keys: vec!["zone".into(), no_key.into()],
            ..LoadBalancersCapability::default()
        });
    });
    check(
        refused,
        bad,
        "\"topology.kubernetes.io/zone=a\", which is no label key",
    );
    check(
        instances(|i| i.managed_label_keys = vec!["Example.com/rack".into()]),
        bad,
        "managed_label_keys has the entry \"Example.com/rack\", which has a prefix",
    );
    for csi_drivers in [
        vec![String::new()],
        vec!["x".repeat(254)],
        vec!["a\nb".into()],
        vec!["a".into(); 65],
    ] {
        let refused = capabilities(|offered| {
            offered.volumes = Some(v1::VolumesCapability {
                csi_drivers,
                ..v1::VolumesCapability::default()
            });
        });
        check(refused, bad, "volumes.csi_drivers");
    }
}

#[test]
fn a_provider_may_not_write_what_is_not_its_own() {
    type List = fn(&mut EffectsCapability) -> &mut Vec<String>;
    let service: List = |effects| &mut effects.service_annotation_prefixes;
    let node: List = |effects| &mut effects.node_annotation_prefixes;
    let condition: List = |effects| &mut effects.condition_type_prefixes;
    let ask = |list: List, prefix: &str| {
        capabilities(|offered| {
            let mut effects = EffectsCapability::default();
            list(&mut effects).push(prefix.into());
            offered.effects = Some(effects);
        })
        .is_ok()
    };
    for list in [service, node, condition] {
        assert!(ask(list, "vendor.example/"));
        for reserved in [
            "",
            "o",
            "outrigger.dev",
            "outrigger.dev/",
            "outrigger.dev/paused",
            "kubectl.kubernetes.io/",
            "kubectl.",
        ] {
            assert!(!ask(list, reserved), "{reserved}");
        }
    }
    assert!(ask(service, "service.beta.kubernetes.io/vendor-"));
    for list in [node, condition] {
        for reserved in [
            "kubernetes.io/",
            "k8s.io/",
            "k8s",
            "node.kubernetes.io/x",
            "a.k8s.io",
        ] {
            assert!(!ask(list, reserved), "{reserved}");
        }
        assert!(ask(list, "notkubernetes.io/"));
    }
}

#[test]
fn rate_limits_that_make_no_sense_limit_nothing() {
    let rates = |limits: &[(CallClass, f64, u32)]| {
        let limits = limits.iter().map(|(class, qps, burst)| RateLimit {
            call_class: (*class).into(),
            qps: *qps,
            burst: *burst,
        });
        accept_changed(|answer| answer.rate_limits = limits.collect())
            .unwrap()
            .rates
            .len()
    };
    assert_eq!(
        rates(&[(CallClass::All, 5.0, 0), (CallClass::Routes, 0.1, 3)]),
        2
    );
    assert_eq!(rates(&[(CallClass::Unspecified, 5.0, 1)]), 0);
    for qps in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(rates(&[(CallClass::All, qps, 1)]), 0, "{qps}");
    }
}

#[test]
fn names_are_held_against_the_flag_and_the_past() {
    let accept_as = |expected: Option<&str>, known_name: Option<&str>| {
        let options = Options {
            expected_name: expected.map(Into::into),
            ..options()
        };
        accept(&options, known_name, 1, fake::handshake()).map(|_| ())
    };
    assert!(accept_as(Some("fake"), Some("fake")).is_ok());
    let other = accept_as(Some("other"), None).unwrap_err();
    assert_eq!(other.cause, DownCause::WrongName);
    assert!(
        other.reason.contains("--cloud-provider is other"),
        "{}",
        other.reason
    );
    let changed = accept_as(None, Some("before")).unwrap_err();
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
    let session = capabilities(|offered| {
        offered.instances = Some(InstancesCapability {
            max_batch_size: 10_000,
            provider_id_prefixes: vec!["ocid1.instance.".into()],
            visibility_delay: Some(prost_types::Duration {
                seconds: 5,
                nanos: 0,
            }),
            lookup_preference: 99,
            ..InstancesCapability::default()
        });
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
        capabilities(|offered| change(offered.load_balancers.get_or_insert_default())).unwrap()
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
fn routes_are_declared_within_bounds() {
    for (declared, accepted) in [(0, 16), (1, 1), (1_000_000, 256)] {
        let offered = capabilities(|offered| {
            offered.routes = Some(v1::RoutesCapability {
                max_in_flight: declared,
            });
        });
        let routes = offered.unwrap().routes.unwrap();
        assert_eq!(routes.max_in_flight, accepted);
    }
}

#[test]
fn volumes_are_declared_within_bounds() {
    for (declared, accepted) in [(0, 16), (1, 1), (1_000_000, 256)] {
        let offered = capabilities(|offered| {
            offered.volumes = Some(v1::VolumesCapability {
                csi_drivers: vec!["disk.example".into()],
                // The last is of a later minor.
                source_kinds: vec![VolumeSourceKind::Cinder.into(), 0, 99],
                max_in_flight: declared,
            });
        });
        let volumes = offered.unwrap().volumes.unwrap();
        assert_eq!(volumes.max_in_flight, accepted);
        let served = &volumes.served;
        assert_eq!(&*served.provider, "fake");
        assert_eq!(*served.csi_drivers, ["disk.example".into()]);
        assert_eq!(*served.kinds, [InTreeKind::Cinder]);
    }
}
