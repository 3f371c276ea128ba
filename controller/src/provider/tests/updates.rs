//! New targets for many load balancers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::{FutureExt, future::join_all};
use outrigger_api::v1::{self, update_load_balancer_nodes_response::Outcome};
use outrigger_core::{
    class::ErrorClass,
    service::answer::{Answer, Disposition},
    targets::Targets,
};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use super::{
    fake::{Step, outcome, refusal, taken},
    millis,
    rig::{Rig, service, service_with, targets},
    secs,
};
use crate::provider::{Class, Error};

async fn update(rig: &Rig, name: &str, targets: &Arc<Targets>) -> Result<Answer, Error> {
    let targets = Arc::clone(targets);
    rig.provider
        .update_load_balancer(service(name), targets)
        .await
}

async fn update_all(rig: &Rig, count: usize, targets: &Arc<Targets>) -> Vec<Result<Answer, Error>> {
    let names = (0..count).map(|n| format!("web-{n}"));
    join_all(names.map(async |name| update(rig, &name, targets).await)).await
}

fn sizes(rig: &Rig) -> Vec<usize> {
    let updates = rig.fake.balancers.updates.lock();
    let mut sizes: Vec<_> = updates.iter().map(|(_, r)| r.services.len()).collect();
    sizes.sort_unstable();
    sizes
}

fn item(status: &Status) -> Outcome {
    let details: outrigger_api::RpcStatus = prost::Message::decode(status.details()).unwrap();
    Outcome::Error(outrigger_api::RpcStatus {
        code: status.code() as i32,
        message: status.message().into(),
        details: details.details,
    })
}

