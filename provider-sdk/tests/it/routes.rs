//! A route table in memory, changed by two calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outrigger_api::v1::routes_service_client::RoutesServiceClient;
use outrigger_api::v1::{
    self, CreateRouteRequest, CreateRouteResponse, DeleteRouteRequest, Route, RoutesCapability,
};
use outrigger_provider_sdk::{Context, Error, RouteSink, Routes, Server, WithEffects};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::harness::{Named, Rig, context, handshake};

/// Routes by destination; the name of the Node chooses how a change goes.
#[derive(Clone, Default)]
struct Table {
    routes: Arc<Mutex<BTreeMap<String, Route>>>,
}

impl Table {
    async fn behave(route: &Route) {
        if route.node_name == "slow" {
            sleep(Duration::from_secs(5)).await;
        }
    }
}

impl Routes for Table {
    fn capability(&self) -> RoutesCapability {
        RoutesCapability::default()
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
        Self::behave(route).await;
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
        Self::behave(route).await;
        self.routes.lock().remove(&route.destination_cidr);
        Ok(().into())
    }
}

fn serve(routes: impl Routes) -> Rig {
    Rig::serve(Server::new(Named::new()).routes(routes))
}

async fn client(rig: &Rig) -> RoutesServiceClient<Channel> {
    let channel = rig.dial().await;
    handshake(channel.clone(), 1, 1).await.unwrap();
    RoutesServiceClient::new(channel).max_decoding_message_size(64 << 20)
}

/// A route from 10.1.`subnet`.0/24 to a Node.
fn route(subnet: u8, node: &str) -> v1::Route {
    v1::Route {
        destination_cidr: format!("10.1.{subnet}.0/24"),
        node_name: node.to_owned(),
        ..v1::Route::default()
    }
}

async fn create(
    client: &mut RoutesServiceClient<Channel>,
    route: v1::Route,
) -> Result<CreateRouteResponse, Status> {
    let request = CreateRouteRequest {
        context: Some(context("req-1")),
        route: Some(route),
    };
    client.create_route(request).await.map(Response::into_inner)
}

async fn delete(client: &mut RoutesServiceClient<Channel>, route: v1::Route) -> Result<(), Status> {
    let request = DeleteRouteRequest {
        context: Some(context("req-1")),
        route: Some(route),
    };
    let answer = client.delete_route(request).await?.into_inner();
    assert!(answer.absent.is_some());
    Ok(())
}

/// RTE-08.
#[tokio::test(start_paused = true)]
async fn one_destination_is_changed_by_one_call_at_a_time() {
    let table = Table::default();
    let rig = serve(table.clone());
    let (mut first, mut second) = (client(&rig).await, client(&rig).await);
    let started = Instant::now();
    let other = async {
        sleep(Duration::from_secs(1)).await;
        delete(&mut second, route(1, "n-2")).await.unwrap();
        assert_eq!(started.elapsed().as_secs(), 1, "another destination waits");
        // The same destination in another spelling.
        let respelled = v1::Route {
            destination_cidr: "10.1.0.7/24".to_owned(),
            ..route(0, "another")
        };
        delete(&mut second, respelled).await.unwrap();
        started.elapsed().as_secs()
    };
    let (made, deleted) = tokio::join!(create(&mut first, route(0, "slow")), other);
    made.unwrap();
    assert_eq!(deleted, 5);
}
