//! A gRPC call and its answer as whole messages, read from an HTTP body and written into one.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
#[cfg(feature = "defects")]
use prost::Message;
#[cfg(feature = "defects")]
use tonic::Code;
use tonic::Status;

/// Flag and length before each message.
const PREFIX: usize = 5;

/// The whole messages of a body, or of a part that begins with one.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (prefix, tail) = rest.split_first_chunk::<PREFIX>()?;
        let [_, length @ ..] = *prefix;
        let (message, tail) = tail.split_at_checked(u32::from_be_bytes(length) as usize)?;
        rest = tail;
        Some(message)
    })
}

/// Messages as a body has them.
fn framed<'a>(messages: impl IntoIterator<Item = &'a Vec<u8>>) -> Bytes {
    let mut bytes = Vec::new();
    for message in messages {
        bytes.push(0);
        bytes.extend((message.len() as u32).to_be_bytes());
        bytes.extend(message);
    }
    bytes.into()
}

/// A whole call: its head and its messages.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) head: Parts,
    /// Where the call was cancelled, those that came before.
    pub(crate) messages: Vec<Vec<u8>>,
}

impl Call {
    pub(crate) async fn read(request: Request) -> Self {
        let (head, mut body) = request.into_parts();
        let mut bytes = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            bytes.extend(frame.data_ref().into_iter().flatten());
        }
        let messages = messages(&bytes).map(<[u8]>::to_vec).collect();
        Self { head, messages }
    }

    pub(crate) fn into_request(self) -> Request {
        Request::from_parts(self.head, framed(&self.messages).into())
    }

    /// The bytes of its first message.
    pub(crate) fn first(&self) -> &[u8] {
        self.messages.first().map_or(&[], Vec::as_slice)
    }
}

/// A whole answer: its messages, and the trailers that carry the status.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    messages: Vec<Vec<u8>>,
    trailers: HeaderMap,
}

impl Answer {
    /// Reads a response to its end, an error that came without a body included.
    pub(crate) async fn of(response: Response) -> Self {
        let (head, body) = response.into_parts();
        if head.headers.contains_key(Status::GRPC_STATUS) {
            return Self::with(Vec::new(), head.headers);
        }
        let collected = match body.collect().await {
            Ok(collected) => collected,
            Err(error) => return Self::failed(Status::from_error(error.into_inner())),
        };
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let bytes = collected.to_bytes();
        let messages = messages(&bytes).map(<[u8]>::to_vec).collect();
        Self::with(messages, trailers)
    }

    fn with(messages: Vec<Vec<u8>>, trailers: HeaderMap) -> Self {
        Self { messages, trailers }
    }

    /// An error.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "an error is passed on as a value"
    )]
    pub(crate) fn failed(status: Status) -> Self {
        let mut trailers = HeaderMap::new();
        // A status with metadata that is no header is none that this program makes.
        let _ = status.add_header(&mut trailers);
        Self::with(Vec::new(), trailers)
    }

    /// The bytes of its messages.
    pub(crate) fn raw(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.messages
    }

    /// True if there is no message, as in an error.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds so many bytes to the first message, in an unknown field.
    pub(crate) fn inflate(&mut self, bytes: usize) {
        /// Field 2047, length-delimited.
        const TAG: u64 = (2047 << 3) | 2;
        if let Some(message) = self.messages.first_mut() {
            prost::encoding::encode_varint(TAG, message);
            prost::encoding::encode_varint(bytes as u64, message);
            message.resize(message.len() + bytes, 0);
        }
    }

    /// The response again.
    pub(crate) fn into_response(self) -> Response {
        let data = self.messages.iter();
        let data = data.map(|message| Frame::data(framed([message])));
        let frames: Vec<_> = data
            .chain([Frame::trailers(self.trailers)])
            .map(Ok::<_, Status>)
            .collect();
        let frames = futures::stream::iter(frames);
        let mut response = Response::new(Body::new(StreamBody::new(frames)));
        let kind = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

#[cfg(feature = "defects")]
impl Answer {
    /// The bytes of its first message.
    pub(crate) fn first(&self) -> Option<&[u8]> {
        self.messages.first().map(Vec::as_slice)
    }

    /// One message.
    pub(crate) fn ok(message: &impl Message) -> Self {
        let mut trailers = HeaderMap::new();
        trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
        Self::with(vec![message.encode_to_vec()], trailers)
    }

    /// The error, if it is one.
    pub(crate) fn error(&self) -> Option<Status> {
        let status = Status::from_header_map(&self.trailers);
        status.filter(|status| status.code() != Code::Ok)
    }

    /// Its status.
    pub(crate) fn code(&self) -> Code {
        self.error().map_or(Code::Ok, |status| status.code())
    }
}
