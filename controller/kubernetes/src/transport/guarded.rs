//! The last look at the fence: when the bytes of a request are about to be written.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use tower::BoxError;

use crate::error::Fenced;
use outrigger_runtime::fence::Fence;

/// A body that fails instead of being read once its fence is closed. It is read after the wait for a connection.
/// Over HTTP/1.1 nothing of the request is sent then; over HTTP/2 its head may be, and the API server drops a
/// request whose body does not come.
pub(super) struct Guarded {
    body: Body,
    fence: Option<Fence>,
    /// True if the fence made the request fail: no error of HTTP/2 has the body's as its source.
    is_fenced: Arc<AtomicBool>,
}

impl Guarded {
    pub(super) fn new(body: Body, fence: Option<Fence>, is_fenced: &Arc<AtomicBool>) -> Self {
        Self {
            body,
            fence,
            is_fenced: Arc::clone(is_fenced),
        }
    }
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.fence.take().is_some_and(|fence| !fence.may_write()) {
            self.is_fenced.store(true, Ordering::Relaxed);
            return Poll::Ready(Some(Err(Fenced.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
