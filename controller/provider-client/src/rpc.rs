//! Calls over gRPC with limits of sizes and of silence.

use std::time::Duration;

use futures::Stream;
use http::uri::PathAndQuery;
use outrigger_api::{CONTROLLER_MAX_MESSAGE_BYTES, Method, MethodRequest};
use tokio::time::timeout;
use tonic::{Request, Status, client::Grpc};
use tonic_prost::ProstCodec;

use super::details::Checked;

/// Makes a call with one answer.
pub(super) async fn client_streaming<M: MethodRequest>(
    channel: Checked,
    max_send: usize,
    request: Request<impl Stream<Item = M> + Send + 'static>,
) -> Result<M::Response, Status> {
    let mut client = client(channel, max_send).await?;
    let path = PathAndQuery::from_static(M::METHOD.path);
    let codec = ProstCodec::default();
    let response = client.client_streaming(request, path, codec).await?;
    Ok(response.into_inner())
}

/// How a stream of answers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd<E> {
    /// By the provider.
    Complete,
    /// Nothing came for as long as the contract allows.
    Silent,
    /// By its reader, which refuses the rest.
    Refused(E),
}

/// The longest time until the first message of a stream, and between two.
pub(super) fn silence(method: &Method) -> Duration {
    method.max_silence.unwrap_or(method.deadline)
}

/// Makes a call with a stream of answers. `read` takes each of them, and returns why it refuses the rest.
pub(super) async fn server_streaming<M: MethodRequest, E>(
    channel: Checked,
    max_send: usize,
    request: Request<M>,
    mut read: impl FnMut(M::Response) -> Option<E> + Send,
) -> Result<StreamEnd<E>, Status> {
    let silence = silence(M::METHOD);
    let opening = async {
        let mut client = client(channel, max_send).await?;
        let path = PathAndQuery::from_static(M::METHOD.path);
        let codec = ProstCodec::default();
        client.server_streaming(request, path, codec).await
    };
    let Ok(stream) = timeout(silence, opening).await else {
        return Ok(StreamEnd::Silent);
    };
    let mut stream = stream?.into_inner();
    loop {
        let Ok(message) = timeout(silence, stream.message()).await else {
            return Ok(StreamEnd::Silent);
        };
        let Some(message) = message? else {
            return Ok(StreamEnd::Complete);
        };
        if let Some(refusal) = read(message) {
            return Ok(StreamEnd::Refused(refusal));
        }
    }
}

async fn client(channel: Checked, max_send: usize) -> Result<Grpc<Checked>, Status> {
    // Lists come in pages, and a batch whose answer is larger is asked about again in halves.
    let mut client = Grpc::new(channel)
        .max_decoding_message_size(CONTROLLER_MAX_MESSAGE_BYTES)
        .max_encoding_message_size(max_send);
    client
        .ready()
        .await
        .map_err(|error| Status::unknown(format!("Service was not ready: {error}")))?;
    Ok(client)
}
