//! New targets for many load balancers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use outrigger_api::v1;
use outrigger_core::{
    service::answer::{Disposition, LoadBalancerAnswer},
    targets::Targets,
};
use tokio::time::Instant;
use tonic::Code;

use super::{
    alone::Asked,
    fake::{Reply, Step, ready, refusal, say, taken},
    millis,
    rig::{Rig, service, service_with, targets},
    secs,
};
use crate::{Error, TargetsUpdate};

pub(super) async fn update(
    rig: &Rig,
    name: &str,
    targets: &Arc<Targets>,
) -> Result<LoadBalancerAnswer, Error> {
    let targets = Arc::clone(targets);
    rig.provider
        .update_load_balancer(service(name), targets)
        .await
}

pub(super) async fn update_all(
    rig: &Rig,
    count: usize,
    targets: &Arc<Targets>,
) -> Vec<Result<LoadBalancerAnswer, Error>> {
    rig.provider.update_together(asked(count), targets).await
}

/// Updates of as many Services, with their answers to come.
pub(super) fn asked(count: usize) -> Vec<Asked> {
    let names = (0..count).map(|n| format!("web-{n}"));
    let updates = names.map(|name| TargetsUpdate::new(service(&name), || true));
    updates.collect()
}

fn sizes(rig: &Rig) -> Vec<usize> {
    let updates = rig.fake.balancers.updates.lock();
    let mut sizes: Vec<_> = updates.iter().map(|(_, r)| r.items.len()).collect();
    sizes.sort_unstable();
    sizes
}

#[tokio::test(start_paused = true)]
async fn a_batch_leaves_at_once_in_as_few_calls_as_the_provider_takes() {
    let rig = Rig::balancing(|_| {}).await;
    let started = Instant::now();
    let results = update_all(&rig, 250, &targets(["a", "b"])).await;
    for result in results {
        assert_eq!(result.unwrap().disposition, Disposition::Ready);
    }
    assert_eq!(sizes(&rig), [50, 100, 100]);
    assert_eq!(started.elapsed(), millis(0));
    let (_, request) = rig.fake.balancers.updates.lock().remove(0);
    assert_eq!(request.context.unwrap().cluster_name, "blue");
    let names = rig.fake.balancers.resolve(request.targets).unwrap();
    assert_eq!(names.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_takes_one_at_a_time_gets_one_at_a_time() {
    let rig = Rig::balancing(|offered| {
        offered.load_balancers = Some(v1::LoadBalancersCapability::default());
    })
    .await;
    let started = Instant::now();
    for result in update_all(&rig, 5, &targets(["a"])).await {
        result.unwrap();
    }
    assert_eq!(sizes(&rig), [1; 5]);
    assert_eq!(started.elapsed(), millis(0));
}

/// Two updates, for they have other targets, an ensure and a deletion.
#[tokio::test(start_paused = true)]
async fn changing_calls_do_not_overlap_where_the_provider_takes_one() {
    for (max_in_flight, took) in [(1, 8), (2, 4), (0, 2)] {
        let rig = Rig::balancing(move |offered| {
            let offered = offered.load_balancers.get_or_insert_default();
            offered.max_in_flight = max_in_flight;
        })
        .await;
        let (balancers, two) = (&rig.fake.balancers, secs(2));
        balancers.on_update(move |request| {
            let taken = request.items.iter().map(|s| say(taken(s)));
            [Step::Wait(two)].into_iter().chain(taken).collect()
        });
        balancers
            .ensure
            .on(move |_| Reply::After(two, Box::new(Reply::Say(ready()))));
        balancers.delete.on(move |_| {
            let absent = v1::LoadBalancerAnswer {
                disposition: v1::LoadBalancerDisposition::Absent.into(),
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

#[tokio::test(start_paused = true)]
async fn calls_are_cut_to_what_the_provider_takes() {
    let rig = Rig::with(|_, fake| {
        fake.introduce(|answer| {
            answer.max_receive_message_bytes = 64 << 10;
            let offered = answer.capabilities.get_or_insert_default();
            offered.load_balancers = Some(v1::LoadBalancersCapability {
                max_services_per_update: 200,
                ..v1::LoadBalancersCapability::default()
            });
        });
    });
    rig.wait_until_serving().await;
    let heavy = |name: String, bytes: usize| {
        service_with(&name, |service| {
            service["metadata"]["annotations"]["read.example/a"] = "x".repeat(bytes).into();
        })
    };
    let all = targets((0..20).map(|n| format!("node-{n}")));
    let heavy = |name, bytes| TargetsUpdate::new(heavy(name, bytes), || true);
    let mut updates: Vec<_> = (0..10)
        .map(|n| heavy(format!("web-{n}"), 18 << 10))
        .collect();
    updates.push(heavy("huge".into(), 63 << 10));
    let mut results = rig.provider.update_together(updates, &all).await;
    // Alone it would fit, but not with the nodes.
    let huge = results.pop().unwrap().unwrap_err();
    assert!(
        matches!(huge, Error::TooLarge { limit: 65536, .. }),
        "{huge:?}"
    );
    for result in results {
        result.unwrap();
    }
    assert_eq!(sizes(&rig), [1, 3, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_lost_on_the_way_is_synced_for_those_without_result() {
    let rig = Rig::holding().await;
    let times = AtomicUsize::new(0);
    rig.fake.balancers.on_update(move |request| {
        if times.fetch_add(1, Ordering::Relaxed) > 0 {
            return request.items.iter().map(|s| say(taken(s))).collect();
        }
        let unknown = refusal(Code::FailedPrecondition, "NODE_SET_UNKNOWN", None);
        vec![say(taken(&request.items[0])), Step::Fail(unknown)]
    });
    for result in update_all(&rig, 3, &targets(["a"])).await {
        result.unwrap();
    }
    assert_eq!(sizes(&rig), [2, 3]);
    assert_eq!(rig.fake.balancers.uploads.lock().len(), 2);
}
