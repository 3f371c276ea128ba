//! Answers that are legal in the contract and harmful if they were written.

use outrigger_api::v1;
use outrigger_core::{error_class::ErrorClass, node::instance::Lookup};

use super::{
    fake::{Reply, found, ready},
    is_down,
    rig::{Rig, service, targets},
};
use crate::DownCause;
use outrigger_runtime::fixture::Warnings;

/// Declared is not granted: one line for the provider, one event for each Service.
#[tokio::test(start_paused = true)]
async fn effects_that_the_operator_has_not_granted_are_reported_and_not_written() {
    let warnings = Warnings::listen();
    let rig = Rig::balancing(|offered| {
        offered.effects = Some(v1::EffectsCapability {
            service_annotation_prefixes: vec!["external-dns.alpha.kubernetes.io/".into()],
            condition_type_prefixes: vec!["write.example/".into(), "other.example/".into()],
            ..v1::EffectsCapability::default()
        });
    })
    .await;
    rig.fake
        .balancers
        .ensure
        .on(|_: &v1::EnsureLoadBalancerRequest| {
            let hostname = "external-dns.alpha.kubernetes.io/hostname";
            Reply::Say(v1::LoadBalancerAnswer {
                effects: Some(v1::KubernetesEffects {
                    set_annotations: [(hostname.into(), "login.corp.example".into())].into(),
                    ..v1::KubernetesEffects::default()
                }),
                ..ready()
            })
        });
    let written = rig
        .provider
        .ensure_alone(&service("web"), &targets(["a"]))
        .await
        .unwrap()
        .effects;
    assert_eq!((written.annotations.len(), written.dropped.count()), (0, 1));
    let said: Vec<_> = written.events.iter().map(|event| &*event.message).collect();
    let why = "--provider-effect-prefixes does not grant it";
    assert!(said.len() == 1 && said[0].contains(why), "{said:?}");

    let session = rig.provider.session().unwrap();
    let missing = session.grants_missing().unwrap();
    let both = "under external-dns.alpha.kubernetes.io/, other.example/, which";
    assert!(missing.contains(both), "{missing}");
    assert!(rig.provider.dump().contains(&missing));
    rig.fake.kill();
    rig.reaches(is_down(DownCause::Disconnected)).await;
    rig.fake.restart();
    rig.wait_until_serving().await;
    assert_eq!(warnings.with("provider may not write all").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_address_of_services_is_no_load_balancers() {
    let rig = Rig::with(|options, fake| {
        options.cluster.service_cidrs = vec!["10.96.0.0/12".into()];
        fake.introduce(|answer| {
            let offered = answer.capabilities.get_or_insert_default();
            offered.load_balancers = Some(v1::LoadBalancersCapability::default());
        });
    });
    rig.wait_until_serving().await;
    rig.fake.balancers.ensure.on(|_| {
        let mut answer = ready();
        answer.status.as_mut().unwrap().ingress[0].ip = "10.96.0.1".into();
        Reply::Say(answer)
    });
    let error = rig
        .provider
        .ensure_alone(&service("web"), &targets(["a"]))
        .await
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Malformed);
    let why = "ip \"10.96.0.1\" is inside --service-cluster-ip-range";
    assert!(error.to_string().contains(why), "{error}");

    rig.fake.batch.on(|request| {
        let mut result = found(&request.items[0]);
        if let Some(v1::instance_result::Outcome::Found(instance)) = &mut result.outcome {
            let address = |address: &str| v1::NodeAddress {
                r#type: "InternalIP".into(),
                address: address.into(),
            };
            instance.addresses = ["10.96.0.1", "10.0.0.5"].map(address).into();
        }
        Reply::Say(v1::BatchGetInstancesResponse {
            results: vec![result],
        })
    });
    let Lookup::Found(instance) = rig.look_up("a").await.unwrap() else {
        panic!("it is found");
    };
    assert_eq!(instance.addresses.len(), 1);
    assert!(instance.faulty_addresses[0].contains("--service-cluster-ip-range"));
}
