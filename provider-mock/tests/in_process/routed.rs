//! A controller's calls to a mock about routes.

use outrigger_api::v1::routes_service_client::RoutesServiceClient;
use outrigger_api::v1::{
    CallContext, CreateRouteRequest, CreateRouteResponse, DeleteRouteRequest, DeleteRouteResponse,
    ListRoutesRequest, NodeAddress, Route,
};
use outrigger_provider_mock::cloud::Clock;
use outrigger_provider_mock::{Cloud, CloudConfig, ProviderOptions, ServedRoutes};
use tonic::Status;
use tonic::transport::Channel;

use crate::harness::{Mock, context};

/// A mock and what a controller asks of it about routes.
pub(crate) struct Routed {
    pub(crate) mock: Mock,
    pub(crate) client: RoutesServiceClient<Channel>,
    context: CallContext,
}

/// A route to a Node, as a controller asks for it.
pub(crate) fn route(destination: &str, node: &str) -> Route {
    let internal = |address: &str| NodeAddress {
        r#type: "InternalIP".into(),
        address: address.into(),
    };
    Route {
        destination_cidr: destination.into(),
        node_name: node.into(),
        provider_id: format!("mock://{node}"),
        node_addresses: vec![internal("10.0.0.1"), internal("fd00::1")],
        node_uid: format!("uid-of-{node}"),
        ..Route::default()
    }
}

impl Routed {
    pub(crate) async fn start(served: ServedRoutes) -> Self {
        let mut config = CloudConfig::new().unwrap();
        config.clock = Clock::tokio();
        let options = ProviderOptions {
            routes: Some(served),
            ..ProviderOptions::default()
        };
        let mock = Mock::over(Cloud::new(config), options).await;
        Self {
            client: RoutesServiceClient::new(mock.channel.clone()),
            context: context(),
            mock,
        }
    }

    /// The same mock, called about another cluster.
    pub(crate) fn of_cluster(&self, uid: &str) -> (RoutesServiceClient<Channel>, CallContext) {
        let context = CallContext {
            cluster_uid: uid.into(),
            ..context()
        };
        (self.client.clone(), context)
    }

    pub(crate) async fn create(&self, route: Route) -> Result<CreateRouteResponse, Status> {
        let request = CreateRouteRequest {
            context: Some(self.context.clone()),
            route: Some(route),
        };
        let response = self.client.clone().create_route(request).await?;
        Ok(response.into_inner())
    }

    /// Makes a route, which must come to be. Returns it as it is answered.
    pub(crate) async fn made(&self, route: Route) -> Route {
        self.create(route).await.unwrap().found.unwrap()
    }

    pub(crate) async fn delete(&self, route: Route) -> Result<DeleteRouteResponse, Status> {
        let request = DeleteRouteRequest {
            context: Some(self.context.clone()),
            route: Some(route),
        };
        let response = self.client.clone().delete_route(request).await?;
        Ok(response.into_inner())
    }

    /// The routes that are listed, by destination, and whether the list was marked as complete.
    pub(crate) async fn list(&self) -> Result<(Vec<Route>, bool), Status> {
        list(self.client.clone(), self.context.clone()).await
    }
}

pub(crate) async fn list(
    mut client: RoutesServiceClient<Channel>,
    context: CallContext,
) -> Result<(Vec<Route>, bool), Status> {
    let request = ListRoutesRequest {
        context: Some(context),
    };
    let mut stream = client.list_routes(request).await?.into_inner();
    let (mut listed, mut complete) = (Vec::new(), false);
    while let Some(message) = stream.message().await? {
        assert!(!complete, "a message after the last");
        listed.extend(message.items);
        complete = message.complete;
    }
    listed.sort_by(|a, b| a.destination_cidr.cmp(&b.destination_cidr));
    Ok((listed, complete))
}
