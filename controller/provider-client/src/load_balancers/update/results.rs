//! `UpdateLoadBalancerNodes`: one request, and results as they come.

use std::time::Duration;

use outrigger_api::{
    MethodRequest,
    v1::{self, CallContext},
};
use prost::Message;
use tokio::{sync::mpsc, time::timeout};
use tonic::{Request, Status};

use crate::{
    call::ProviderCall,
    details::Checked,
    gather::silence,
    raw::{self, MessageLimits},
};

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
    /// Nothing came for as long as the contract allows.
    Silent,
    /// It would not end.
    TooMany,
}

impl ProviderCall for Feed {
    type Message = v1::UpdateLoadBalancerNodesRequest;
    type Reply = Ending;

    fn context_mut(&mut self) -> Option<&mut Option<CallContext>> {
        MethodRequest::context_mut(&mut self.message)
    }

    fn bytes(&self) -> usize {
        self.message.encoded_len()
    }

    /// As long for each Service as a call about it alone, for a provider may serve them one after the other.
    fn deadline(&self) -> Duration {
        let services = u32::try_from(self.message.items.len());
        let method = Self::Message::METHOD;
        method.deadline.saturating_mul(services.unwrap_or(u32::MAX))
    }

    fn is_whole(ending: &Ending) -> bool {
        *ending == Ending::Whole
    }

    async fn send(
        call: Request<Self>,
        channel: Checked,
        limits: MessageLimits,
    ) -> Result<Ending, Status> {
        let (metadata, extensions, Self { message, results }) = call.into_parts();
        let mut room = 2 * message.items.len();
        let request = Request::from_parts(metadata, extensions, message);
        let silence = silence(Self::Message::METHOD);
        let opening = raw::server_streaming(channel, limits, request);
        let Ok(stream) = timeout(silence, opening).await else {
            return Ok(Ending::Silent);
        };
        let mut stream = stream?;
        loop {
            let Ok(message) = timeout(silence, stream.message()).await else {
                return Ok(Ending::Silent);
            };
            // Whoever reads them reads to the end.
            let Some(message) = message? else {
                return Ok(Ending::Whole);
            };
            let message = raw::decode::<Self::Message>(&message, limits.receive)?;
            let count = message.results.len().max(1);
            for result in message.results {
                let _ = results.send(result).await;
            }
            let Some(less) = room.checked_sub(count) else {
                return Ok(Ending::TooMany);
            };
            room = less;
        }
    }
}
