//! Calls about load balancers that hang, wait, or are not to be made.

use futures::future::join_all;
use outrigger_core::{error_class::ErrorClass, service::answer::LoadBalancerAnswer};
use tokio::time::{Instant, timeout};

use super::{
    fake::{Reply, ready},
    millis,
    rig::{Rig, service, service_with, targets},
    secs,
};
use crate::{Error, PlanOperation};

async fn ensure(rig: &Rig, name: &str) -> Result<LoadBalancerAnswer, Error> {
    rig.provider
        .ensure_alone(&service(name), &targets(["a"]))
        .await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_ends_after_two_minutes_and_delays_no_other() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.ensure.on(|request| {
        if request.service.as_ref().unwrap().name == "stuck" {
            return Reply::Hang;
        }
        Reply::After(millis(20), Box::new(Reply::Say(ready())))
    });
    let started = Instant::now();
    let others = async {
        let others = (0..150).map(async |n| ensure(&rig, &format!("web-{n}")).await.unwrap());
        join_all(others).await;
        started.elapsed()
    };
    let (stuck, others) = tokio::join!(ensure(&rig, "stuck"), others);
    assert!(matches!(stuck, Err(Error::Timeout { .. })), "{stuck:?}");
    assert_eq!(started.elapsed(), secs(120));
    // 15 at once beside the one that hangs.
    assert_eq!(others, millis(200));
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_load_balancers_is_not_asked() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let (web, all) = (service("web"), targets(["a"]));
    let provider = &rig.provider;
    let plan = provider
        .load_balancers()
        .plan(PlanOperation::Ensure, &web, &all);
    for error in [
        provider.load_balancers().get(&web, &all).await.unwrap_err(),
        provider.ensure_alone(&web, &all).await.unwrap_err(),
        provider.delete_alone(&web).await.unwrap_err(),
        provider.update_alone(&web, &all).await.unwrap_err(),
        provider.load_balancers().list().await.unwrap_err(),
        plan.await.unwrap_err(),
    ] {
        assert_eq!(error.class(), ErrorClass::Unimplemented);
    }
    // Told once, and waited for until another process serves them.
    let mut said = 0;
    let without = || said += 1;
    assert!(
        timeout(
            secs(60),
            provider.load_balancers().wait_until_serving(without)
        )
        .await
        .is_err()
    );
    assert_eq!(said, 1);
    let rig = Rig::balancing(|_| {}).await;
    let without = || panic!("it does serve them");
    rig.provider
        .load_balancers()
        .wait_until_serving(without)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_service_too_large_for_the_provider_is_not_sent() {
    let rig = Rig::balancing_in_small_messages().await;
    let web = service_with("web", |service| {
        service["metadata"]["annotations"]["read.example/a"] = "x".repeat(70 << 10).into();
    });
    let all = targets(["a"]);
    for result in [
        rig.provider.load_balancers().get(&web, &all).await,
        rig.provider.ensure_alone(&web, &all).await,
        rig.provider.delete_alone(&web).await,
        rig.provider.update_alone(&web, &all).await,
    ] {
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::TooLarge { limit: 65536, .. }),
            "{error:?}"
        );
    }
    assert_eq!(rig.fake.balancers.get.calls().len(), 0);
}
