//! Order and rate of calls under a limit of the cloud.

use outrigger_api::v1;
use tokio::time::Instant;

use super::{
    rig::{Rig, node, service, targets},
    route_calls::{create, one_list},
};
use crate::LookupPurpose;

fn limited(qps: f64, burst: u32) -> Rig {
    limited_together(v1::CallClass::Instances, qps, burst)
}

fn limited_together(class: v1::CallClass, qps: f64, burst: u32) -> Rig {
    Rig::with(|_, fake| {
        fake.introduce(move |answer| {
            answer.rate_limits = vec![v1::RateLimit {
                call_class: class.into(),
                qps,
                burst,
            }];
            let offered = answer.capabilities.get_or_insert_default();
            offered.load_balancers = Some(v1::LoadBalancersCapability::default());
            offered.routes = Some(v1::RoutesCapability::default());
        });
    })
}

#[tokio::test(start_paused = true)]
async fn the_clouds_own_rate_is_kept() {
    let rig = limited(2.0, 2);
    rig.wait_until_serving().await;
    let started = Instant::now();
    rig.look_up_all((0..600).map(|n| format!("n{n}"))).await;
    // Two at once, then one each 500 ms.
    let sent: Vec<u128> = rig
        .fake
        .batches
        .lock()
        .iter()
        .map(|(at, _)| at.duration_since(started).as_millis())
        .collect();
    assert_eq!(sent, [0, 0, 500, 1000, 1500, 2000]);
}

#[tokio::test(start_paused = true)]
async fn urgent_calls_go_before_those_that_wait_longer() {
    let rig = limited(1.0, 1);
    rig.wait_until_serving().await;
    rig.look_up("takes-the-burst").await.unwrap();
    let max_staleness = std::time::Duration::from_mins(1);
    let lookups = [
        ("refreshed", LookupPurpose::Refresh { max_staleness }),
        ("looked-at", LookupPurpose::Lifecycle),
        ("initialized", LookupPurpose::Initialization),
    ];
    futures::future::join_all(lookups.map(async |(name, purpose)| {
        rig.provider
            .instances()
            .look_up(node(name), purpose)
            .await
            .result
            .unwrap();
    }))
    .await;
    let batches = rig.fake.batches.lock();
    let order: Vec<_> = batches.iter().map(|(_, b)| &*b.items[0].name).collect();
    assert_eq!(
        order,
        ["takes-the-burst", "initialized", "looked-at", "refreshed"]
    );
    drop(batches);
    let metrics = rig.metrics();
    for line in [
        r#"outrigger_provider_instance_calls_total{purpose="initialization"} 2"#,
        r#"outrigger_provider_instance_calls_total{purpose="lifecycle"} 1"#,
        r#"outrigger_provider_instance_calls_total{purpose="refresh"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_limit_for_all_classes_serves_load_balancers_before_what_can_wait() {
    let rig = limited_together(v1::CallClass::All, 1.0, 1);
    rig.wait_until_serving().await;
    rig.look_up("takes-the-burst").await.unwrap();
    let started = Instant::now();
    let at = || started.elapsed().as_secs();
    let look_up = async |name: &str, purpose| {
        rig.provider
            .instances()
            .look_up(node(name), purpose)
            .await
            .result
            .unwrap();
        at()
    };
    let max_staleness = std::time::Duration::from_mins(1);
    let (web, db, all) = (service("web"), service("db"), targets(["a"]));
    let order = tokio::join!(
        async {
            rig.provider.load_balancers().get(&db, &all).await.unwrap();
            at()
        },
        look_up("refreshed", LookupPurpose::Refresh { max_staleness }),
        async {
            let update = rig.provider.update_alone(&db, &all);
            update.await.unwrap();
            at()
        },
        async {
            rig.provider.ensure_alone(&web, &all).await.unwrap();
            at()
        },
        look_up("looked-at", LookupPurpose::Lifecycle),
        look_up("initialized", LookupPurpose::Initialization),
    );
    let (get, refresh, update, ensure, lifecycle, initialization) = order;
    assert_eq!((initialization, lifecycle, refresh, get), (1, 2, 5, 6));
    // These two are as urgent as each other.
    assert_eq!(update.min(ensure), 3);
    assert_eq!(update.max(ensure), 4);
}

#[tokio::test(start_paused = true)]
async fn one_limit_for_all_classes_serves_routes_before_load_balancers() {
    let rig = limited_together(v1::CallClass::All, 1.0, 1);
    rig.wait_until_serving().await;
    rig.look_up("takes-the-burst").await.unwrap();
    rig.fake.routes.on_list(one_list());
    let started = Instant::now();
    let at = || started.elapsed().as_secs();
    let (web, all) = (service("web"), targets(["a"]));
    let order = tokio::join!(
        async {
            rig.provider.ensure_alone(&web, &all).await.unwrap();
            at()
        },
        async {
            rig.provider.routes().list().await.unwrap();
            at()
        },
        async {
            create(&rig, 1).await.result.unwrap();
            at()
        },
        async {
            rig.look_up("initialized").await.unwrap();
            at()
        },
    );
    assert_eq!(order, (4, 3, 2, 1));
}
