//! When a queue may hand out keys.

use tokio::sync::watch;

/// Tells a queue whether to take new keys. While it is closed keys gather, running handlers go on.
#[derive(Debug)]
pub struct Gate<S = bool> {
    state: watch::Receiver<S>,
    open: fn(&S) -> bool,
}

impl<S> Gate<S> {
    /// Open whenever `open` says so of the watched state. Once the sender is gone, the last state
    /// stays.
    pub fn new(state: watch::Receiver<S>, open: fn(&S) -> bool) -> Self {
        Self { state, open }
    }

    /// Whether keys may be taken; a change after this call ends [`changed`](Self::changed).
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

impl Gate<bool> {
    /// For a loop without a provider.
    pub fn always_open() -> Self {
        Self::from(watch::channel(true).1)
    }
}

impl From<watch::Receiver<bool>> for Gate<bool> {
    fn from(state: watch::Receiver<bool>) -> Self {
        Self::new(state, |open| *open)
    }
}
