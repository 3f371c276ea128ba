//! `RoutesService`: requests checked and serialised before, results completed after a vendor's handler.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use outrigger_api::v1::{self, routes_service_server::RoutesService};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Response, Status};

use super::calls::{Answers, Call, answered, within};
use super::core::Core;
use super::effects::fit_effects;
use super::keys::{Held, Keys};
use crate::routes::{RouteChanges, RouteSink, into_wire, network};
use crate::{Context, Error, Route, Routes, RoutesCapability};

/// When a route is asked for again that another call changes: soon, since that call is mostly one
/// which its caller has cancelled.
const BUSY_RETRY: Duration = Duration::from_secs(1);

pub(super) struct RoutesRpc<R> {
    core: Arc<Core>,
    routes: Arc<R>,
    max_batch_size: usize,
    keys: Arc<Keys>,
    batches: Option<Arc<Semaphore>>,
}

impl<R: Routes> RoutesRpc<R> {
    pub(super) fn new(core: Arc<Core>, routes: Arc<R>, capability: &RoutesCapability) -> Self {
        let most = capability.max_in_flight as usize;
        Self {
            core,
            routes,
            max_batch_size: capability.max_batch_size as usize,
            keys: Arc::default(),
            batches: (most > 0).then(|| Arc::new(Semaphore::new(most))),
        }
    }
}

#[tonic::async_trait]
impl<R: Routes> RoutesService for RoutesRpc<R> {
    type ListRoutesStream = Answers<v1::ListRoutesResponse>;

    async fn list_routes(
        &self,
        request: Request<v1::ListRoutesRequest>,
    ) -> Result<Response<Self::ListRoutesStream>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "ListRoutes", &request, |request| {
                request.context.as_ref()
            })?;
            let max_bytes = call.session.max_send_bytes;
            let routes = Arc::clone(&self.routes);
            let messages = call.stream(async move |ctx, messages| {
                let mut sink = RouteSink::new(ctx.clone(), messages, max_bytes);
                routes.list_routes(&ctx, &mut sink).await?;
                sink.complete().await
            });
            Ok(Box::pin(messages) as Answers<_>)
        })
        .await
    }

    async fn batch_create_routes(
        &self,
        request: Request<v1::BatchCreateRoutesRequest>,
    ) -> Result<Response<v1::BatchCreateRoutesResponse>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "BatchCreateRoutes", &request, |request| {
                request.context.as_ref()
            })?;
            let wanted = request.into_inner().items;
            check_routes(&wanted, self.max_batch_size, wrong_to_create)?;
            let max_bytes = call.session.max_send_bytes;
            let (routes, keys) = (Arc::clone(&self.routes), Arc::clone(&self.keys));
            let batches = self.batches.clone();
            let response = call.run(async move |ctx| {
                let batch = Batch::begin(&ctx, &keys, batches, wanted).await?;
                let changed = match batch.routes.as_slice() {
                    [] => RouteChanges::new(),
                    free => routes.create_routes(&ctx, free).await?,
                };
                let results = fit_effects(batch.results(changed, true), max_bytes);
                let response = v1::BatchCreateRoutesResponse { results };
                within(max_bytes, response, "RoutesCapability.max_batch_size")
            });
            response.await
        })
        .await
    }

    async fn batch_delete_routes(
        &self,
        request: Request<v1::BatchDeleteRoutesRequest>,
    ) -> Result<Response<v1::BatchDeleteRoutesResponse>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "BatchDeleteRoutes", &request, |request| {
                request.context.as_ref()
            })?;
            let unwanted = request.into_inner().items;
            check_routes(&unwanted, self.max_batch_size, |_| None)?;
            let max_bytes = call.session.max_send_bytes;
            let (routes, keys) = (Arc::clone(&self.routes), Arc::clone(&self.keys));
            let batches = self.batches.clone();
            let response = call.run(async move |ctx| {
                let batch = Batch::begin(&ctx, &keys, batches, unwanted).await?;
                let changed = match batch.routes.as_slice() {
                    [] => RouteChanges::new(),
                    free => routes.delete_routes(&ctx, free).await?,
                };
                let results = fit_effects(batch.results(changed, false), max_bytes);
                let response = v1::BatchDeleteRoutesResponse { results };
                within(max_bytes, response, "RoutesCapability.max_batch_size")
            });
            response.await
        })
        .await
    }
}

