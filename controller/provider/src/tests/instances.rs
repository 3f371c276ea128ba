//! How the provider serves instances, their list, and the rate that all calls share.

use outrigger_api::v1::{self, Instance, ListInstancesResponse};
use outrigger_core::error_class::ErrorClass;
use tokio::time::{Instant as Time, sleep, timeout};

use super::{
    fake::{Reply, status},
    rig::{Rig, node, service, targets},
    routes::{create, one_list},
    secs,
};
use crate::LookupPurpose;

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_a_provider_that_serves_instances() {
    let rig = Rig::with(|_, fake| {
        fake.introduce(|answer| answer.capabilities.get_or_insert_default().instances = None);
    });
    rig.wait_until_serving().await;
    let served = rig.provider.instances().until_served();
    assert!(timeout(secs(60), served).await.is_err());
    rig.fake.introduce(|_| {});
    rig.fake.kill();
    sleep(secs(1)).await;
    rig.fake.restart();
    let served = rig.provider.instances().until_served();
    let session = timeout(secs(60), served).await.unwrap().unwrap();
    assert!(session.instances.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_asked_now_whether_its_answers_count() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    assert_eq!(rig.provider.trouble().await, None);
    let balancers = v1::DependencyStatus {
        name: "balancer-api".into(),
        readiness: v1::Readiness::Degraded.into(),
        call_classes: vec![v1::CallClass::LoadBalancers.into()],
        ..v1::DependencyStatus::default()
    };
    let elsewhere = v1::GetStatusResponse {
        dependencies: vec![balancers.clone()],
        ..status(v1::Readiness::Degraded)
    };
    rig.fake.status.on(move |_| Reply::Say(elsewhere.clone()));
    assert_eq!(rig.provider.trouble().await, None);
    let dependency = v1::DependencyStatus {
        name: "cloud-api".into(),
        readiness: v1::Readiness::Degraded.into(),
        message: "the last call failed".into(),
        ..v1::DependencyStatus::default()
    };
    let degraded = v1::GetStatusResponse {
        dependencies: vec![balancers, dependency],
        ..status(v1::Readiness::Degraded)
    };
    rig.fake.status.on(move |_| Reply::Say(degraded.clone()));
    let trouble = rig.provider.trouble().await.unwrap();
    assert!(
        trouble.contains("cloud-api: the last call failed"),
        "{trouble}"
    );
    rig.fake.status.on(|_| {
        Reply::Say(v1::GetStatusResponse {
            boot_id: "another".into(),
            ..status(v1::Readiness::Ready)
        })
    });
    let trouble = rig.provider.trouble().await.unwrap();
    assert!(trouble.contains("another process"), "{trouble}");
    rig.fake.kill();
    sleep(secs(1)).await;
    assert!(rig.provider.trouble().await.is_some());
}

fn part(ids: &[&str], complete: bool) -> ListInstancesResponse {
    let instance = |id: &&str| Instance {
        provider_id: (*id).into(),
        ..Instance::default()
    };
    ListInstancesResponse {
        items: ids.iter().map(instance).collect(),
        complete,
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_has_each_instance_once() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let list = async |messages| {
        rig.fake.on_list(messages);
        let listed = rig
            .provider
            .instances()
            .list(LookupPurpose::Initialization, |_| true)
            .await;
        listed.map(|listed| {
            listed
                .iter()
                .map(|i| i.provider_id.to_string())
                .collect::<Vec<_>>()
        })
    };
    let listed = list(vec![part(&["fake://a"], false), part(&["fake://b"], true)]).await;
    assert_eq!(listed.unwrap(), ["fake://a", "fake://b"]);
    assert_eq!(list(vec![part(&[], true)]).await.unwrap().len(), 0);
    // An instance that breaks the contract is left out.
    let listed = list(vec![part(&["fake://a", "aws://b", ""], true)]).await;
    assert_eq!(listed.unwrap(), ["fake://a"]);
    let twice = vec![part(&["fake://a"], false), part(&["fake://a"], true)];
    let error = list(twice).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Malformed);
}

/// Lookups of each purpose, a route and its list, a change of a load balancer and a look at it.
#[tokio::test(start_paused = true)]
async fn all_calls_share_a_rate_for_all_and_none_waits_for_ever() {
    let rig = Rig::with(|_, fake| {
        fake.introduce(|answer| {
            answer.rate_limits = vec![v1::RateLimit {
                call_class: v1::CallClass::All.into(),
                qps: 1.0,
                burst: 1,
            }];
            let offered = answer.capabilities.get_or_insert_default();
            offered.load_balancers = Some(v1::LoadBalancersCapability::default());
            offered.routes = Some(v1::RoutesCapability::default());
        });
    });
    rig.wait_until_serving().await;
    rig.look_up("takes-the-burst").await.unwrap();
    rig.fake.routes.on_list(one_list());
    let max_staleness = secs(60);
    let (web, all) = (service("web"), targets(["a"]));
    let started = Time::now();
    let look_up = async |name: &str, purpose| {
        let instances = rig.provider.instances();
        instances.look_up(node(name), purpose).await.result.unwrap();
    };
    tokio::join!(
        look_up("refreshed", LookupPurpose::Refresh { max_staleness }),
        look_up("looked-at", LookupPurpose::Lifecycle),
        look_up("initialized", LookupPurpose::Initialization),
        async { drop(rig.provider.load_balancers().get(&web, &all).await.unwrap()) },
        async { drop(rig.provider.ensure_alone(&web, &all).await.unwrap()) },
        async { drop(rig.provider.routes().list().await.unwrap()) },
        async { drop(create(&rig, 1).await.result.unwrap()) },
    );
    assert_eq!(started.elapsed().as_secs(), 7);
}
