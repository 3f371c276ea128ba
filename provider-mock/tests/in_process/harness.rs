//! A mock and a caller in one process.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use outrigger_api::v1::instance_result::Outcome;
use outrigger_api::v1::instances_service_client::InstancesServiceClient;
use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{
    BatchGetInstancesRequest, CallContext, ClusterInfo, HandshakeRequest, HandshakeResponse,
    Instance, InstanceResult, InstanceView, ListInstancesRequest, Node,
};
use outrigger_provider_mock::{
    Cloud, CloudConfig, MockProvider, ProviderOptions, instances::InstanceSpec,
};
use tokio::io::DuplexStream;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status};
use tonic_types::StatusExt as _;

pub(crate) struct Mock {
    pub(crate) cloud: Cloud,
    pub(crate) handshake: HandshakeResponse,
    pub(crate) provider: ProviderServiceClient<Channel>,
    pub(crate) channel: Channel,
    instances: InstancesServiceClient<Channel>,
    _server: JoinSet<()>,
}

impl Mock {
    pub(crate) async fn start(change: impl FnOnce(&mut CloudConfig)) -> Self {
        let mut config = CloudConfig::new().unwrap();
        change(&mut config);
        Self::over(Cloud::new(config), ProviderOptions::default()).await
    }

    pub(crate) async fn over(cloud: Cloud, options: ProviderOptions) -> Self {
        let (dialed, accepted) = tokio::sync::mpsc::unbounded_channel();
        let incoming = futures::stream::unfold(accepted, async |mut accepted| {
            let stream: Option<DuplexStream> = accepted.recv().await;
            stream.map(|stream| (Ok::<_, Infallible>(stream), accepted))
        });
        let server = MockProvider::with_options(cloud.clone(), options).into_server();
        let mut running = JoinSet::new();
        running.spawn(async move {
            server
                .serve_with_incoming(incoming, std::future::pending())
                .await
                .unwrap();
        });
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(
            tower::service_fn(move |_: Uri| {
                let (here, there) = tokio::io::duplex(1 << 20);
                dialed.send(there).unwrap();
                std::future::ready(Ok::<_, Infallible>(TokioIo::new(here)))
            }),
        );
        let mut provider = ProviderServiceClient::new(channel.clone());
        let request = HandshakeRequest {
            min_minor: 1,
            max_minor: 1,
            controller_name: "test".into(),
            cluster: Some(ClusterInfo {
                name: "kubernetes".into(),
                uid: "u".into(),
                ..ClusterInfo::default()
            }),
            ..HandshakeRequest::default()
        };
        let handshake = provider.handshake(request).await.unwrap().into_inner();
        Self {
            cloud,
            handshake,
            provider,
            instances: InstancesServiceClient::new(channel.clone()),
            channel,
            _server: running,
        }
    }

    pub(crate) fn create(&self, name: &str) {
        self.cloud
            .create(InstanceSpec::named(name.parse().unwrap()))
            .unwrap();
    }

    /// Asks about these nodes now.
    pub(crate) async fn ask(&self, nodes: Vec<Node>) -> Result<Vec<InstanceResult>, Status> {
        self.ask_within(nodes, Duration::ZERO, None).await
    }

    /// Asks about nodes that have these names and nothing else.
    pub(crate) async fn ask_names(&self, names: &[&str]) -> Result<Outcomes, Status> {
        let nodes = names.iter().map(|name| node(name)).collect();
        self.ask(nodes).await.map(Outcomes::of)
    }

    pub(crate) async fn ask_within(
        &self,
        nodes: Vec<Node>,
        max_staleness: Duration,
        deadline: Option<Duration>,
    ) -> Result<Vec<InstanceResult>, Status> {
        let mut request = Request::new(BatchGetInstancesRequest {
            context: Some(context()),
            items: nodes,
            max_staleness: Some(max_staleness.try_into().unwrap()),
            view: InstanceView::Full.into(),
        });
        if let Some(deadline) = deadline {
            request.set_timeout(deadline);
        }
        let answer = self.instances.clone().batch_get_instances(request).await?;
        Ok(answer.into_inner().results)
    }

    /// Everything that is listed, and whether the list was marked as complete.
    pub(crate) async fn list(&self) -> Result<(Vec<Instance>, bool), Status> {
        let request = ListInstancesRequest {
            context: Some(context()),
            ..ListInstancesRequest::default()
        };
        let mut stream = self
            .instances
            .clone()
            .list_instances(request)
            .await?
            .into_inner();
        let (mut listed, mut complete) = (Vec::new(), false);
        while let Some(message) = stream.message().await? {
            assert!(!complete, "a message after the last");
            listed.extend(message.items);
            complete = message.complete;
        }
        Ok((listed, complete))
    }
}

pub(crate) fn context() -> CallContext {
    CallContext {
        request_id: "r".into(),
        cluster_name: "kubernetes".into(),
        ..CallContext::default()
    }
}

pub(crate) fn node(name: &str) -> Node {
    Node {
        name: name.into(),
        uid: format!("uid-of-{name}"),
        ..Node::default()
    }
}

/// Outcomes by node name; a name with two results fails the test.
#[derive(Debug)]
pub(crate) struct Outcomes(BTreeMap<String, Option<Outcome>>);

impl Outcomes {
    pub(crate) fn of(results: Vec<InstanceResult>) -> Self {
        let count = results.len();
        let by_name: BTreeMap<_, _> = results
            .into_iter()
            .map(|result| (result.key, result.outcome))
            .collect();
        assert_eq!(by_name.len(), count, "a node has two results");
        Self(by_name)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn outcome(&self, name: &str) -> &Outcome {
        self.0[name]
            .as_ref()
            .unwrap_or_else(|| panic!("{name} has no outcome"))
    }

    pub(crate) fn is_empty_for(&self, name: &str) -> bool {
        self.0[name].is_none()
    }

    pub(crate) fn found(&self, name: &str) -> &Instance {
        match self.outcome(name) {
            Outcome::Found(instance) => instance,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// Code and reason of an item's error.
    pub(crate) fn error(&self, name: &str) -> (tonic::Code, Option<String>) {
        match self.outcome(name) {
            Outcome::Error(status) => {
                use tonic_types::StatusExt as _;
                let details = prost::Message::encode_to_vec(status);
                let code = tonic::Code::from(status.code);
                let status = Status::with_details(code, "", details.into());
                (
                    code,
                    status.get_details_error_info().map(|info| info.reason),
                )
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

pub(crate) fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().map(|info| {
        assert_eq!(info.domain, outrigger_api::ERROR_DOMAIN);
        info.reason
    })
}

pub(crate) fn retry_after(status: &Status) -> Option<Duration> {
    status
        .get_details_retry_info()
        .and_then(|info| info.retry_delay)
}
