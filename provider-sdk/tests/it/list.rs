use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outrigger_api::v1::{Instance, ListInstancesRequest, ListInstancesResponse};
use outrigger_provider_sdk::{Context, Error, InstanceSink, Server};
use prost::Message;
use tokio::sync::Notify;
use tonic::{Code, Request};

use crate::harness::{AsyncList, List, Named, Rig, context, reason};

fn request() -> ListInstancesRequest {
    ListInstancesRequest {
        context: Some(context("list-1")),
        ..Default::default()
    }
}

fn instance(number: usize) -> Instance {
    Instance {
        provider_id: format!("test://{number:06}"),
        instance_type: "x".repeat(1000),
        ..Default::default()
    }
}

fn serve(list: impl AsyncList) -> Rig {
    Rig::serve(Server::new(Named::new()).instances(List(true, list)))
}

/// Sends `count` instances, then ends with `end`.
struct Sends {
    count: usize,
    end: fn() -> Result<(), Error>,
    sent: Arc<AtomicUsize>,
    gone: Arc<Notify>,
}

impl Sends {
    fn new(count: usize, end: fn() -> Result<(), Error>) -> Self {
        Self {
            count,
            end,
            sent: Arc::default(),
            gone: Arc::default(),
        }
    }
}

impl AsyncList for Sends {
    async fn list(&self, ctx: &Context, instances: &mut InstanceSink) -> Result<(), Error> {
        for number in 0..self.count {
            if let Err(error) = instances.send(instance(number)).await {
                assert!(ctx.is_cancelled());
                self.gone.notify_one();
                return Err(error);
            }
            self.sent.fetch_add(1, Ordering::SeqCst);
        }
        (self.end)()
    }
}

async fn read(rig: &Rig) -> (Vec<ListInstancesResponse>, Result<(), tonic::Status>) {
    let mut stream = rig
        .instances()
        .await
        .list_instances(request())
        .await
        .unwrap()
        .into_inner();
    let mut messages = Vec::new();
    loop {
        match stream.message().await {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => return (messages, Ok(())),
            Err(status) => return (messages, Err(status)),
        }
    }
}

#[tokio::test]
async fn a_list_comes_in_chunks_and_only_the_last_says_that_it_is_whole() {
    let (messages, end) = read(&serve(Sends::new(3500, || Ok(())))).await;
    end.unwrap();
    assert!(messages.len() > 3, "{} messages", messages.len());
    assert!(
        messages
            .iter()
            .all(|message| message.encoded_len() <= 1 << 20)
    );
    assert!(messages.iter().all(|message| message.items.len() > 100));
    let complete: Vec<_> = messages.iter().map(|message| message.complete).collect();
    assert!(complete.ends_with(&[false, true]) && complete.iter().filter(|c| **c).count() == 1);
    let ids = messages.iter().flat_map(|message| &message.items);
    assert!(
        ids.map(|i| i.provider_id.clone())
            .eq((0..3500).map(|n| instance(n).provider_id))
    );
}

#[tokio::test]
async fn an_error_or_a_panic_in_the_middle_ends_the_list_without_the_mark() {
    let fails = || Err(Error::rate_limited(Duration::from_secs(9)));
    let (messages, end) = read(&serve(Sends::new(2500, fails))).await;
    assert!(!messages.is_empty() && messages.iter().all(|message| !message.complete));
    assert_eq!(reason(&end.unwrap_err()), "RATE_LIMITED");

    let rig = serve(Sends::new(2500, || panic!("in the middle of a list")));
    for _ in 0..2 {
        let (messages, end) = read(&rig).await;
        assert!(messages.iter().all(|message| !message.complete));
        assert_eq!(end.unwrap_err().code(), Code::Internal);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_holds_the_handler_back_and_leaving_frees_it() {
    let list = Sends::new(50_000, || Ok(()));
    let (sent, gone) = (Arc::clone(&list.sent), Arc::clone(&list.gone));
    let rig = serve(list);
    let mut stream = rig
        .instances()
        .await
        .list_instances(request())
        .await
        .unwrap()
        .into_inner();
    assert!(!stream.message().await.unwrap().unwrap().complete);
    // On a paused clock time passes only once nothing else can happen.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let held = sent.load(Ordering::SeqCst);
    assert!(
        (1000..8000).contains(&held),
        "{held} instances are under way"
    );
    drop(stream);
    tokio::time::timeout(Duration::from_secs(1), gone.notified())
        .await
        .unwrap();
}

/// Sends one instance every 30 s.
struct Trickles;

impl AsyncList for Trickles {
    async fn list(&self, _: &Context, instances: &mut InstanceSink) -> Result<(), Error> {
        for number in 0..100 {
            instances.send_all([instance(number)]).await?;
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_cloud_does_not_look_silent_and_the_deadline_holds_to_the_end() {
    let rig = serve(Trickles);
    let mut list = Request::new(request());
    list.set_timeout(Duration::from_secs(290));
    let mut stream = rig
        .instances()
        .await
        .list_instances(list)
        .await
        .unwrap()
        .into_inner();
    let started = tokio::time::Instant::now();
    let mut messages = 0;
    let end = loop {
        let next = tokio::time::timeout(Duration::from_mins(1), stream.message());
        match next.await.expect("a minute of silence") {
            Ok(Some(message)) => messages += usize::from(!message.complete),
            Ok(None) => panic!("the list ended early"),
            Err(status) => break status,
        }
    };
    assert_eq!(end.code(), Code::DeadlineExceeded);
    assert_eq!((messages, started.elapsed().as_secs()), (9, 290));
}
