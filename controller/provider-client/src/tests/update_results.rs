//! Results of an update, as they come or do not.

use std::time::Duration;

use futures::future::join_all;
use outrigger_api::v1::{self, load_balancer_result::Outcome};
use outrigger_core::{
    error_class::ErrorClass,
    service::{
        answer::{Disposition, LoadBalancerAnswer},
        update_size::UpdateResults,
    },
};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use super::{
    fake::{Step, outcome, refusal, say, taken, unsaid},
    rig::{Rig, targets},
    secs,
    updates::{asked, update, update_all},
};
use crate::{Error, admission::CallClass};

fn item(status: &Status) -> Outcome {
    let details: outrigger_api::RpcStatus = prost::Message::decode(status.details()).unwrap();
    Outcome::Error(outrigger_api::RpcStatus {
        code: status.code() as i32,
        message: status.message().into(),
        details: details.details,
    })
}

/// Each load balancer takes so long.
fn one_after_the_other(rig: &Rig, each: Duration) {
    rig.fake.balancers.on_update(move |request| {
        let services = request.items.iter();
        let steps = services.flat_map(|service| [Step::Wait(each), say(taken(service))]);
        steps.collect()
    });
}

/// Updates `count` Services. `None` if a Service has to be asked about again.
async fn update_some(rig: &Rig, count: usize) -> Vec<Option<Result<LoadBalancerAnswer, Error>>> {
    let all = targets(["a"]);
    rig.provider.update_some(asked(count), &all).await
}

#[tokio::test(start_paused = true)]
async fn each_result_is_handed_out_as_it_comes() {
    let rig = Rig::balancing(|_| {}).await;
    one_after_the_other(&rig, secs(10));
    let started = Instant::now();
    let (updates, answered): (Vec<_>, Vec<_>) = asked(20).into_iter().unzip();
    let all = targets(["a"]);
    let ended = join_all(answered.into_iter().map(async |answered| {
        answered.await.unwrap().result.unwrap();
        started.elapsed().as_secs()
    }));
    let slot = rig.provider.load_balancers().slot(false).await;
    let calls = rig.provider.load_balancers().update(slot, updates, &all);
    // 200 s in all: a long call is fine as long as something comes.
    let expected: Vec<u64> = (1..=20).map(|n| n * 10).collect();
    let (ended, (unsent, results)) = tokio::join!(ended, calls);
    assert_eq!((ended, unsent.len()), (expected, 0));
    let expected = UpdateResults {
        requested: 20,
        answered: 20,
        first: secs(10),
        last: secs(200),
    };
    assert_eq!(results, Some(expected));
}

/// Services without a result may be updated or not; they are asked about again, and none of them gets an error.
#[tokio::test(start_paused = true)]
async fn silence_ends_a_call_without_a_result_for_the_rest() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.on_update(|request| {
        vec![
            Step::Wait(secs(119)),
            say(taken(&request.items[0])),
            Step::Hang,
        ]
    });
    let started = Instant::now();
    let results = update_some(&rig, 3).await;
    assert!(
        matches!(results[..], [Some(Ok(_)), None, None]),
        "{results:?}"
    );
    assert_eq!(started.elapsed(), secs(119 + 120));
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_result_is_missing_alone_has_failed() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.on_update(|_| vec![Step::Hang]);
    let started = Instant::now();
    let error = update(&rig, "web", &targets(["a"])).await.unwrap_err();
    assert!(
        matches!(error, Error::Timeout { after, .. } if after == secs(120)),
        "{error:?}"
    );
    assert_eq!(error.class(), ErrorClass::Transient);
    assert_eq!(started.elapsed(), secs(120));
    rig.fake.balancers.on_update(|_| Vec::new());
    let error = update(&rig, "web", &targets(["a"])).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Malformed);
    assert!(
        error.to_string().contains("no result for the Service"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_lasts_as_long_as_results_come() {
    let rig = Rig::balancing(|_| {}).await;
    one_after_the_other(&rig, secs(100));
    let started = Instant::now();
    let results = update_all(&rig, 20, &targets(["a"])).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(started.elapsed(), secs(2000));
}

#[tokio::test(start_paused = true)]
async fn a_missing_alien_doubled_or_empty_result_concerns_its_service_alone() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.on_update(|request| {
        let services = &request.items;
        let alien = v1::Service {
            uid: "uid-alien".into(),
            ..services[0].clone()
        };
        let retained = v1::LoadBalancerAnswer {
            disposition: v1::LoadBalancerDisposition::Retained.into(),
            ..v1::LoadBalancerAnswer::default()
        };
        let ok = outrigger_api::RpcStatus::default();
        vec![
            say(taken(&services[0])),
            say(taken(&alien)),
            say(v1::LoadBalancerResult::default()),
            Step::Say(v1::UpdateLoadBalancerNodesResponse::default()),
            // The first answer counts: its caller has it already.
            say(outcome(&services[0], Outcome::Found(retained.clone()))),
            // web-1 is missing.
            say(unsaid(&services[2])),
            say(outcome(&services[3], Outcome::Found(retained))),
            say(outcome(&services[4], Outcome::Error(ok))),
            say(taken(&services[5])),
        ]
    });
    let results = update_some(&rig, 6).await;
    assert!(results[1].is_none());
    let results: Vec<_> = results.into_iter().flatten().collect();
    assert!(results[0].is_ok() && results[4].is_ok());
    for (at, says) in [
        (1, "without an outcome"),
        (2, "disposition RETAINED"),
        (3, "code OK"),
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
async fn a_message_may_have_the_results_of_several_services() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.on_update(|request| {
        let (some, rest) = request.items.split_at(3);
        let parts = [some, rest].map(|services| {
            Step::Say(v1::UpdateLoadBalancerNodesResponse {
                results: services.iter().map(taken).collect(),
            })
        });
        parts.into()
    });
    let results = update_some(&rig, 5).await;
    assert!(
        results.iter().all(|result| matches!(result, Some(Ok(_)))),
        "{results:?}"
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
            let updated = v1::LoadBalancerAnswer {
                disposition: said.into(),
                reason: "Because".into(),
                ..v1::LoadBalancerAnswer::default()
            };
            let updated = Outcome::Found(updated);
            vec![say(outcome(&request.items[0], updated))]
        });
        let answer = update(&rig, "web", &targets(["a"])).await.unwrap();
        assert_eq!((answer.disposition, &*answer.reason), (read, "Because"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_ends_is_left() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.on_update(|request| {
        let service = &request.items[0];
        let endless = (0..10_000).map(|_| say(taken(service)));
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
            say(taken(&request.items[0])),
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
    rig.open(CallClass::LoadBalancers).await;
    assert_eq!(started.elapsed(), secs(7));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_one_service_is_its_own_unless_it_speaks_for_all() {
    let rig = Rig::balancing(|_| {}).await;
    let answer_with = |reason: &'static str, code: Code, of: usize| {
        rig.fake.balancers.on_update(move |request| {
            let mut steps = Vec::new();
            for (at, service) in request.items.iter().enumerate() {
                let refused = item(&refusal(code, reason, None));
                let result = if at < of {
                    outcome(service, refused)
                } else {
                    taken(service)
                };
                steps.push(say(result));
            }
            steps
        });
    };
    let paused = async || {
        let started = Instant::now();
        rig.open(CallClass::LoadBalancers).await;
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
async fn a_provider_killed_in_flight_leaves_the_rest_open() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake
        .balancers
        .on_update(|request| vec![say(taken(&request.items[0])), Step::Hang]);
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
