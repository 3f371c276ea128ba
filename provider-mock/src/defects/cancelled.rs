//! Something that happens where a call is cancelled.

use tonic::Status;

use crate::exchange::Answer;

/// Serves a call, also when its caller goes away.
#[expect(
    clippy::disallowed_methods,
    reason = "the mistake is that no owner watches it"
)]
pub(super) async fn to_the_end(serves: impl Future<Output = Answer> + Send + 'static) -> Answer {
    let served = tokio::spawn(serves).await;
    served.unwrap_or_else(|error| Answer::failed(Status::internal(error.to_string())))
}

/// Does something when it is dropped, unless the call ended before.
pub(super) struct Cancelled<F: FnOnce()> {
    then: Option<F>,
}

impl<F: FnOnce()> Cancelled<F> {
    pub(super) fn new(then: F) -> Self {
        Self { then: Some(then) }
    }

    /// The call has ended.
    pub(super) fn done(mut self) {
        self.then = None;
    }
}

impl<F: FnOnce()> Drop for Cancelled<F> {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            then();
        }
    }
}
