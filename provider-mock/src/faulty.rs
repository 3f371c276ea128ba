//! A layer between the socket and the provider: counts each call, and lets faults happen.
//!
//! It works on HTTP, below every type of the contract, since most faults are answers that typed
//! code cannot even express: a result that is missing, a reply that is too large, an error that no
//! provider sends on purpose.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Code, Status};

use crate::cloud::Cloud;
use crate::connections::Peer;
use crate::exchange::{Answer, Call};
use crate::faults::{self, Method, Objects};
use crate::journal::Event;

/// Serves a call with the faults and the counters of a [`Cloud`] in front.
pub(crate) async fn faulty(State(cloud): State<Cloud>, request: Request, next: Next) -> Response {
    let Some(method) = Method::of_path(request.uri().path()) else {
        return next.run(request).await;
    };
    let mut ended = Ended::cancelled_unless_said(cloud.clone(), method);
    let response = match serve(&cloud, method, request, next, &mut ended).await {
        Ok(response) => response,
        Err(status) => status.into_http(),
    };
    match Status::from_header_map(response.headers()) {
        Some(status) => {
            ended.with(status.code());
            response
        }
        None => response.map(|body| Body::new(Counted::new(tonic::body::Body::new(body), ended))),
    }
}

/// Serves a call with its faults.
async fn serve(
    cloud: &Cloud,
    method: Method,
    request: Request,
    next: Next,
    ended: &mut Ended,
) -> Result<Response, Status> {
    let caller = caller(&request);
    let faults = cloud.faults();
    let is_read = cloud.journal().is_some() || faults.concern(method);
    let (request, objects) = if is_read && method.has_objects() {
        let call = Call::read(request).await;
        let objects = method.objects(call.first());
        (call.into_request(), objects)
    } else {
        (request, Objects::new())
    };
    ended.began(caller, &objects);
    let interfered = faults.interfere(method, &objects).await;
    interfered.map_err(|error| error.to_status())?;
    let response = next.run(request).await;
    if faults.loses_reply(method, &objects) {
        // Read to its end: a stream without a reader would end its handler early.
        let _ = Answer::of(response).await;
        return Err(Status::unknown("the reply was lost"));
    }
    if !faults.may_spoil(method) {
        return Ok(response);
    }
    let mut answer = Answer::of(response).await;
    faults.spoil(method, &objects, &mut answer);
    Ok(answer.into_response())
}

/// Process id of the caller, where the connection is a Unix socket and the system knows it.
fn caller(request: &Request) -> Option<i32> {
    let extensions = request.extensions();
    let peer = extensions.get::<Peer>().map(|peer| &peer.caller);
    let info = peer.or_else(|| extensions.get::<UdsConnectInfo>())?;
    info.peer_cred.as_ref()?.pid()
}

/// Counts a call when dropped.
#[derive(Debug)]
struct Ended {
    cloud: Cloud,
    method: Method,
    code: Code,
    /// Its number in the journal, if there is one.
    call: Option<u64>,
}

impl Ended {
    /// A call that is dropped before it has a status was cancelled by its caller.
    fn cancelled_unless_said(cloud: Cloud, method: Method) -> Self {
        Self {
            cloud,
            method,
            code: Code::Cancelled,
            call: None,
        }
    }

    /// Writes into the journal, if there is one, that the call has begun, and later that it has ended.
    fn began(&mut self, caller: Option<i32>, objects: &Objects) {
        if let Some(journal) = self.cloud.journal() {
            let call = journal.next_call();
            self.call = Some(call);
            let named = || objects.iter().map(|(_, about)| about);
            journal.record(Event::CallBegan {
                call,
                method: self.method,
                caller,
                services: named().filter_map(|one| one.service.clone()).collect(),
                routes: named().filter_map(|one| one.route).collect(),
            });
        }
    }

    fn with(&mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.cloud
            .count()
            .call_ended(self.method.as_str(), faults::Code(self.code).as_str());
        if let (Some(journal), Some(call)) = (self.cloud.journal(), self.call) {
            journal.record(Event::CallEnded {
                call,
                method: self.method,
                code: faults::Code(self.code),
            });
        }
    }
}

/// A body whose trailers tell how the call ended. The call ends before they are sent: once the caller has them
/// it may begin another call, and this body is dropped some time later.
#[derive(Debug)]
struct Counted {
    body: tonic::body::Body,
    ended: Option<Ended>,
}

impl Counted {
    fn new(body: tonic::body::Body, ended: Ended) -> Self {
        let ended = Some(ended);
        Self { body, ended }
    }

    fn end_with(&mut self, code: Code) {
        if let Some(mut ended) = self.ended.take() {
            ended.with(code);
        }
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    let status = Status::from_header_map(trailers);
                    self.end_with(status.map_or(Code::Unknown, |status| status.code()));
                }
            }
            Poll::Ready(Some(Err(status))) => self.end_with(status.code()),
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    #[tokio::test]
    async fn a_call_has_ended_before_the_caller_has_its_trailers() {
        let cloud = Cloud::new(crate::cloud::CloudConfig::new().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        cloud.keep_journal(crate::journal::Journal::open(&path).unwrap());
        let mut ended = Ended::cancelled_unless_said(cloud, Method::DeleteRoute);
        ended.began(None, &Objects::new());
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        let frames = futures::stream::iter([Ok::<_, Status>(Frame::trailers(trailers))]);
        let mut body = Counted::new(tonic::body::Body::new(StreamBody::new(frames)), ended);
        let frame = body.frame().await.unwrap().unwrap();
        assert!(frame.is_trailers());
        let journal = std::fs::read_to_string(&path).unwrap();
        assert!(journal.contains("callEnded"), "{journal}");
        drop(body);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), journal);
    }
}