/// Routes of one request, their keys held until this is dropped.
struct Batch {
    /// Those that no other call changes.
    routes: Vec<Route>,
    busy: Vec<Route>,
    _held: Vec<Held>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Batch {
    /// Waits until one more batch may run. A route that another call changes is not waited for: the
    /// others of the batch would wait with it.
    async fn begin(
        ctx: &Context,
        keys: &Arc<Keys>,
        batches: Option<Arc<Semaphore>>,
        wire: Vec<v1::Route>,
    ) -> Result<Self, Error> {
        let slot = match batches {
            None => None,
            Some(batches) => tokio::select! {
                biased;
                () = ctx.cancelled() => return Err(Error::cancelled()),
                // It is never closed.
                slot = batches.acquire_owned() => slot.ok(),
            },
        };
        let mut held = Vec::with_capacity(wire.len());
        let (routes, busy) = wire.into_iter().map(Route::from_wire).partition(|route| {
            let key = keys.try_hold(&key(&route.destination_cidr));
            let is_free = key.is_some();
            held.extend(key);
            is_free
        });
        Ok(Self {
            routes,
            busy,
            _held: held,
            _slot: slot,
        })
    }

    /// Exactly one result for each route.
    fn results(self, mut changed: RouteChanges, is_creation: bool) -> Vec<v1::RouteResult> {
        let busy = self.busy.into_iter().map(|route| {
            let text = format!(
                "another call changes the route to {}",
                route.destination_cidr
            );
            let busy = Error::operation_in_progress(text).with_retry_after(BUSY_RETRY);
            into_wire(route.destination_cidr, Err(busy), is_creation)
        });
        let free = self.routes.into_iter().map(|route| {
            let result = changed.remove(&route.destination_cidr).unwrap_or_else(|| {
                tracing::warn!(
                    route = route.destination_cidr,
                    "a batch returned no result for a route"
                );
                Err(Error::internal(
                    "the provider returned no result for this route",
                ))
            });
            into_wire(route.destination_cidr, result, is_creation)
        });
        let results = free.chain(busy).collect();
        for route in changed.keys() {
            tracing::warn!(
                route,
                "a batch returned a result for a route that the request does not name"
            );
        }
        results
    }
}

/// One for all spellings. A listed route may have a destination that is none.
fn key(destination: &str) -> String {
    network(destination).map_or_else(
        || destination.to_owned(),
        |(ip, length)| format!("{ip}/{length}"),
    )
}

fn check_routes(
    routes: &[v1::Route],
    max_batch_size: usize,
    wrong: impl Fn(&v1::Route) -> Option<String>,
) -> Result<(), Error> {
    if routes.is_empty() || routes.len() > max_batch_size {
        return Err(Error::invalid_request(format!(
            "the request is about {} routes; send 1 to {max_batch_size} \
             (RoutesCapability.max_batch_size)",
            routes.len()
        )));
    }
    let mut keys = HashSet::with_capacity(routes.len());
    for (index, route) in routes.iter().enumerate() {
        let destination = &route.destination_cidr;
        let twice = || {
            let is_new = keys.insert(key(destination));
            (!is_new).then(|| format!("has the destination {destination:?}, which came before"))
        };
        let wrong = too_long(route).or_else(|| wrong(route)).or_else(twice);
        if let Some(wrong) = wrong {
            return Err(Error::invalid_request(format!("routes[{index}] {wrong}")));
        }
    }
    Ok(())
}

fn too_long(route: &v1::Route) -> Option<String> {
    [
        ("destination_cidr", &route.destination_cidr, 1, 253),
        ("name", &route.name, 0, 253),
        ("node_name", &route.node_name, 0, 253),
        ("node_uid", &route.node_uid, 0, 253),
        ("provider_id", &route.provider_id, 0, 1_024),
    ]
    .into_iter()
    .find(|(_, text, least, most)| !(*least..=*most).contains(&text.len()))
    .map(|(field, text, least, most)| {
        let bytes = text.len();
        format!("has a {field} of {bytes} bytes; send {least} to {most}")
    })
}

/// A route is listed by one of several fields, and created with all of them.
fn wrong_to_create(route: &v1::Route) -> Option<String> {
    let destination = &route.destination_cidr;
    let (address, _) = destination.split_once('/').unwrap_or_default();
    match network(destination) {
        None => Some(format!(
            "has the destination {destination:?}, which is no CIDR"
        )),
        Some((network, length)) if address.parse() != Ok(network) => Some(format!(
            "has the destination {destination:?} with host bits; send {network}/{length}"
        )),
        Some(_) if route.node_name.is_empty() => Some("has no node_name".to_owned()),
        Some(_) => None,
    }
}
