//! Order and rate of calls under a limit of the cloud.

use outrigger_api::v1;
use tokio::time::Instant;

use super::{
    rig::{Rig, node, service, targets},
    route_calls::{create, one_list},
};
use crate::LookupPurpose;

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
async fn each_call_has_its_urgency_under_a_limit_for_all() {
    let rig = limited_together(v1::CallClass::All, 1.0, 1);
    rig.wait_until_serving().await;
    rig.look_up("takes-the-burst").await.unwrap();
    rig.fake.routes.on_list(one_list());
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
        async {
            rig.provider.routes().list().await.unwrap();
            at()
        },
        async {
            create(&rig, 1).await.result.unwrap();
            at()
        },
        look_up("looked-at", LookupPurpose::Lifecycle),
        look_up("initialized", LookupPurpose::Initialization),
    );
    let (get, refresh, update, ensure, listed, created, lifecycle, initialization) = order;
    assert_eq!((initialization, lifecycle, created, listed), (1, 2, 3, 4));
    // These two are as urgent as each other.
    assert_eq!((update.min(ensure), update.max(ensure)), (5, 6));
    assert_eq!((refresh, get), (7, 8));
    let metrics = rig.metrics();
    for line in [
        r#"outrigger_provider_instance_calls_total{purpose="initialization"} 2"#,
        r#"outrigger_provider_instance_calls_total{purpose="lifecycle"} 1"#,
        r#"outrigger_provider_instance_calls_total{purpose="refresh"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}
