//! Something that happens where a call is cancelled.

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
