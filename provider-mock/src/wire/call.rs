//! A whole call: its head and its messages.

use http::Request;
use http::request::Parts;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Bytes};

use super::answer::{framed, messages};

/// A call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) head: Parts,
    /// Of a call that was cancelled those that came before.
    pub(crate) messages: Vec<Vec<u8>>,
}

impl Call {
    pub(crate) async fn read<Q: HttpBody<Data = Bytes>>(request: Request<Q>) -> Self {
        let (head, body) = request.into_parts();
        let mut body = std::pin::pin!(body);
        let mut bytes = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            bytes.extend(frame.data_ref().into_iter().flatten());
        }
        let messages = messages(&bytes).map(<[u8]>::to_vec).collect();
        Self { head, messages }
    }

    pub(crate) fn into_request<Q: From<Bytes>>(self) -> Request<Q> {
        Request::from_parts(self.head, Q::from(framed(&self.messages)))
    }

    /// The bytes of its first message.
    pub(crate) fn first(&self) -> &[u8] {
        self.messages.first().map_or(&[], Vec::as_slice)
    }
}
