//! The way of each call and list: its deadline on the wire, a limit of our own behind it, and the record.

use std::time::Duration;

use futures::{Stream, stream};
use http::uri::PathAndQuery;
use outrigger_api::{ListPage, Method, MethodRequest, Streams, v1::ListRoutesRequest};
use prost::{
    DecodeError, Message,
    bytes::{Buf, BufMut},
    encoding::{DecodeContext, WireType, skip_field},
};
use tokio::time::timeout;
use tonic::{Request, Status, client::Grpc};
use tonic_prost::ProstCodec;

use super::Client;
use crate::call_error::CallError;

/// The time beyond its deadline after which a call counts as not answered.
const PATIENCE: Duration = Duration::from_secs(5);

impl Client {
    /// All messages of the answer up to its end, which must not be an error.
    pub(super) async fn exchange<Q, A>(
        &self,
        method: &Method,
        deadline: Duration,
        requests: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Vec<A>, CallError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let deadline = self.deadline.unwrap_or(deadline);
        let mut request = Request::new(requests);
        *request.metadata_mut() = self.metadata.clone();
        request.set_timeout(deadline);
        let mut grpc = Grpc::new(self.channel.clone());
        let open = async {
            let ready = grpc.ready().await;
            ready.map_err(|error| Status::unavailable(error.to_string()))?;
            let path = PathAndQuery::from_static(method.path);
            grpc.streaming(request, path, ProstCodec::<Q, A>::default())
                .await
        };
        let opened = self.awaited(method.name, deadline, open).await?;
        let silence = method.max_silence.unwrap_or(deadline);
        let (mut stream, mut messages) = (opened.into_inner(), Vec::new());
        while let Some(message) = self.awaited(method.name, silence, stream.message()).await? {
            self.ledger.search(method.name, || message.encode_to_vec());
            messages.push(message);
        }
        Ok(messages)
    }

    /// The one message of the answer.
    pub(super) async fn only<Q, A>(
        &self,
        method: &Method,
        requests: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<A, CallError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let messages = self.exchange(method, method.deadline, requests).await?;
        let count = messages.len();
        let only: Result<[A; 1], _> = messages.try_into();
        let only = only.map_err(|_| {
            let status = Status::internal(format!("{count} messages instead of one answer"));
            CallError::of_call(method.name, &status)
        });
        only.map(|[answer]| answer)
    }

    /// Waits for a part of a call; its error is recorded.
    async fn awaited<A>(
        &self,
        rpc: &'static str,
        deadline: Duration,
        answer: impl Future<Output = Result<A, Status>> + Send,
    ) -> Result<A, CallError> {
        let waited = deadline + PATIENCE;
        let answered = match timeout(waited, answer).await {
            Ok(answered) => answered.map_err(|status| {
                self.ledger.search(rpc, || status.details().to_vec());
                CallError::of_call(rpc, &status)
            }),
            Err(_elapsed) => Err(CallError::silence(rpc, waited)),
        };
        answered.inspect_err(|error| self.ledger.record(error.clone()))
    }

    /// Sends an encoded message to a method, which need not be one of the contract.
    pub async fn send_bytes(&self, method: &Method, message: Vec<u8>) -> Result<(), CallError> {
        let request = stream::iter([Raw(message)]);
        let answer = self.exchange::<_, Raw>(method, method.deadline, request);
        answer.await.map(drop)
    }

    /// Calls a method with its context alone, so that it cannot change the cloud: without a key and without items.
    pub async fn probe(&self, method: &Method) -> Result<(), CallError> {
        let context = Some(self.context());
        // The context has the same number in each request that has one.
        let request = Raw(ListRoutesRequest { context }.encode_to_vec());
        let request = (method.streams != Streams::Request).then_some(request);
        let answer = self.exchange::<_, Raw>(method, method.deadline, stream::iter(request));
        answer.await.map(drop)
    }
}

/// A message that is sent as these bytes. A received one is dropped.
#[derive(Debug, Default)]
struct Raw(Vec<u8>);

impl Message for Raw {
    fn encode_raw(&self, into: &mut impl BufMut) {
        into.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        number: u32,
        wire_type: WireType,
        from: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(wire_type, number, from, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// A stream that ended without an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    /// All entries, in their order.
    pub entries: Vec<T>,
    /// The `complete` of each message.
    pub completes: Vec<bool>,
    /// Bytes of the largest message.
    pub largest_message: usize,
}

impl<T> Listed<T> {
    /// `complete` is on the last message and on no other.
    pub fn is_complete(&self) -> bool {
        match self.completes.split_last() {
            Some((last, before)) => *last && !before.contains(&true),
            None => false,
        }
    }
}

impl Client {
    /// A call whose answer is a list.
    pub async fn list<R>(
        &self,
        request: R,
    ) -> Result<Listed<<R::Response as ListPage>::Item>, CallError>
    where
        R: MethodRequest<Response: ListPage>,
    {
        let request = stream::iter([self.in_cluster(request)]);
        let deadline = R::METHOD.deadline;
        let pages: Vec<R::Response> = self.exchange(R::METHOD, deadline, request).await?;
        let largest_message = pages.iter().map(Message::encoded_len).max();
        let parts = pages.into_iter().map(ListPage::into_parts);
        let (entries, completes): (Vec<_>, Vec<_>) = parts.unzip();
        Ok(Listed {
            entries: entries.into_iter().flatten().collect(),
            completes,
            largest_message: largest_message.unwrap_or_default(),
        })
    }
}
