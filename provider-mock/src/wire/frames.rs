//! gRPC messages inside an HTTP body.

use http::HeaderMap;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use prost::Message;
use tonic::Status;
use tonic::body::Body;

/// Flag and length before each message.
const PREFIX: usize = 5;

/// The whole messages of a body, or of a part that begins with one.
pub(super) fn messages(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (prefix, tail) = rest.split_first_chunk::<PREFIX>()?;
        let [_, length @ ..] = *prefix;
        let (message, tail) = tail.split_at_checked(u32::from_be_bytes(length) as usize)?;
        rest = tail;
        Some(message)
    })
}

/// A whole answer: its messages, and the trailers that carry the status.
#[derive(Debug, Default)]
pub(super) struct Answer {
    messages: Vec<Vec<u8>>,
    trailers: HeaderMap,
}

impl Answer {
    /// Reads a body to its end.
    pub(super) async fn read(body: Body) -> Result<Self, Status> {
        let collected = body.collect().await?;
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let bytes = collected.to_bytes();
        let messages = messages(&bytes).map(<[u8]>::to_vec).collect();
        Ok(Self { messages, trailers })
    }

    /// Changes each message of a type.
    pub(super) fn each<M: Message + Default>(&mut self, mut change: impl FnMut(&mut M)) {
        for bytes in &mut self.messages {
            if let Ok(mut message) = M::decode(bytes.as_slice()) {
                change(&mut message);
                *bytes = message.encode_to_vec();
            }
        }
    }

    /// Changes all messages of a type together: there may be more or fewer of them then.
    pub(super) fn all<M: Message + Default>(&mut self, change: impl FnOnce(&mut Vec<M>)) {
        let decoded = self.messages.iter();
        let mut decoded: Vec<M> = decoded
            .filter_map(|bytes| M::decode(bytes.as_slice()).ok())
            .collect();
        change(&mut decoded);
        self.messages = decoded.iter().map(Message::encode_to_vec).collect();
    }

    /// Whether there is no message, as in an error.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds so many bytes to the first message, in an unknown field.
    pub(super) fn inflate(&mut self, bytes: usize) {
        /// Field 2047, length-delimited.
        const TAG: u64 = (2047 << 3) | 2;
        if let Some(message) = self.messages.first_mut() {
            prost::encoding::encode_varint(TAG, message);
            prost::encoding::encode_varint(bytes as u64, message);
            message.resize(message.len() + bytes, 0);
        }
    }

    /// The body again.
    pub(super) fn into_body(self) -> Body {
        let data = self.messages.into_iter().map(|message| {
            let mut framed = Vec::with_capacity(PREFIX + message.len());
            framed.push(0);
            framed.extend((message.len() as u32).to_be_bytes());
            framed.extend(message);
            Frame::data(Bytes::from(framed))
        });
        let frames = data
            .chain([Frame::trailers(self.trailers)])
            .map(Ok::<_, Status>);
        Body::new(StreamBody::new(futures::stream::iter(
            frames.collect::<Vec<_>>(),
        )))
    }
}
