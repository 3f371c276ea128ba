//! Where calls go: the requests of one connection, with limits of sizes and times. A list is whole, or an error.
//!
//! Only [`crate::call`] and the connection's own calls use it. A message that is larger than the provider accepts is not
//! sent.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http::{Uri, uri::PathAndQuery};
use hyper::client::conn::http2::SendRequest;
use outrigger_api::{CONTROLLER_MAX_MESSAGE_BYTES, ListPage, MethodRequest};
use prost::Message;
use tokio::time::timeout;
use tokio_stream::Stream;
use tonic::{Request, Status, body::Body, client::Grpc};
use tonic_prost::ProstCodec;
use tower::Service;

use super::Error;

/// More than any cluster has of anything: a list that does not end.
const MOST: usize = 100_000;
/// Bytes of all messages of a list, encoded: more than that many entries of a usual size have.
const MOST_BYTES: usize = 128 << 20;

/// The requests of a connection.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub(super) requests: SendRequest<Body>,
    /// Largest message that may be sent, in bytes.
    pub(super) max_send: usize,
}

impl Service<http::Request<Body>> for Channel {
    type Response = http::Response<Body>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.requests.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let response = self.requests.send_request(request);
        Box::pin(async move { Ok(response.await?.map(Body::new)) })
    }
}

impl Channel {
    /// Makes a call of one message and one answer.
    pub(super) async fn unary<M: MethodRequest>(self, message: M) -> Result<M::Response, Error> {
        self.check_size(&message)?;
        self.upload(tokio_stream::once(message)).await
    }

    /// Makes a call with one answer.
    pub(super) async fn upload<M: MethodRequest>(
        self,
        messages: impl Stream<Item = M> + Send + 'static,
    ) -> Result<M::Response, Error> {
        let answered = async {
            let (mut client, path, codec) = self.client::<M>().await?;
            let request = request::<M, _>(messages);
            client.client_streaming(request, path, codec).await
        };
        let read = |status: Status| Error::from_status(M::METHOD.name, &status);
        let response = answered.await.map_err(read)?;
        Ok(response.into_inner())
    }

    /// Reads a list to its end. `take` gets each entry as it comes, so that of a long list only the entries are in memory
    /// that it keeps.
    pub(super) async fn list<M: MethodRequest<Response: ListPage>>(
        self,
        message: M,
        mut take: impl FnMut(<M::Response as ListPage>::Item),
    ) -> Result<(), Error> {
        self.check_size(&message)?;
        let rpc = M::METHOD.name;
        let after = M::METHOD.max_silence.unwrap_or(M::METHOD.deadline);
        let silent = |_elapsed| Error::Timeout { rpc, after };
        let read = |status: Status| Error::from_status(rpc, &status);
        let malformed = |what| Err(Error::malformed(rpc, what));
        let opened = async {
            let (mut client, path, codec) = self.client::<M>().await?;
            let request = request::<M, _>(message);
            client.server_streaming(request, path, codec).await
        };
        let opened = timeout(after, opened).await.map_err(silent)?;
        let mut stream = opened.map_err(read)?.into_inner();
        let (mut entries, mut bytes, mut is_complete) = (0, 0, false);
        loop {
            let message = timeout(after, stream.message()).await.map_err(silent)?;
            let Some(message) = message.map_err(read)? else {
                break;
            };
            if is_complete {
                return malformed("a list that goes on after `complete`");
            }
            bytes += message.encoded_len();
            let (page, is_last) = message.into_parts();
            entries += page.len();
            if entries > MOST || bytes > MOST_BYTES {
                let what = "a list of more than 100,000 entries or 128 MiB".into();
                return Err(Error::ReplyTooLarge { rpc, what });
            }
            is_complete = is_last;
            page.into_iter().for_each(&mut take);
        }
        if !is_complete {
            return malformed("a list that ends without `complete`");
        }
        Ok(())
    }

    fn check_size<M: MethodRequest>(&self, message: &M) -> Result<(), Error> {
        let (bytes, limit) = (message.encoded_len(), self.max_send);
        if bytes > limit {
            let rpc = M::METHOD.name;
            return Err(Error::TooLarge { rpc, bytes, limit });
        }
        Ok(())
    }

    async fn client<M: MethodRequest>(
        self,
    ) -> Result<(Grpc<Self>, PathAndQuery, ProstCodec<M, M::Response>), Status> {
        let max_send = self.max_send;
        // The authority that every HTTP/2 server accepts; a path in it is refused by many.
        let origin = Uri::from_static("http://localhost");
        // Lists come in pages, and a batch whose answer is larger is asked about again in halves.
        let mut client = Grpc::with_origin(self, origin)
            .max_decoding_message_size(CONTROLLER_MAX_MESSAGE_BYTES)
            .max_encoding_message_size(max_send);
        let ready = client.ready().await;
        ready.map_err(|error| Status::from_error(error.into()))?;
        let path = PathAndQuery::from_static(M::METHOD.path);
        Ok((client, path, ProstCodec::default()))
    }
}

/// The request, with the deadline that the provider receives: a time limit of the client's own is not sent.
fn request<M: MethodRequest, T>(content: T) -> Request<T> {
    let mut request = Request::new(content);
    request.set_timeout(M::METHOD.deadline);
    request
}
