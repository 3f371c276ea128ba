use outrigger_api::v1;
use tokio::sync::mpsc;

use super::Route;
use crate::gather::{Gather, Gathered};
use crate::{Context, Error};

/// Where [`list_routes`](crate::Routes::list_routes) puts what it finds; as
/// [`InstanceSink`](crate::InstanceSink).
#[derive(Debug)]
pub struct RouteSink(Gather<v1::Route>);

impl Gathered for v1::Route {
    type Message = v1::ListRoutesResponse;

    fn message(items: Vec<Self>, complete: bool) -> Self::Message {
        v1::ListRoutesResponse { items, complete }
    }

    fn described(&self) -> String {
        format!("the route to {:?}", self.destination_cidr)
    }
}

impl RouteSink {
    /// A sink for messages of at most `max_bytes`.
    pub(crate) fn new(
        ctx: Context,
        messages: mpsc::Sender<Result<v1::ListRoutesResponse, tonic::Status>>,
        max_bytes: usize,
    ) -> Self {
        Self(Gather::new(ctx, messages, max_bytes))
    }

    /// Hands over one route. Waits while the caller is behind; fails once it has gone, or if the route
    /// alone is larger than any message the caller accepts. Pass the failure on with `?`.
    ///
    /// # Cancellation
    ///
    /// Safe to drop only together with the whole list: a route may be lost.
    pub async fn send(&mut self, route: Route) -> Result<(), Error> {
        self.0.send(route.into_wire()).await
    }

    /// Hands over a page of routes, in order; as [`send`](Self::send).
    pub async fn send_all(
        &mut self,
        routes: impl IntoIterator<Item = Route, IntoIter: Send> + Send,
    ) -> Result<(), Error> {
        for route in routes {
            self.send(route).await?;
        }
        Ok(())
    }

    /// The list is whole: sends the rest, marked as complete.
    pub(crate) async fn complete(self) -> Result<(), Error> {
        self.0.complete().await
    }
}
