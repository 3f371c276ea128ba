//! A cloud with one route table in memory, each route marked with its cluster.
//!
//! ```sh
//! cargo run --example routes -- --endpoint unix://$PWD/run/provider.sock
//! ```

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use outrigger_provider_sdk::{
    Context, Error, Provider, ProviderInfo, RouteSink, Routes, Server, WithEffects, v1,
};

/// Routes by cluster UID and destination.
type Table = BTreeMap<(String, String), v1::Route>;

/// Most routes that the table has room for.
const LIMIT: usize = 100;

#[derive(Clone, Default)]
struct Cloud(Arc<Mutex<Table>>);

impl Cloud {
    fn with<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The mark of a route. Without the cluster's UID it could be another cluster's.
fn key(ctx: &Context, route: &v1::Route) -> Result<(String, String), Error> {
    let uid = ctx.cluster().uid.clone();
    if uid.is_empty() {
        return Err(Error::invalid_request("the cluster's UID is not known"));
    }
    Ok((uid, route.destination_cidr.clone()))
}

impl Provider for Cloud {
    fn info(&self) -> ProviderInfo {
        ProviderInfo::new("memory", env!("CARGO_PKG_VERSION"))
    }
}

impl Routes for Cloud {
    async fn list_routes(&self, ctx: &Context, routes: &mut RouteSink) -> Result<(), Error> {
        let table = self.with(|table| table.clone()).into_iter();
        let ours = table.filter(|((uid, _), _)| *uid == ctx.cluster().uid);
        routes.send_all(ours.map(|(_, route)| route)).await
    }

    async fn create_route(
        &self,
        ctx: &Context,
        route: &v1::Route,
    ) -> Result<WithEffects<Option<v1::Route>>, Error> {
        let key = key(ctx, route)?;
        ctx.check()?;
        self.with(|table| {
            if let Some(existing) = table.get(&key) {
                if existing.provider_id != route.provider_id {
                    let text = format!("the route leads to {}", existing.provider_id);
                    return Err(Error::conflicting_resource(text));
                }
                return Ok(Some(existing.clone()).into());
            }
            if table.len() >= LIMIT {
                return Err(Error::quota_exceeded("the route table is full"));
            }
            let made = v1::Route {
                name: format!("route-{}", route.destination_cidr),
                destination_cidr: route.destination_cidr.clone(),
                provider_id: route.provider_id.clone(),
                ..v1::Route::default()
            };
            table.insert(key, made.clone());
            Ok(Some(made).into())
        })
    }

    async fn delete_route(
        &self,
        ctx: &Context,
        route: &v1::Route,
    ) -> Result<WithEffects<()>, Error> {
        let key = key(ctx, route)?;
        ctx.check()?;
        self.with(|table| {
            // The destination may lead to another machine by now.
            if table
                .get(&key)
                .is_some_and(|existing| existing.provider_id == route.provider_id)
            {
                table.remove(&key);
            }
        });
        Ok(().into())
    }
}

fn main() -> ExitCode {
    let cloud = Cloud::default();
    outrigger_provider_sdk::main(async || Ok(Server::new(cloud.clone()).routes(cloud)))
}
