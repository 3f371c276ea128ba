//! `UpdateLoadBalancerNodes`: one request, and results as they come.

use std::time::Duration;

use outrigger_api::v1;
use tokio::{sync::mpsc, time::timeout};
use tonic::{Request, Response, Status};

use crate::provider::{
    call::{MessageLimits, Unary},
    details::Checked,
    raw,
};

/// How long one Service may take, as with a call about it alone: the longest time until the first result and from one
/// result to the next, for a provider may serve them one after the other.
pub(super) const PER_SERVICE: Duration = Duration::from_mins(2);

/// `LoadBalancersService.UpdateLoadBalancerNodes`.
pub(super) struct UpdateLoadBalancerNodes;

/// The request, and where its results go.
pub(super) struct Feed {
    pub(super) message: v1::UpdateLoadBalancerNodesRequest,
    pub(super) results: mpsc::Sender<v1::LoadBalancerResult>,
}

/// How a stream of results ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The stream is at its end.
    Whole,
    /// Nothing came for [`PER_SERVICE`].
    Silent,
    /// It would not end.
    TooMany,
}

impl Unary for UpdateLoadBalancerNodes {
    type Request = Feed;
    type Response = Ending;
    const NAME: &'static str = "UpdateLoadBalancerNodes";
    const DEADLINE: Duration = PER_SERVICE;
    const CHANGES: bool = true;
    const WITHOUT: &'static str =
        "targets are changed with one EnsureLoadBalancer for each Service instead";

    fn deadline(feed: &Feed) -> Duration {
        let services = u32::try_from(feed.message.items.len());
        PER_SERVICE.saturating_mul(services.unwrap_or(u32::MAX))
    }

    fn is_whole(ending: &Ending) -> bool {
        *ending == Ending::Whole
    }

    async fn send(
        channel: Checked,
        limits: MessageLimits,
        request: Request<Feed>,
    ) -> Result<Response<Ending>, Status> {
        let (metadata, extensions, Feed { message, results }) = request.into_parts();
        let mut room = 2 * message.items.len();
        let request = Request::from_parts(metadata, extensions, message);
        let path = "/cloudprovider.v1.LoadBalancersService/UpdateLoadBalancerNodes";
        let opening = raw::server_streaming(channel, limits, path, request);
        let Ok(response) = timeout(PER_SERVICE, opening).await else {
            return Ok(Response::new(Ending::Silent));
        };
        let mut stream = response?.into_inner();
        let ending = loop {
            let Ok(result) = timeout(PER_SERVICE, stream.message()).await else {
                break Ending::Silent;
            };
            // Whoever reads them reads to the end.
            let Some(result) = result? else {
                break Ending::Whole;
            };
            let part: v1::UpdateLoadBalancerNodesResponse =
                raw::decode("UpdateLoadBalancerNodesResponse", &result, limits.receive)?;
            let count = part.results.len().max(1);
            for result in part.results {
                let _ = results.send(result).await;
            }
            let Some(less) = room.checked_sub(count) else {
                break Ending::TooMany;
            };
            room = less;
        };
        Ok(Response::new(ending))
    }
}
