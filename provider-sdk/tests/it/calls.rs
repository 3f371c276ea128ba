use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{self, GetStatusRequest, Node, instance_result::Outcome as Wire};
use outrigger_provider_sdk::{Context, Error, Instances, Lookups, Outcome, Server};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Request};

use crate::harness::{Batch, Each, Named, Rig, ask, found, handshake, lookup, reason};

fn serve(instances: impl Instances) -> Rig {
    Rig::serve(Server::new(Named::new()).instances(instances))
}

fn all_found(nodes: &[Node]) -> Lookups {
    nodes
        .iter()
        .map(|node| (node.name.clone(), Ok(found(&node.name))))
        .collect()
}

#[tokio::test]
async fn a_panic_is_an_internal_error_and_the_next_call_works() {
    let rig = serve(Batch(async |_: Context, nodes: Vec<Node>| {
        assert_ne!(nodes[0].name, "bad", "secret of the vendor");
        Ok(all_found(&nodes))
    }));
    let mut client = rig.instances().await;
    let failed = lookup(&mut client, ask(&["bad"])).await.unwrap_err();
    assert_eq!(
        (failed.code(), reason(&failed).as_str()),
        (Code::Internal, "")
    );
    assert!(failed.message().contains("req-1"), "{}", failed.message());
    assert!(!failed.message().contains("secret"), "{}", failed.message());
    assert_eq!(
        lookup(&mut client, ask(&["good"]))
            .await
            .unwrap()
            .results
            .len(),
        1
    );
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_panic_is_logged_with_its_call() {
    let log = Log::default();
    let writer = log.clone();
    // For all threads: a subscriber of one thread misses events whose first use was on another.
    let lines = tracing_subscriber::fmt().with_ansi(false);
    lines.with_writer(move || writer.clone()).init();
    let rig = serve(Batch(async |_: Context, _: Vec<Node>| {
        unreachable!("out of cheese")
    }));
    let mut request = Request::new(ask(&["a"]));
    let trace = "00-aa-bb-01".parse().unwrap();
    request.metadata_mut().insert("traceparent", trace);
    let mut client = rig.instances().await;
    client.batch_get_instances(request).await.unwrap_err();
    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    let line = log.lines().find(|line| line.contains("out of cheese"));
    let line = line.expect(&log);
    for part in [
        "ERROR",
        "BatchGetInstances",
        "req-1",
        "00-aa-bb-01",
        "a handler panicked",
    ] {
        assert!(line.contains(part), "{line} lacks {part}");
    }
}

#[tokio::test]
async fn a_panic_about_one_node_is_its_own_result() {
    let rig = serve(Each(8, async |_: Context, node: Node| {
        assert_ne!(node.name, "bad");
        Ok(found(&node.name))
    }));
    let answer = lookup(&mut rig.instances().await, ask(&["a", "bad", "b"]))
        .await
        .unwrap();
    let have_instance: Vec<_> = answer
        .results
        .iter()
        .map(|r| matches!(r.outcome, Some(Wire::Found(_))))
        .collect();
    assert_eq!(have_instance, [true, false, true]);
    let Some(Wire::Error(status)) = &answer.results[1].outcome else {
        panic!("no error")
    };
    assert_eq!(status.code, Code::Internal as i32);
}

/// A handler of two cloud calls, the second of which must follow the first whatever the caller does.
fn two_steps(steps: mpsc::UnboundedSender<&'static str>, second: Arc<Notify>) -> impl Instances {
    Batch(move |ctx: Context, nodes: Vec<Node>| {
        let (steps, second) = (steps.clone(), Arc::clone(&second));
        async move {
            steps.send("created").unwrap();
            ctx.cancelled().await;
            assert!(ctx.check().is_err());
            second.notified().await;
            sleep(Duration::from_secs(1)).await;
            steps.send("tagged").unwrap();
            Ok(all_found(&nodes))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_handler_outlives_a_caller_that_goes_away() {
    let (steps, mut seen) = mpsc::unbounded_channel();
    let second = Arc::new(Notify::new());
    let rig = serve(two_steps(steps, Arc::clone(&second)));
    let mut client = rig.instances().await;
    let call = lookup(&mut client, ask(&["a"]));
    tokio::select! {
        ended = call => panic!("{ended:?}"),
        step = seen.recv() => assert_eq!(step, Some("created")),
    }
    // The call was dropped: its stream is reset, and the handler goes on.
    second.notify_one();
    let step = timeout(Duration::from_secs(5), seen.recv())
        .await
        .expect("the handler was dropped");
    assert_eq!(step, Some("tagged"));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_its_callers_end_is_dropped_in_the_end() {
    struct Dropped(mpsc::UnboundedSender<Instant>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(Instant::now());
        }
    }
    let (dropped, mut drops) = mpsc::unbounded_channel();
    let rig = serve(Batch(move |_: Context, _: Vec<Node>| {
        let dropped = Dropped(dropped.clone());
        async move {
            std::future::pending::<()>().await;
            drop(dropped);
            Ok(Lookups::default())
        }
    }));
    let mut request = Request::new(ask(&["a"]));
    request.set_timeout(Duration::from_secs(3));
    let started = Instant::now();
    rig.instances()
        .await
        .batch_get_instances(request)
        .await
        .unwrap_err();
    let at = timeout(Duration::from_mins(5), drops.recv())
        .await
        .expect("it lives for ever");
    assert_eq!((at.unwrap() - started).as_secs(), 33);
}

#[tokio::test(start_paused = true)]
async fn single_lookups_end_with_their_caller() {
    let lookups = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lookups);
    let capability = 2;
    let rig = serve(Each(capability, move |_: Context, node: Node| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            sleep(Duration::from_secs(2)).await;
            Ok(found(&node.name))
        }
    }));
    let mut request = Request::new(ask(&["a", "b", "c", "d", "e", "f"]));
    request.set_timeout(Duration::from_secs(3));
    let answer = rig.instances().await.batch_get_instances(request).await;
    let results = answer.unwrap().into_inner().results;
    let is_found = |result: &v1::InstanceResult| matches!(result.outcome, Some(Wire::Found(_)));
    assert_eq!(results.iter().filter(|result| is_found(result)).count(), 2);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(lookups.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn a_handler_knows_its_deadline() {
    let rig = serve(Each(8, async |ctx: Context, _: Node| {
        let left = ctx.remaining().map_or(0, |left| left.as_millis());
        assert_eq!(ctx.traceparent(), Some("00-aa-bb-01"));
        Ok(Outcome::not_managed(left.to_string()).into())
    }));
    let mut request = Request::new(ask(&["a"]));
    request.set_timeout(Duration::from_secs(30));
    request
        .metadata_mut()
        .insert("traceparent", "00-aa-bb-01".parse().unwrap());
    let answer = rig
        .instances()
        .await
        .batch_get_instances(request)
        .await
        .unwrap()
        .into_inner();
    let Some(Wire::NotManaged(left)) = &answer.results[0].outcome else {
        panic!("{answer:?}")
    };
    assert_eq!(left.reason, "30000");
}

#[tokio::test(start_paused = true)]
async fn an_answered_call_is_not_cancelled_afterwards() {
    let (contexts, mut kept) = mpsc::unbounded_channel();
    let rig = serve(Each(8, move |ctx: Context, node: Node| {
        contexts.send(ctx).unwrap();
        async move { Ok(found(&node.name)) }
    }));
    let mut request = Request::new(ask(&["a"]));
    request.set_timeout(Duration::from_secs(3));
    rig.instances()
        .await
        .batch_get_instances(request)
        .await
        .unwrap();
    let ctx = kept.recv().await.unwrap();
    assert!(
        timeout(Duration::from_mins(1), ctx.cancelled())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn a_drain_refuses_new_calls_and_lets_running_ones_end() {
    let (started, mut running) = mpsc::unbounded_channel();
    let finish = Arc::new(Notify::new());
    let go = Arc::clone(&finish);
    let mut rig = serve(Batch(move |_: Context, nodes: Vec<Node>| {
        let go = Arc::clone(&go);
        started.send(()).unwrap();
        async move {
            go.notified().await;
            Ok(all_found(&nodes))
        }
    }));
    let (mut first, mut second) = (rig.instances().await, rig.instances().await);
    let channel = rig.dial().await;
    let call = lookup(&mut first, ask(&["a"]));
    tokio::pin!(call);
    tokio::select! {
        ended = &mut call => panic!("{ended:?}"),
        _ = running.recv() => rig.stop.cancel(),
    }
    tokio::task::yield_now().await;

    let refused = lookup(&mut second, ask(&["b"])).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::Unavailable, "SHUTTING_DOWN")
    );
    let refused = handshake(rig.dial().await, 1, 1).await.unwrap_err();
    assert_eq!(reason(&refused), "SHUTTING_DOWN");
    let mut status = ProviderServiceClient::new(channel);
    let refused = status.get_status(GetStatusRequest {}).await.unwrap_err();
    assert_eq!(reason(&refused), "SHUTTING_DOWN");

    finish.notify_one();
    assert_eq!(call.await.unwrap().results.len(), 1);
    rig.ended(Duration::from_secs(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_within_thirty_seconds_whatever_handlers_do() {
    let (cancelled, mut cancellations) = mpsc::unbounded_channel();
    let mut rig = serve(Batch(move |ctx: Context, _: Vec<Node>| {
        let cancelled = cancelled.clone();
        async move {
            ctx.cancelled().await;
            cancelled.send(()).unwrap();
            std::future::pending::<Result<Lookups, Error>>().await
        }
    }));
    let mut client = rig.instances().await;
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(async move { lookup(&mut client, ask(&["a"])).await });
    sleep(Duration::from_secs(1)).await;
    let started = Instant::now();
    rig.stop.cancel();
    rig.ended(Duration::from_secs(30)).await.unwrap();
    assert_eq!(cancellations.try_recv(), Ok(()));
    assert!(started.elapsed() >= Duration::from_secs(25));
}
