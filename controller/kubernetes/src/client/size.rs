//! Sizes of answers.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Buf;
use hyper::body::{Body, Frame, SizeHint};

/// A body that reports its size when it ends, or is dropped before.
pub(super) struct Counted<B> {
    inner: B,
    size: usize,
    report: Option<Box<dyn FnOnce(usize) + Send>>,
}

impl<B> Counted<B> {
    /// Without `report` nothing is counted.
    pub(super) fn new(inner: B, report: Option<Box<dyn FnOnce(usize) + Send>>) -> Self {
        Self {
            inner,
            size: 0,
            report,
        }
    }

    fn ended(&mut self) {
        if let Some(report) = self.report.take() {
            report(self.size);
        }
    }
}

impl<B: Body + Unpin> Body for Counted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => self.size += frame.data_ref().map_or(0, Buf::remaining),
            _ => self.ended(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Drop for Counted<B> {
    fn drop(&mut self) {
        self.ended();
    }
}
