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
use tonic::{Code, Status};

use crate::cloud::Cloud;
use crate::exchange::{Answer, Call};
use crate::faults::{self, Method, Objects};
use crate::journal::Event;

/// Serves a call with the faults and the counters of a [`Cloud`] in front.
pub(crate) async fn faulty(State(cloud): State<Cloud>, request: Request, next: Next) -> Response {
    let Some(method) = Method::of_path(request.uri().path()) else {
        return next.run(request).await;
    };
    let mut ended = Ended::cancelled_unless_said(cloud.clone(), method);
    let response = match serve(&cloud, method, request, next).await {
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
) -> Result<Response, Status> {
    let faults = cloud.faults();
    let is_read = cloud.journal().is_some() || faults.concern(method);
    let (request, objects) = if is_read && method.has_objects() {
        let call = Call::read(request).await;
        let objects = method.objects(call.first());
        (call.into_request(), objects)
    } else {
        (request, Objects::new())
    };
    if let Some(journal) = cloud.journal() {
        let services = objects
            .iter()
            .filter_map(|(_, about)| about.service.clone());
        journal.record(Event::CallBegan {
            method,
            services: services.collect(),
        });
    }
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

/// Counts a call when dropped.
#[derive(Debug)]
struct Ended {
    cloud: Cloud,
    method: Method,
    code: Code,
}

impl Ended {
    /// A call that is dropped before it has a status was cancelled by its caller.
    fn cancelled_unless_said(cloud: Cloud, method: Method) -> Self {
        Self {
            cloud,
            method,
            code: Code::Cancelled,
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
        let ended = Ended::cancelled_unless_said(cloud.clone(), Method::DeleteRoute);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        let frames = futures::stream::iter([Ok::<_, Status>(Frame::trailers(trailers))]);
        let mut body = Counted::new(tonic::body::Body::new(StreamBody::new(frames)), ended);
        let frame = body.frame().await.unwrap().unwrap();
        assert!(frame.is_trailers());
        assert_eq!(cloud.counters().calls("DeleteRoute", "OK"), 1);
        drop(body);
        assert_eq!(cloud.counters().calls("DeleteRoute", "OK"), 1);
    }
}
