//! Load balancer calls, seen from the other end of the wire.

use std::time::Duration;

use outrigger_api::v1::{
    DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, ListLoadBalancersRequest,
    LoadBalancersCapability, NodeTargets, Service,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tonic::Request;

use crate::balancers::{Balancers, client, ensure, ensured, inline, serve, service, updated};
use crate::harness::{context, reason};

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
