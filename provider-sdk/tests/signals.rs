//! Signals to this very process; alone in its binary, since they reach every server in it.

// clippy knows tests, but not what they are made of.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use outrigger_api::v1::instances_service_client::InstancesServiceClient;
use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{
    self, BatchGetInstancesRequest, CallContext, GetStatusRequest, HandshakeRequest,
};
use outrigger_provider_sdk::{
    Context, Endpoint, Error, Instances, Lookup, Lookups, Provider, ProviderInfo, Query,
    ServeError, Server,
};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// A provider whose lookups never end.
#[derive(Clone)]
struct Hangs(mpsc::UnboundedSender<()>);

impl Provider for Hangs {
    fn info(&self) -> ProviderInfo {
        ProviderInfo::new("hangs", "1")
    }
}

impl Instances for Hangs {
    async fn get_instance(&self, _: &Context, _: &v1::Node, _: &Query) -> Result<Lookup, Error> {
        unreachable!("the batch is asked")
    }

    async fn get_instances(
        &self,
        _: &Context,
        _: &[v1::Node],
        _: &Query,
    ) -> Result<Lookups, Error> {
        self.0.send(()).unwrap();
        std::future::pending().await
    }
}

#[tokio::test]
async fn the_first_signal_drains_and_the_second_ends_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.sock");
    let endpoint = Endpoint::unix(&path).unwrap();
    let (running, mut hanging) = mpsc::unbounded_channel();
    let provider = Hangs(running);
    let server = Server::new(provider.clone()).instances(provider);
    let mut serving = JoinSet::new();
    let here = endpoint.clone();
    serving.spawn(async move { server.serve(&here).await });

    let limit = Duration::from_secs(10);
    let channel = tokio::time::timeout(limit, async {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        loop {
            ticks.tick().await;
            let endpoint = tonic::transport::Endpoint::from_shared(endpoint.to_string()).unwrap();
            if let Ok(channel) = endpoint.connect().await {
                return channel;
            }
        }
    })
    .await
    .unwrap();
    let mut provider = ProviderServiceClient::new(channel.clone());
    let hello = HandshakeRequest {
        min_minor: 1,
        max_minor: 1,
        ..Default::default()
    };
    provider.handshake(hello).await.unwrap();
    let mut instances = InstancesServiceClient::new(channel.clone());
    let mut calls = JoinSet::new();
    calls.spawn(async move {
        let context = CallContext {
            request_id: "r".to_owned(),
            ..Default::default()
        };
        let nodes = vec![v1::Node {
            name: "a".to_owned(),
            ..Default::default()
        }];
        let request = BatchGetInstancesRequest {
            context: Some(context),
            items: nodes,
            ..Default::default()
        };
        instances.batch_get_instances(request).await
    });
    tokio::time::timeout(limit, hanging.recv())
        .await
        .unwrap()
        .unwrap();

    kill_process(getpid(), Signal::TERM).unwrap();
    let refused = tokio::time::timeout(limit, async {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        loop {
            ticks.tick().await;
            if let Err(refused) = provider.get_status(GetStatusRequest {}).await {
                return refused;
            }
        }
    })
    .await
    .unwrap();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    let mut health = HealthClient::new(channel);
    let answer = health
        .check(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.status(), ServingStatus::NotServing);
    assert!(path.exists(), "a late caller gets an answer");
    assert!(serving.try_join_next().is_none(), "a call still runs");

    kill_process(getpid(), Signal::INT).unwrap();
    let ended = tokio::time::timeout(limit, serving.join_next()).await;
    let ended = ended
        .expect("the second signal was ignored")
        .unwrap()
        .unwrap();
    assert!(
        matches!(ended, Err(ServeError::Interrupted { signal: "SIGINT" })),
        "{ended:?}"
    );
    assert!(!path.exists());
}
