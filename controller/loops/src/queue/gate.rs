//! When a queue may hand out keys.

use tokio::sync::watch;

/// Tells a queue whether to take new keys. While it is closed keys gather, running handlers go on.
#[derive(Debug)]
pub struct Gate<S> {
    state: watch::Receiver<S>,
    open: fn(&S) -> bool,
}

impl<S> Gate<S> {
    /// Open whenever `open` says so of the watched state. Once the sender is gone, the last state
    /// stays.
    pub fn new(state: watch::Receiver<S>, open: fn(&S) -> bool) -> Self {
        Self { state, open }
    }

    /// True if keys may be taken; a change after this call ends [`changed`](Self::changed).
    pub(super) fn is_open(&mut self) -> bool {
        (self.open)(&self.state.borrow_and_update())
    }

    /// Waits for another state.
    pub(super) async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
