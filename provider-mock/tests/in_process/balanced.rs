//! A controller's calls to a mock about load balancers.

use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::{
    DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, GetLoadBalancerRequest, InlineNodes,
    ListLoadBalancersRequest, LoadBalancerAnswer, LoadBalancerStatus, NodeTargets,
    OwnedLoadBalancer, Service, ServicePort, node_targets,
};
use outrigger_provider_mock::cloud::Clock;
use outrigger_provider_mock::load_balancers::{LoadBalancer, LoadBalancerRules};
use outrigger_provider_mock::{Cloud, CloudConfig, ProviderOptions, ServedLoadBalancers};
use tonic::Status;
use tonic::transport::Channel;

use crate::harness::{Mock, context, node};

/// A mock and what a controller asks of it about load balancers.
pub(crate) struct Balanced {
    pub(crate) mock: Mock,
    client: LoadBalancersServiceClient<Channel>,
}

pub(crate) fn service(name: &str) -> Service {
    Service {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        r#type: "LoadBalancer".into(),
        ports: vec![port("TCP", 80, 30_080)],
        ..Service::default()
    }
}

pub(crate) fn port(protocol: &str, port: i32, node_port: i32) -> ServicePort {
    ServicePort {
        protocol: protocol.into(),
        port,
        node_port,
        ..ServicePort::default()
    }
}

pub(crate) fn annotated(name: &str, key: &str, value: &str) -> Service {
    Service {
        annotations: [(format!("mock.example/{key}"), value.to_owned())].into(),
        ..service(name)
    }
}

pub(crate) fn inline(names: &[&str]) -> NodeTargets {
    let nodes = names.iter().map(|name| node(name)).collect();
    NodeTargets {
        targets: Some(node_targets::Targets::Inline(InlineNodes { nodes })),
    }
}

impl Balanced {
    pub(crate) async fn start(change: impl FnOnce(&mut LoadBalancerRules)) -> Self {
        Self::serving(change, ServedLoadBalancers::default()).await
    }

    pub(crate) async fn serving(
        change: impl FnOnce(&mut LoadBalancerRules),
        served: ServedLoadBalancers,
    ) -> Self {
        let mut config = CloudConfig::new().unwrap();
        config.clock = Clock::tokio();
        change(&mut config.load_balancers);
        let options = ProviderOptions {
            load_balancers: Some(served),
            ..ProviderOptions::default()
        };
        let mock = Mock::over(Cloud::new(config), options).await;
        Self {
            client: LoadBalancersServiceClient::new(mock.channel.clone()),
            mock,
        }
    }

    pub(crate) async fn get(&self, service: Service) -> Result<LoadBalancerAnswer, Status> {
        let request = GetLoadBalancerRequest {
            context: Some(context()),
            service: Some(service),
            targets: None,
            identity: None,
        };
        let response = self.client.clone().get_load_balancer(request).await?;
        Ok(response.into_inner().answer.unwrap_or_default())
    }

    pub(crate) async fn ensure(
        &self,
        service: Service,
        targets: NodeTargets,
    ) -> Result<LoadBalancerAnswer, Status> {
        let request = EnsureLoadBalancerRequest {
            context: Some(context()),
            service: Some(service),
            targets: Some(targets),
            identity: None,
        };
        let response = self.client.clone().ensure_load_balancer(request).await?;
        Ok(response.into_inner().answer.unwrap_or_default())
    }

    /// Ensures a Service with two targets.
    pub(crate) async fn make(&self, name: &str) -> Result<LoadBalancerAnswer, Status> {
        self.ensure(service(name), inline(&["n-1", "n-2"])).await
    }

    pub(crate) async fn delete(&self, service: Service) -> Result<LoadBalancerAnswer, Status> {
        let request = DeleteLoadBalancerRequest {
            context: Some(context()),
            service: Some(service),
            identity: None,
        };
        let response = self.client.clone().delete_load_balancer(request).await?;
        Ok(response.into_inner().answer.unwrap_or_default())
    }

    pub(crate) async fn list(&self) -> Result<(Vec<OwnedLoadBalancer>, bool), Status> {
        let request = ListLoadBalancersRequest {
            context: Some(context()),
        };
        let mut client = self.client.clone();
        let mut stream = client.list_load_balancers(request).await?.into_inner();
        let (mut listed, mut complete) = (Vec::new(), false);
        while let Some(message) = stream.message().await? {
            listed.extend(message.items);
            complete = message.complete;
        }
        Ok((listed, complete))
    }

    pub(crate) fn held(&self, name: &str) -> LoadBalancer {
        let held = self.mock.cloud.load_balancer(&format!("uid-{name}"));
        LoadBalancer::clone(&held.expect("it is not there"))
    }
}

pub(crate) fn ips(status: Option<&LoadBalancerStatus>) -> Vec<&str> {
    let ingress = status.expect("no status").ingress.iter();
    ingress.map(|one| one.ip.as_str()).collect()
}
