//! Calls whose answers are decoded only once it is known that they take little memory: a provider is not trusted
//! with the memory of this process.

use std::{error, marker::PhantomData, sync::Arc, time::Duration};

use bytes::{Buf, Bytes};
use futures::Stream;
use http::uri::PathAndQuery;
use outrigger_api::{MessageShape, Method, MethodRequest};
use prost::Message;
use tokio::time::timeout;
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::ProstEncoder;

use super::{details::Checked, footprint};

/// Largest messages, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageLimits {
    pub(super) send: usize,
    pub(super) receive: usize,
}

/// Largest answer about one object, in bytes: with all that the contract allows it is a quarter of this.
pub(super) const ONE_OBJECT: usize = 256 << 10;
/// Memory that an answer may take, as a multiple of the largest size that it may have on the wire. Texts take a
/// little more memory than bytes of the wire, entries without any a hundred times as much.
const TIMES: usize = 4;

/// Sends messages of the contract and receives bytes.
struct RawCodec<M>(PhantomData<M>);

struct RawDecoder;

impl<M: Message + 'static> Codec for RawCodec<M> {
    type Encode = M;
    type Decode = Bytes;
    type Encoder = ProstEncoder<M>;
    type Decoder = RawDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> RawDecoder {
        RawDecoder
    }
}

impl Decoder for RawDecoder {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}

/// An answer that would take too much memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct TooLargeDecoded(String);

impl TooLargeDecoded {
    /// Why a call ended, if that is it.
    pub(super) fn of(status: &Status) -> Option<&Self> {
        error::Error::source(status)?.downcast_ref()
    }

    fn status(self) -> Status {
        let mut status = Status::out_of_range(self.0.clone());
        status.set_source(Arc::new(self));
        status
    }
}

/// Makes a call with one answer.
pub(super) async fn client_streaming<M: MethodRequest>(
    channel: Checked,
    limits: MessageLimits,
    request: Request<impl Stream<Item = M> + Send + 'static>,
) -> Result<M::Response, Status> {
    let mut client = client(channel, limits).await?;
    let path = PathAndQuery::from_static(M::METHOD.path);
    let codec = RawCodec(PhantomData);
    let response = client.client_streaming(request, path, codec).await?;
    decode::<M>(&response.into_inner(), limits.receive)
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

/// Makes a call with a stream of answers. `read` takes each of them, not decoded, and returns why it refuses the rest.
pub(super) async fn server_streaming<M: MethodRequest, E>(
    channel: Checked,
    limits: MessageLimits,
    request: Request<M>,
    mut read: impl FnMut(&[u8]) -> Result<Option<E>, Status> + Send,
) -> Result<StreamEnd<E>, Status> {
    let silence = silence(M::METHOD);
    let opening = async {
        let mut client = client(channel, limits).await?;
        let path = PathAndQuery::from_static(M::METHOD.path);
        let codec = RawCodec(PhantomData);
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
        if let Some(refusal) = read(&message)? {
            return Ok(StreamEnd::Refused(refusal));
        }
    }
}

async fn client(channel: Checked, limits: MessageLimits) -> Result<Grpc<Checked>, Status> {
    let mut client = Grpc::new(channel)
        .max_decoding_message_size(limits.receive)
        .max_encoding_message_size(limits.send);
    client
        .ready()
        .await
        .map_err(|error| Status::unknown(format!("Service was not ready: {error}")))?;
    Ok(client)
}

/// The answer in `bytes`, unless it takes several times the `limit` of its size on the wire.
pub(super) fn decode<M: MethodRequest>(bytes: &[u8], limit: usize) -> Result<M::Response, Status> {
    measure(shape::<M>()?, bytes, limit)?;
    M::Response::decode(bytes).map_err(|error| Status::internal(error.to_string()))
}

/// The shape of the answer to a method.
pub(super) fn shape<M: MethodRequest>() -> Result<&'static MessageShape, Status> {
    let name = M::METHOD.response;
    footprint::shape(name)
        .ok_or_else(|| Status::internal(format!("the contract has no message {name}")))
}

/// The memory that a message takes, unless it is several times the `limit` of its size on the wire.
pub(super) fn measure(shape: &MessageShape, bytes: &[u8], limit: usize) -> Result<usize, Status> {
    let (memory, field) = footprint::of(shape, bytes);
    let most = limit.saturating_mul(TIMES);
    if memory <= most {
        return Ok(memory);
    }
    let size = bytes.len();
    let name = shape.name.rsplit('.').next().unwrap_or_default();
    let refused = format!(
        "{name} of {size} bytes would take {memory} bytes of memory, most of them for {field}; at most {most} \
         are taken"
    );
    Err(TooLargeDecoded(refused).status())
}
