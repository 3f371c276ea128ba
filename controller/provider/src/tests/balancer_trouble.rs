//! Calls about load balancers that hang, wait, overlap, or are not to be made.

use futures::future::join_all;
use outrigger_api::v1::{self, LoadBalancerDisposition as D};
use outrigger_core::service::answer::LoadBalancerAnswer;
use tokio::time::{Instant, timeout};

use super::{
    fake::{Reply, ready, taken},
    millis,
    rig::{Rig, service, service_with, targets},
    secs,
};
use crate::Error;

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
async fn a_provider_that_serves_load_balancers_is_waited_for() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let provider = &rig.provider;
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

/// Two updates, an ensure and a deletion.
#[tokio::test(start_paused = true)]
async fn changing_calls_overlap_as_far_as_the_provider_takes_them() {
    for (max_in_flight, took) in [(1, 8), (2, 4), (0, 2)] {
        let rig = Rig::balancing(move |offered| {
            let offered = offered.load_balancers.get_or_insert_default();
            offered.max_in_flight = max_in_flight;
        })
        .await;
        let (balancers, two) = (&rig.fake.balancers, secs(2));
        balancers
            .update
            .on(move |_| Reply::After(two, Box::new(Reply::Say(taken()))));
        balancers
            .ensure
            .on(move |_| Reply::After(two, Box::new(Reply::Say(ready()))));
        balancers.delete.on(move |_| {
            let absent = v1::LoadBalancerAnswer {
                disposition: D::Absent.into(),
                ..v1::LoadBalancerAnswer::default()
            };
            Reply::After(two, Box::new(Reply::Say(absent)))
        });
        let [web, gone, one, two_more] = ["web", "gone", "one", "two"].map(service);
        let (few, more) = (targets(["a"]), targets(["a", "b"]));
        let started = Instant::now();
        let results = tokio::join!(
            rig.provider.update_alone(&one, &few),
            rig.provider.ensure_alone(&web, &few),
            rig.provider.update_alone(&two_more, &more),
            rig.provider.delete_alone(&gone),
        );
        for result in <[_; 4]>::from(results) {
            result.unwrap();
        }
        assert_eq!(started.elapsed().as_secs(), took, "{max_in_flight}");
    }
}
