//! Load balancer calls, seen from the other end of the wire.

use std::time::Duration;

use outrigger_api::v1::{
    DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, GetLoadBalancerRequest,
    ListLoadBalancersRequest, LoadBalancerDisposition as Wire, LoadBalancersCapability,
    NodeTargets, PlanLoadBalancerRequest, Service,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tonic::{Code, Request};

use crate::balancers::{Balancers, client, ensure, ensured, inline, serve, service, updated};
use crate::harness::{context, reason};

/// LBS-01, LBS-02, LBS-12.
#[tokio::test]
async fn a_load_balancer_is_made_seen_planned_listed_and_deleted() {
    let balancers = Balancers::with(LoadBalancersCapability {
        list: true,
        plan: true,
        ..Default::default()
    });
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    let get = || GetLoadBalancerRequest {
        context: Some(context("r")),
        service: Some(service("web")),
        targets: None,
        identity: None,
    };
    let response = client.get_load_balancer(get()).await.unwrap().into_inner();
    assert_eq!(response.answer.unwrap().disposition(), Wire::Absent);
    let plan = PlanLoadBalancerRequest {
        context: Some(context("r")),
        operation: 1,
        service: Some(service("web")),
        targets: Some(inline(&["n-1", "n-2"])),
        identity: None,
    };
    let planned = client
        .plan_load_balancer(plan.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(planned.changes[0].summary, "2 targets");
    let nothing = PlanLoadBalancerRequest {
        operation: 0,
        ..plan
    };
    let refused = client.plan_load_balancer(nothing).await.unwrap_err();
    assert_eq!(reason(&refused), "INVALID_REQUEST");

    let made = ensured(&mut client, "web").await.unwrap();
    assert_eq!(made.disposition(), Wire::Ready);
    assert_eq!(made.status.unwrap().ingress[0].ip, "192.0.2.7");
    let response = client.get_load_balancer(get()).await.unwrap().into_inner();
    assert_eq!(response.answer.unwrap().disposition(), Wire::Ready);
    let list = ListLoadBalancersRequest {
        context: Some(context("r")),
    };
    let mut stream = client.list_load_balancers(list).await.unwrap().into_inner();
    let message = stream.message().await.unwrap().unwrap();
    assert!(message.complete);
    assert_eq!(message.items[0].service.as_ref().unwrap().uid, "uid-web");

    for _ in 0..2 {
        let delete = DeleteLoadBalancerRequest {
            context: Some(context("r")),
            service: Some(service("web")),
            identity: None,
        };
        let gone = client
            .delete_load_balancer(delete)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(gone.answer.unwrap().disposition(), Wire::Absent);
    }
    assert!(balancers.made.lock().is_empty());
}

#[tokio::test]
async fn requests_without_a_key_targets_or_a_declaration_reach_no_handler() {
    let balancers = Balancers::default();
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    let nameless = Service {
        uid: String::new(),
        ..service("a")
    };
    let without_service = EnsureLoadBalancerRequest {
        service: None,
        ..ensure(service("a"), inline(&[]))
    };
    for (request, says) in [
        (without_service, "no Service with a UID"),
        (ensure(nameless, inline(&[])), "no Service with a UID"),
        (ensure(service("a"), None), "no targets"),
        (
            ensure(service("a"), Some(NodeTargets::default())),
            "no targets",
        ),
    ] {
        let refused = client.ensure_load_balancer(request).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_REQUEST", "{refused}");
        assert!(refused.message().contains(says), "{says:?}: {refused}");
    }
    let list = ListLoadBalancersRequest {
        context: Some(context("r")),
    };
    let refused = client.list_load_balancers(list).await.unwrap_err();
    assert_eq!(reason(&refused), "CAPABILITY_DISABLED");
    assert!(balancers.made.lock().is_empty());
}

/// LBS-15, LBS-17.
#[tokio::test]
async fn an_update_sets_targets_and_makes_no_load_balancer() {
    let balancers = Balancers::default();
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    let absent = updated(&mut client, "web").await.unwrap();
    assert_eq!(absent.disposition(), Wire::Absent);
    ensured(&mut client, "web").await.unwrap();
    let ready = updated(&mut client, "web").await.unwrap();
    assert_eq!(ready.disposition(), Wire::Ready);
    assert_eq!(balancers.made.lock()["uid-web"], ["n-1", "n-2"]);
    let panicked = updated(&mut client, "panics").await.unwrap_err();
    assert_eq!(panicked.code(), Code::Internal);
    assert!(!panicked.message().contains("secret"));
    let refused = updated(&mut client, "refused").await.unwrap_err();
    assert_eq!(reason(&refused), "INVALID_ANNOTATION");
}

/// LBS-11.
#[tokio::test]
async fn a_foreign_class_is_not_managed_and_touches_nothing() {
    let balancers = Balancers::with(LoadBalancersCapability {
        classes: vec!["test/a".to_owned()],
        ..Default::default()
    });
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    for (class, expected) in [("test/a", Wire::Ready), ("other/b", Wire::NotManaged)] {
        let service = Service {
            load_balancer_class: Some(class.to_owned()),
            ..service(if class == "test/a" { "ours" } else { "theirs" })
        };
        let request = ensure(service, inline(&[]));
        let response = client
            .ensure_load_balancer(request)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(response.answer.unwrap().disposition(), expected, "{class}");
    }
    assert_eq!(balancers.made.lock().len(), 1);
}

/// LBS-05.
#[tokio::test(start_paused = true)]
async fn one_service_is_worked_on_by_one_call_at_a_time() {
    let rig = serve(&Balancers::default());
    let (mut first, mut second, mut other) =
        (client(&rig).await, client(&rig).await, client(&rig).await);
    let started = Instant::now();
    let (a, b, c) = tokio::join!(
        ensured(&mut first, "slow"),
        ensured(&mut second, "slow"),
        ensured(&mut other, "web"),
    );
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(started.elapsed().as_secs(), 10, "they ran at the same time");
}

/// Ensure, update and delete together.
#[tokio::test(start_paused = true)]
async fn a_provider_of_one_at_a_time_changes_one_at_a_time() {
    for (max_in_flight, took) in [(1, 20), (2, 10), (0, 5)] {
        let rig = serve(&Balancers::with(LoadBalancersCapability {
            max_in_flight,
            ..Default::default()
        }));
        let [mut first, mut second, mut other, mut third] = [
            client(&rig).await,
            client(&rig).await,
            client(&rig).await,
            client(&rig).await,
        ];
        let delete = DeleteLoadBalancerRequest {
            context: Some(context("r")),
            service: Some(service("slow-4")),
            identity: None,
        };
        let started = Instant::now();
        let (a, b, c, d) = tokio::join!(
            ensured(&mut first, "slow-1"),
            updated(&mut second, "slow-2"),
            updated(&mut other, "slow-3"),
            third.delete_load_balancer(delete),
        );
        assert!(a.is_ok() && b.is_ok() && c.is_ok() && d.is_ok());
        assert_eq!(started.elapsed().as_secs(), took, "{max_in_flight} at once");
    }
}

/// A handler that outlives its caller still holds its key.
#[tokio::test(start_paused = true)]
async fn the_next_call_waits_for_a_handler_whose_caller_went_away() {
    let (steps, mut seen) = mpsc::unbounded_channel();
    let balancers = Balancers {
        steps: Some(steps),
        ..Balancers::default()
    };
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    tokio::select! {
        ended = ensured(&mut client, "two-steps") => panic!("{ended:?}"),
        step = seen.recv() => assert_eq!(step, Some("created")),
    }
    let mut delete = Request::new(DeleteLoadBalancerRequest {
        context: Some(context("r")),
        service: Some(Service {
            name: "web".to_owned(),
            ..service("two-steps")
        }),
        identity: None,
    });
    delete.set_timeout(Duration::from_mins(1));
    let early = client.delete_load_balancer(delete).await.unwrap_err();
    assert_eq!(reason(&early), "OPERATION_IN_PROGRESS");
    balancers.second.notify_one();
    let step = timeout(Duration::from_secs(5), seen.recv()).await;
    assert_eq!(step.expect("the handler was dropped"), Some("tagged"));
}
