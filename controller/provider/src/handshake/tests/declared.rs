//! Declared capabilities and limits, kept within bounds.

use super::*;

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
            offered.routes = Some(outrigger_api::v1::RoutesCapability {
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
