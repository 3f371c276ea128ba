//! A controller's calls to a mock about routes.

use std::collections::BTreeMap;

use outrigger_api::ItemResult as _;
use outrigger_api::v1::route_result::Outcome;
use outrigger_api::v1::routes_service_client::RoutesServiceClient;
use outrigger_api::v1::{
    BatchCreateRoutesRequest, BatchDeleteRoutesRequest, CallContext, ListRoutesRequest,
    NodeAddress, Route, RouteResult,
};
use outrigger_provider_mock::cloud::Clock;
use outrigger_provider_mock::{Cloud, CloudConfig, ProviderOptions, ServedRoutes};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::harness::{Mock, context, reason};

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

/// Code and reason of each result by destination; a destination with two results fails the test.
pub(crate) fn outcomes(results: &[RouteResult]) -> BTreeMap<&str, (Code, Option<String>)> {
    let outcome = |result: &RouteResult| {
        let status = result.error().cloned().unwrap_or_default();
        let code = Code::from(status.code);
        let details = prost::Message::encode_to_vec(&status);
        (
            code,
            reason(&Status::with_details(code, "", details.into())),
        )
    };
    let outcomes: BTreeMap<_, _> = results
        .iter()
        .map(|result| (result.key.as_str(), outcome(result)))
        .collect();
    assert_eq!(outcomes.len(), results.len(), "a route has two results");
    outcomes
}

impl Routed {
    pub(crate) async fn start(served: ServedRoutes) -> Self {
        Self::over(|_| {}, served).await
    }

    pub(crate) async fn over(change: impl FnOnce(&mut CloudConfig), served: ServedRoutes) -> Self {
        let mut config = CloudConfig::new().unwrap();
        config.clock = Clock::tokio();
        change(&mut config);
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

    pub(crate) async fn create(&self, routes: Vec<Route>) -> Result<Vec<RouteResult>, Status> {
        let request = BatchCreateRoutesRequest {
            context: Some(self.context.clone()),
            items: routes,
        };
        let response = self.client.clone().batch_create_routes(request).await?;
        Ok(response.into_inner().results)
    }

    /// Makes routes, each of which must come to be. Returns them as they are answered.
    pub(crate) async fn made(&self, routes: Vec<Route>) -> Vec<Route> {
        let results = self.create(routes).await.unwrap();
        for (destination, (code, _)) in outcomes(&results) {
            assert_eq!(code, Code::Ok, "{destination}");
        }
        results
            .into_iter()
            .filter_map(|result| match result.outcome {
                Some(Outcome::Found(route)) => Some(route),
                _ => None,
            })
            .collect()
    }

    pub(crate) async fn delete(&self, routes: Vec<Route>) -> Result<Vec<RouteResult>, Status> {
        let request = BatchDeleteRoutesRequest {
            context: Some(self.context.clone()),
            items: routes,
        };
        let response = self.client.clone().batch_delete_routes(request).await?;
        Ok(response.into_inner().results)
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
