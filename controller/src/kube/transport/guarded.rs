//! The last look at the fence: when the bytes of a request are about to be written.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use tower::BoxError;

use crate::{fence::Fence, kube::error::Fenced};

/// A body that fails with [`Fenced`] instead of being read once its fence is closed. It is read after the
/// wait for a connection, and before anything is sent: then nothing of the request is.
pub(super) struct Guarded {
    body: Body,
    fence: Option<Fence>,
}

impl Guarded {
    pub(super) const fn new(body: Body, fence: Option<Fence>) -> Self {
        Self { body, fence }
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

/// `error`, or [`Fenced`] if that is why the request was not sent.
pub(super) fn unwrap_fenced(error: impl Into<BoxError>) -> BoxError {
    let error: BoxError = error.into();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*error);
    while let Some(it) = cause {
        if it.is::<Fenced>() {
            return Fenced.into();
        }
        cause = it.source();
    }
    error
}
