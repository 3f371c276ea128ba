//! Counts a call when it has ended, however it does.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tonic::body::Body;
use tonic::{Code, Status};

use crate::cloud::Cloud;
use crate::faults::{self, Method, Objects};
use crate::journal::Event;

/// Counts a call when dropped.
#[derive(Debug)]
pub(super) struct Ended {
    cloud: Cloud,
    method: Method,
    code: Code,
    /// Its number in the journal, if there is one.
    call: Option<u64>,
}

impl Ended {
    /// A call that is dropped before it has a status was cancelled by its caller.
    pub(super) fn cancelled_unless_said(cloud: Cloud, method: Method) -> Self {
        Self {
            cloud,
            method,
            code: Code::Cancelled,
            call: None,
        }
    }

    /// Writes into the journal, if there is one, that the call has begun, and later that it has ended.
    pub(super) fn began(&mut self, caller: Option<i32>, objects: &Objects) {
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

    pub(super) fn with(&mut self, code: Code) {
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
pub(super) struct Counted {
    body: Body,
    ended: Option<Ended>,
}

impl Counted {
    pub(super) fn new(body: Body, ended: Ended) -> Self {
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
        let mut body = Counted::new(Body::new(StreamBody::new(frames)), ended);
        let frame = body.frame().await.unwrap().unwrap();
        assert!(frame.is_trailers());
        let journal = std::fs::read_to_string(&path).unwrap();
        assert!(journal.contains("callEnded"), "{journal}");
        drop(body);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), journal);
    }
}
