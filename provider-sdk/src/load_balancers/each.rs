use std::future::Future;

use futures::stream::{FuturesUnordered, StreamExt};
use outrigger_api::{ItemResult, v1};
use tokio::sync::mpsc;
use tonic::Status;

use super::{Answer, Updated};
use crate::{Context, Error, Service};

/// Where results of an update go.
pub(crate) type UpdateSender = mpsc::Sender<Result<v1::UpdateLoadBalancerNodesResponse, Status>>;

/// Updates each Service by itself, a bounded number at a time, and sends each result when it is
/// there. Once the caller no longer waits, updates in flight end and no other begins.
pub(crate) async fn update_each<'a, F>(
    ctx: &Context,
    services: &'a [Service],
    concurrency: usize,
    results: &UpdateSender,
    update: impl Fn(&'a Service) -> F,
) -> Result<(), Error>
where
    F: Future<Output = Result<Answer<Updated>, Error>>,
{
    let update = async |service: &'a Service| (service, update(service).await);
    let mut waiting = services.iter();
    let mut running: FuturesUnordered<_> = waiting
        .by_ref()
        .take(concurrency.max(1))
        .map(&update)
        .collect();
    while let Some((service, result)) = running.next().await {
        // Asking on would only meet the same wall, and a cloud that limits the rate counts each try.
        if let Err(error) = &result
            && error.stops_the_class()
        {
            for service in waiting.by_ref() {
                send(ctx, results, service, Err(error.again())).await;
            }
        }
        send(ctx, results, service, result).await;
        if !ctx.is_cancelled() {
            running.extend(waiting.next().map(&update));
        }
    }
    ctx.check()
}

/// A result without a reader is dropped: its Service is asked about again.
async fn send(
    ctx: &Context,
    results: &UpdateSender,
    service: &Service,
    result: Result<Answer<Updated>, Error>,
) {
    use v1::load_balancer_result::Outcome;
    let outcome = match result {
        Ok(answer) => Outcome::Found(answer.into_wire()),
        Err(error) => Outcome::Error(error.into_rpc_status()),
    };
    let message = v1::UpdateLoadBalancerNodesResponse {
        results: vec![v1::LoadBalancerResult::new(service.uid.clone(), outcome)],
    };
    tokio::select! {
        biased;
        _ = results.send(Ok(message)) => {}
        () = ctx.cancelled() => {}
    }
}
