//! Log lines; alone in its binary, since a process has one log.

use std::io::{self, Write};
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use outrigger_api::v1::instances_service_client::InstancesServiceClient;
use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{self, BatchGetInstancesRequest, CallContext, HandshakeRequest};
use outrigger_provider_sdk::{
    Context, Error, Instances, Lookup, Lookups, Provider, ProviderInfo, Query, Server,
};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tonic::Request;
use tonic::transport::Endpoint;
use tower::service_fn;

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

#[derive(Clone)]
struct Panics;

impl Provider for Panics {
    fn info(&self) -> ProviderInfo {
        ProviderInfo::new("panics", "1")
    }
}

impl Instances for Panics {
    async fn get_instance(&self, _: &Context, _: &v1::Node, _: &Query) -> Result<Lookup, Error> {
        unreachable!("the batch is asked")
    }

    async fn get_instances(
        &self,
        _: &Context,
        _: &[v1::Node],
        _: &Query,
    ) -> Result<Lookups, Error> {
        unreachable!("out of cheese")
    }
}

#[tokio::test]
async fn a_panic_is_logged_with_its_call() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();

    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let incoming = tokio_stream::once(Ok::<_, io::Error>(theirs));
    let server = Server::new(Panics).instances(Panics);
    let mut serving = JoinSet::new();
    serving.spawn(server.serve_with_incoming(incoming, std::future::pending()));
    let mut ours = Some(TokioIo::new(ours));
    let channel = Endpoint::from_static("http://localhost")
        .connect_with_connector(service_fn(move |_| {
            std::future::ready(ours.take().ok_or_else(|| io::Error::other("one only")))
        }))
        .await
        .unwrap();
    let hello = HandshakeRequest {
        min_minor: 1,
        max_minor: 1,
        ..Default::default()
    };
    ProviderServiceClient::new(channel.clone())
        .handshake(hello)
        .await
        .unwrap();

    let mut request = Request::new(BatchGetInstancesRequest {
        context: Some(CallContext {
            request_id: "req-7".to_owned(),
            ..Default::default()
        }),
        items: vec![v1::Node {
            name: "a".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    });
    request
        .metadata_mut()
        .insert("traceparent", "00-aa-bb-01".parse().unwrap());
    InstancesServiceClient::new(channel)
        .batch_get_instances(request)
        .await
        .unwrap_err();

    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    let line = log
        .lines()
        .find(|line| line.contains("a handler panicked"))
        .expect(&log);
    for part in [
        "ERROR",
        "BatchGetInstances",
        "req-7",
        "00-aa-bb-01",
        "out of cheese",
    ] {
        assert!(line.contains(part), "{line} lacks {part}");
    }
}