#[tokio::test(start_paused = true)]
async fn who_wants_the_same_targets_leaves_in_one_call() {
    let rig = Rig::balancing(|_| {}).await;
    let started = Instant::now();
    let results = update_all(&rig, 250, &targets(["a", "b"])).await;
    for result in results {
        assert_eq!(result.unwrap().disposition, Disposition::Ready);
    }
    assert_eq!(sizes(&rig), [50, 100, 100]);
    assert_eq!(started.elapsed(), millis(25));
    let (_, request) = rig.fake.balancers.updates.lock().remove(0);
    assert_eq!(request.context.unwrap().cluster_name, "blue");
    let names = rig.fake.balancers.resolve(request.targets).unwrap();
    assert_eq!(names.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn other_targets_are_another_call_and_a_service_stands_in_one_once() {
    let rig = Rig::balancing(|_| {}).await;
    let (few, more) = (targets(["a"]), targets(["a", "b"]));
    let same = targets(["a"]);
    tokio::join!(
        async { update(&rig, "web", &few).await.unwrap() },
        // Made anew, and the same by content.
        async { update(&rig, "web", &same).await.unwrap() },
        async { update(&rig, "web", &more).await.unwrap() },
        async { update(&rig, "db", &few).await.unwrap() },
    );
    assert_eq!(sizes(&rig), [1, 2]);
    // Two of one name are two, as one of them was made again.
    let again = service_with("web", |service| {
        service["metadata"]["uid"] = "uid-again".into();
    });
    let again = rig.provider.update_load_balancer(again, few.clone());
    let (web, again) = tokio::join!(update(&rig, "web", &few), again);
    assert!(web.is_ok() && again.is_ok());
    assert_eq!(sizes(&rig), [1, 2, 2]);
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
    // Nobody waits for others that could not join.
    assert_eq!(started.elapsed(), millis(0));
}

#[tokio::test(start_paused = true)]
async fn each_result_is_handed_out_as_it_comes() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.on_update(|request| {
        let mut steps = Vec::new();
        for service in &request.services {
            steps.extend([Step::Wait(secs(10)), Step::Say(taken(service))]);
        }
        steps
    });
    let started = Instant::now();
    let all = targets(["a"]);
    let ended = join_all((0..20).map(async |n| {
        update(&rig, &format!("web-{n}"), &all).await.unwrap();
        started.elapsed().as_secs()
    }));
    // 200 s in all: a long call is fine as long as something comes.
    let expected: Vec<u64> = (1..=20).map(|n| n * 10).collect();
    assert_eq!(ended.await, expected);
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_call_for_those_without_result_alone() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.on_update(|request| {
        vec![
            Step::Wait(secs(59)),
            Step::Say(taken(&request.services[0])),
            Step::Hang,
        ]
    });
    let started = Instant::now();
    let results = update_all(&rig, 3, &targets(["a"])).await;
    assert!(results[0].is_ok());
    for result in &results[1..] {
        let error = result.as_ref().unwrap_err();
        assert!(
            matches!(error, Error::Timeout { after, .. } if *after == secs(60)),
            "{error:?}"
        );
        assert_eq!(error.class(), ErrorClass::Transient);
    }
    assert_eq!(started.elapsed(), secs(59 + 60) + millis(25));
}

#[tokio::test(start_paused = true)]
async fn no_call_is_longer_than_five_minutes() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.on_update(|request| {
        let mut steps = Vec::new();
        for service in &request.services {
            steps.extend([Step::Wait(secs(50)), Step::Say(taken(service))]);
        }
        steps
    });
    let started = Instant::now();
    let results = update_all(&rig, 20, &targets(["a"])).await;
    // At 50 s, 100 s … 300 s; which of the two at 300 s is first is open.
    let answered = results.iter().filter(|result| result.is_ok()).count();
    assert!((5..=6).contains(&answered), "{answered}");
    assert_eq!(started.elapsed(), secs(300) + millis(25));
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_alien_doubled_or_empty_concerns_its_service_alone() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.on_update(|request| {
        let services = &request.services;
        let alien = v1::Service {
            uid: "uid-alien".into(),
            ..services[0].clone()
        };
        let retained = v1::LoadBalancerUpdated {
            disposition: v1::LoadBalancerDisposition::Retained.into(),
            ..v1::LoadBalancerUpdated::default()
        };
        let ok = outrigger_api::RpcStatus::default();
        vec![
            Step::Say(taken(&services[0])),
            Step::Say(taken(&alien)),
            Step::Say(v1::UpdateLoadBalancerNodesResponse::default()),
            // The first answer counts: somebody has it already.
            Step::Say(outcome(&services[0], Outcome::Updated(retained.clone()))),
            // web-1 is missing.
            Step::Say(v1::UpdateLoadBalancerNodesResponse {
                outcome: None,
                ..taken(&services[2])
            }),
            Step::Say(outcome(&services[3], Outcome::Updated(retained))),
            Step::Say(outcome(&services[4], Outcome::Error(ok))),
            Step::Say(taken(&services[5])),
        ]
    });
    let results = update_all(&rig, 6, &targets(["a"])).await;
    assert!(results[0].is_ok() && results[5].is_ok());
    for (at, says) in [
        (1, "no result for the Service"),
        (2, "without an outcome"),
        (3, "is no answer to this call"),
        (4, "code OK"),
    ] {
        let error = results[at].as_ref().unwrap_err();
        assert_eq!(error.class(), ErrorClass::Malformed, "{at}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
    let metrics = rig.metrics();
    assert!(
        metrics.contains("outrigger_provider_stray_results_total 3"),
        "{metrics}"
    );
}

#[tokio::test(start_paused = true)]
async fn every_disposition_of_an_update_is_read() {
    use v1::LoadBalancerDisposition as D;
    let rig = Rig::balancing(|_| {}).await;
    for (said, read) in [
        (D::Ready, Disposition::Ready),
        (D::InProgress, Disposition::InProgress),
        (D::NotManaged, Disposition::NotManaged),
        (D::Absent, Disposition::Absent),
    ] {
        rig.fake.balancers.on_update(move |request| {
            let updated = v1::LoadBalancerUpdated {
                disposition: said.into(),
                reason: "Because".into(),
                ..v1::LoadBalancerUpdated::default()
            };
            let updated = Outcome::Updated(updated);
            vec![Step::Say(outcome(&request.services[0], updated))]
        });
        let answer = update(&rig, "web", &targets(["a"])).await.unwrap();
        assert_eq!((answer.disposition, &*answer.reason), (read, "Because"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_ends_is_left() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.on_update(|request| {
        let service = &request.services[0];
        let endless = (0..10_000).map(|_| Step::Say(taken(service)));
        endless.collect()
    });
    let results = update_all(&rig, 2, &targets(["a"])).await;
    assert!(results[0].is_ok());
    let error = results[1].as_ref().unwrap_err();
    assert!(error.to_string().contains("more results"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_call_is_that_of_all_without_result() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.on_update(|request| {
        vec![
            Step::Say(taken(&request.services[0])),
            Step::Fail(refusal(
                Code::ResourceExhausted,
                "RATE_LIMITED",
                Some(secs(7)),
            )),
        ]
    });
    let results = update_all(&rig, 2, &targets(["a"])).await;
    assert!(results[0].is_ok());
    let limited = ErrorClass::RateLimited {
        retry_after: Some(secs(7)),
    };
    assert_eq!(results[1].as_ref().unwrap_err().class(), limited);
    let started = Instant::now();
    rig.provider.open(Class::LoadBalancers).await;
    assert_eq!(started.elapsed(), secs(7));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_one_service_is_its_own_unless_it_speaks_for_all() {
    let rig = Rig::balancing(|_| {}).await;
    let answer_with = |reason: &'static str, code: Code, of: usize| {
        rig.fake.balancers.on_update(move |request| {
            let mut steps = Vec::new();
            for (at, service) in request.services.iter().enumerate() {
                let refused = item(&refusal(code, reason, None));
                let result = if at < of {
                    outcome(service, refused)
                } else {
                    taken(service)
                };
                steps.push(Step::Say(result));
            }
            steps
        });
    };
    let paused = async || {
        let started = Instant::now();
        rig.provider.open(Class::LoadBalancers).await;
        started.elapsed().as_secs()
    };
    let all = targets(["a"]);
    answer_with("CLOUD_UNAVAILABLE", Code::Unavailable, 1);
    let results = update_all(&rig, 2, &all).await;
    assert_eq!(
        results[0].as_ref().unwrap_err().class(),
        ErrorClass::Unavailable
    );
    assert!(results[1].is_ok());
    assert_eq!(paused().await, 0);
    answer_with("CLOUD_UNAVAILABLE", Code::Unavailable, 2);
    update_all(&rig, 2, &all).await;
    assert_eq!(paused().await, 1);
    answer_with("RATE_LIMITED", Code::ResourceExhausted, 1);
    let results = update_all(&rig, 2, &all).await;
    assert!(results[1].is_ok());
    assert_eq!(paused().await, 30);
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
    rig.serving().await;
    let heavy = |name: String, bytes: usize| {
        service_with(&name, |service| {
            service["metadata"]["annotations"]["read.example/a"] = "x".repeat(bytes).into();
        })
    };
    let all = targets((0..20).map(|n| format!("node-{n}")));
    let ask = async |name: String, bytes| {
        let service = heavy(name, bytes);
        rig.provider
            .update_load_balancer(service, all.clone())
            .await
    };
    let mut asks: Vec<_> = (0..10).map(|n| ask(format!("web-{n}"), 18 << 10)).collect();
    asks.push(ask("huge".into(), 63 << 10));
    let mut results = join_all(asks).await;
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
async fn a_caller_who_goes_takes_back_his_question_only() {
    let rig = Rig::balancing(|_| {}).await;
    let all = targets(["a"]);
    let mut gone = Box::pin(update(&rig, "gone", &all));
    assert!((&mut gone).now_or_never().is_none());
    let (stays, ()) = tokio::join!(update(&rig, "stays", &all), async {
        sleep(millis(5)).await;
        drop(gone);
    });
    stays.unwrap();
    let updates = rig.fake.balancers.updates.lock();
    let names: Vec<_> = updates[0].1.services.iter().map(|s| &*s.name).collect();
    assert_eq!(names, ["stays"]);
}

#[tokio::test(start_paused = true)]
async fn a_provider_killed_in_flight_leaves_the_rest_open() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake
        .balancers
        .on_update(|request| vec![Step::Say(taken(&request.services[0])), Step::Hang]);
    let killed = async {
        sleep(secs(3)).await;
        rig.fake.kill();
    };
    let all = targets(["a"]);
    let (results, ()) = tokio::join!(update_all(&rig, 2, &all), killed);
    assert!(results[0].is_ok());
    let error = results[1].as_ref().unwrap_err();
    assert!(matches!(error, Error::ConnectionLost { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_lost_on_the_way_is_synced_for_those_without_result() {
    let rig = Rig::holding().await;
    let times = AtomicUsize::new(0);
    rig.fake.balancers.on_update(move |request| {
        if times.fetch_add(1, Ordering::Relaxed) > 0 {
            return request
                .services
                .iter()
                .map(|s| Step::Say(taken(s)))
                .collect();
        }
        let unknown = refusal(Code::FailedPrecondition, "NODE_SET_UNKNOWN", None);
        vec![Step::Say(taken(&request.services[0])), Step::Fail(unknown)]
    });
    for result in update_all(&rig, 3, &targets(["a"])).await {
        result.unwrap();
    }
    assert_eq!(sizes(&rig), [2, 3]);
    assert_eq!(rig.fake.balancers.uploads.lock().len(), 2);
}
