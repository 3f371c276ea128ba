//! A route table in memory, and a caller of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outrigger_api::v1::routes_service_client::RoutesServiceClient;
use outrigger_api::v1::{
    self, CreateRouteRequest, CreateRouteResponse, DeleteRouteRequest, KubernetesEffects, Route,
    RoutesCapability,
};
use outrigger_provider_sdk::{Context, Error, RouteSink, Routes, Server, WithEffects};
use parking_lot::Mutex;
use tokio::time::sleep;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::harness::{Named, Rig, context, handshake};

/// Routes by destination; the name of the Node chooses how a change goes.
#[derive(Clone, Default)]
pub(crate) struct Table {
    pub(crate) capability: RoutesCapability,
    pub(crate) routes: Arc<Mutex<BTreeMap<String, Route>>>,
}

impl Table {
    pub(crate) fn with(capability: RoutesCapability) -> Self {
        Self {
            capability,
            ..Self::default()
        }
    }

    async fn behave(route: &Route) -> Result<(), Error> {
        match route.node_name.as_str() {
            "panics" => panic!("secret of the vendor"),
            "refused" => Err(Error::quota_exceeded("the table is full").with_effects(effects())),
            name if name.starts_with("slow") => {
                sleep(Duration::from_secs(5)).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Routes for Table {
    fn capability(&self) -> RoutesCapability {
        self.capability
    }

    async fn list_routes(&self, _: &Context, routes: &mut RouteSink) -> Result<(), Error> {
        let listed: Vec<_> = self.routes.lock().values().cloned().collect();
        routes.send_all(listed).await?;
        Ok(())
    }

    async fn create_route(
        &self,
        _: &Context,
        route: &Route,
    ) -> Result<WithEffects<Option<Route>>, Error> {
        Self::behave(route).await?;
        let mut routes = self.routes.lock();
        let made = routes
            .entry(route.destination_cidr.clone())
            .or_insert_with(|| Route {
                name: format!("r-{}", route.node_name),
                ..route.clone()
            });
        Ok(Some(made.clone()).into())
    }

    async fn delete_route(&self, _: &Context, route: &Route) -> Result<WithEffects<()>, Error> {
        Self::behave(route).await?;
        self.routes.lock().remove(&route.destination_cidr);
        Ok(().into())
    }
}

pub(crate) fn effects() -> KubernetesEffects {
    KubernetesEffects {
        remove_annotations: vec!["x.test/y".to_owned()],
        ..KubernetesEffects::default()
    }
}

pub(crate) fn serve(routes: impl Routes) -> Rig {
    Rig::serve(Server::new(Named::new()).routes(routes))
}

pub(crate) async fn client(rig: &Rig) -> RoutesServiceClient<Channel> {
    let channel = rig.dial().await;
    handshake(channel.clone(), 1, 1).await.unwrap();
    RoutesServiceClient::new(channel).max_decoding_message_size(64 << 20)
}

/// A route from 10.1.`subnet`.0/24 to a Node.
pub(crate) fn route(subnet: u8, node: &str) -> v1::Route {
    v1::Route {
        destination_cidr: format!("10.1.{subnet}.0/24"),
        node_name: node.to_owned(),
        ..v1::Route::default()
    }
}

pub(crate) async fn create(
    client: &mut RoutesServiceClient<Channel>,
    route: v1::Route,
) -> Result<CreateRouteResponse, Status> {
    let request = CreateRouteRequest {
        context: Some(context("req-1")),
        route: Some(route),
    };
    client.create_route(request).await.map(Response::into_inner)
}

pub(crate) async fn delete(
    client: &mut RoutesServiceClient<Channel>,
    route: v1::Route,
) -> Result<(), Status> {
    let request = DeleteRouteRequest {
        context: Some(context("req-1")),
        route: Some(route),
    };
    let answer = client.delete_route(request).await?.into_inner();
    assert!(answer.absent.is_some());
    Ok(())
}
