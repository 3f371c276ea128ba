//! New targets for load balancers that exist.

use std::sync::Arc;

use outrigger_api::v1::{self, LoadBalancerDisposition as D};
use outrigger_core::{
    service::answer::{Disposition, LoadBalancerAnswer},
    targets::Targets,
};
use tokio::time::Instant;

use super::{
    fake::{Reply, ready, taken},
    rig::{Rig, service, targets},
    secs,
};
use crate::Error;

async fn update(
    rig: &Rig,
    name: &str,
    targets: &Arc<Targets>,
) -> Result<LoadBalancerAnswer, Error> {
    let service = service(name);
    rig.provider.update_alone(&service, targets).await
}

#[tokio::test(start_paused = true)]
async fn an_update_is_about_one_service_and_all_its_targets() {
    let rig = Rig::balancing(|_| {}).await;
    let answer = update(&rig, "web", &targets(["a", "b"])).await.unwrap();
    assert_eq!(answer.disposition, Disposition::Ready);
    let (_, request) = rig.fake.balancers.update.calls().remove(0);
    assert_eq!(request.context.unwrap().cluster_name, "blue");
    assert_eq!(request.service.unwrap().name, "web");
    let names = rig.fake.balancers.resolve(request.targets).unwrap();
    assert_eq!(names.len(), 2);
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
        let (web, gone) = (service("web"), service("gone"));
        let (few, more) = (targets(["a"]), targets(["a", "b"]));
        let started = Instant::now();
        let results = tokio::join!(
            update(&rig, "one", &few),
            rig.provider.ensure_alone(&web, &few),
            update(&rig, "two", &more),
            rig.provider.delete_alone(&gone),
        );
        for result in <[_; 4]>::from(results) {
            result.unwrap();
        }
        assert_eq!(started.elapsed().as_secs(), took, "{max_in_flight}");
    }
}
