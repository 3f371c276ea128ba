//! Calls about load balancers that hang, wait, overlap, or are not to be made; and reports without changes: lists and
//! plans.

use futures::future::join_all;
use outrigger_api::v1::{self, LoadBalancerDisposition as D};
use outrigger_core::service::answer::LoadBalancerAnswer;
use tokio::time::{Instant, timeout};

use super::{
    fake::{Reply, Step, ready, taken},
    millis,
    rig::{Rig, service, service_with, targets},
    secs,
};
use crate::{Error, OwnedLoadBalancer, Owner, PlanOperation, PlannedChange, Session};

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
    let serves = |session: &Session| session.load_balancers.is_some();
    let offered = timeout(secs(60), provider.offering(serves, without));
    assert!(offered.await.is_err());
    assert_eq!(said, 1);
    let rig = Rig::balancing(|_| {}).await;
    let without = || panic!("it does serve them");
    rig.provider.offering(serves, without).await;
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

fn owned(names: &[&str], complete: bool) -> Step<v1::ListLoadBalancersResponse> {
    let owned = |name: &&str| v1::OwnedLoadBalancer {
        identity: Some(v1::LoadBalancerIdentity {
            id: format!("lb-{name}"),
            name: format!("{name}\n"),
        }),
        service: (*name != "tagless").then(|| v1::ServiceRef {
            namespace: "shop".into(),
            name: (*name).into(),
            uid: format!("uid-{name}"),
        }),
        status: None,
    };
    Step::Say(v1::ListLoadBalancersResponse {
        items: names.iter().map(owned).collect(),
        complete,
    })
}

#[tokio::test(start_paused = true)]
async fn load_balancers_are_listed_with_their_services() {
    let rig = Rig::balancing(|_| {}).await;
    let list = async |steps| {
        rig.fake.balancers.on_list(steps);
        rig.provider.load_balancers().list().await
    };
    let listed = list(vec![owned(&["web"], false), owned(&["tagless"], true)]).await;
    assert_eq!(
        listed.unwrap(),
        [
            OwnedLoadBalancer {
                id: "lb-web".into(),
                name: "web\\n".into(),
                service: Some(Owner {
                    namespace: "shop".into(),
                    name: "web".into(),
                    uid: "uid-web".into(),
                }),
            },
            OwnedLoadBalancer {
                id: "lb-tagless".into(),
                name: "tagless\\n".into(),
                service: None,
            },
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_plan_has_texts_fit_for_a_terminal() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.plan.on(|_| {
        let change = |action: v1::ChangeAction| v1::PlannedChange {
            action: action.into(),
            resource_type: "target-group".into(),
            resource_id: "tg\u{1b}[2J".into(),
            summary: "x".repeat(5000),
        };
        Reply::Say(v1::PlanLoadBalancerResponse {
            changes: vec![
                change(v1::ChangeAction::Unspecified),
                change(v1::ChangeAction::Replace),
            ],
        })
    });
    let (web, all) = (service("web"), targets(["a"]));
    let provider = &rig.provider;
    let plan = provider
        .load_balancers()
        .plan(PlanOperation::Ensure, &web, &all);
    let change = |action| PlannedChange {
        action,
        resource_type: "target-group".into(),
        resource_id: "tg\\u{1b}[2J".into(),
        summary: "x".repeat(1024).into(),
    };
    let expected = [change("change"), change("replace")];
    assert_eq!(plan.await.unwrap(), expected);
    let plan = provider
        .load_balancers()
        .plan(PlanOperation::Delete, &web, &all);
    plan.await.unwrap();
    let calls: Vec<_> = rig.fake.balancers.plan.calls();
    let calls: Vec<_> = calls
        .iter()
        .map(|(_, r)| (r.operation(), r.targets.is_some()))
        .collect();
    assert_eq!(
        calls,
        [
            (v1::PlanOperation::Ensure, true),
            (v1::PlanOperation::Delete, false)
        ]
    );
}
