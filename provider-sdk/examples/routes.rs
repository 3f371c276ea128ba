//! A cloud with one route table in memory, each route marked with its cluster.
//!
//! ```sh
//! cargo run --example routes -- --endpoint unix://$PWD/run/provider.sock
//! ```

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use outrigger_provider_sdk::{
    Context, Error, Provider, ProviderInfo, Route, RouteChange, RouteSink, Routes, Server,
};

/// Routes by cluster UID and destination.
type Table = BTreeMap<(String, String), Route>;

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
fn key(ctx: &Context, route: &Route) -> Result<(String, String), Error> {
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

    async fn create_route(&self, ctx: &Context, route: &Route) -> Result<RouteChange, Error> {
        let key = key(ctx, route)?;
        ctx.check()?;
        self.with(|table| {
            if let Some(existing) = table.get(&key) {
                if existing.provider_id != route.provider_id {
                    let text = format!("the route leads to {}", existing.provider_id);
                    return Err(Error::conflicting_resource(text));
                }
                return Ok(RouteChange::created(existing.clone()));
            }
            if table.len() >= LIMIT {
                return Err(Error::quota_exceeded("the route table is full"));
            }
            let made = Route::new(route.destination_cidr.as_str())
                .with_name(format!("route-{}", route.destination_cidr))
                .with_provider_id(route.provider_id.as_str());
            table.insert(key, made.clone());
            Ok(RouteChange::created(made))
        })
    }

    async fn delete_route(&self, ctx: &Context, route: &Route) -> Result<RouteChange, Error> {
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
        Ok(RouteChange::deleted())
    }
}

fn main() -> ExitCode {
    let cloud = Cloud::default();
    outrigger_provider_sdk::main(async || Ok(Server::new(cloud.clone()).routes(cloud)))
}
