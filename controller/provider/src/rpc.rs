//! Calls over gRPC with limits of sizes.

use http::{Uri, uri::PathAndQuery};
use outrigger_api::{CONTROLLER_MAX_MESSAGE_BYTES, MethodRequest};
use tokio_stream::Stream;
use tonic::{Request, Status, Streaming, client::Grpc};
use tonic_prost::ProstCodec;

use super::channel::Channel;

/// Makes a call with one answer.
pub(super) async fn client_streaming<M: MethodRequest>(
    channel: Channel,
    max_send: usize,
    request: Request<impl Stream<Item = M> + Send + 'static>,
) -> Result<M::Response, Status> {
    let mut client = client(channel, max_send).await?;
    let path = PathAndQuery::from_static(M::METHOD.path);
    let codec = ProstCodec::default();
    let response = client.client_streaming(request, path, codec).await?;
    Ok(response.into_inner())
}

/// Makes a call with a stream of answers.
pub(super) async fn server_streaming<M: MethodRequest>(
    channel: Channel,
    max_send: usize,
    request: Request<M>,
) -> Result<Streaming<M::Response>, Status> {
    let mut client = client(channel, max_send).await?;
    let path = PathAndQuery::from_static(M::METHOD.path);
    let codec = ProstCodec::default();
    let response = client.server_streaming(request, path, codec).await?;
    Ok(response.into_inner())
}

async fn client(channel: Channel, max_send: usize) -> Result<Grpc<Channel>, Status> {
    // The authority that every HTTP/2 server accepts; a path in it is refused by many.
    let origin = Uri::from_static("http://localhost");
    // Lists come in pages, and a batch whose answer is larger is asked about again in halves.
    let mut client = Grpc::with_origin(channel, origin)
        .max_decoding_message_size(CONTROLLER_MAX_MESSAGE_BYTES)
        .max_encoding_message_size(max_send);
    client
        .ready()
        .await
        .map_err(|error| Status::from_error(error.into()))?;
    Ok(client)
}
