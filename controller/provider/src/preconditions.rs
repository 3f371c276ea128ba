//! Preconditions of a call, asked right before its request is sent: after the last wait.

use std::sync::Arc;

use super::Error;
use outrigger_runtime::fence::{Fence, InFlight};

/// Returns true while a call still carries the desired state of its object.
type Check = Arc<dyn Fn() -> bool + Send + Sync>;

/// Preconditions of a call: this process leads and does not stop, and the call is still wanted.
#[derive(Clone, Default)]
pub(super) struct Preconditions {
    fence: Option<Fence>,
    check: Option<Check>,
}

impl Preconditions {
    pub(super) fn fenced(&self, fence: Fence) -> Self {
        Self {
            fence: Some(fence),
            check: self.check.clone(),
        }
    }

    pub(super) fn only_while(&self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            fence: self.fence.clone(),
            check: Some(Arc::new(check)),
        }
    }

    /// For a call that several objects share: it depends on none of them.
    pub(super) fn without_check(&self) -> Self {
        Self {
            fence: self.fence.clone(),
            check: None,
        }
    }

    pub(super) const fn fence(&self) -> Option<&Fence> {
        self.fence.as_ref()
    }

    /// Begins a call of `rpc`, which `changes` the cloud or not. There must be no wait between this and its
    /// request.
    pub(super) fn begin(
        &self,
        rpc: &'static str,
        changes: bool,
    ) -> Result<Option<InFlight>, Error> {
        let in_flight = self.fence.as_ref().map(|fence| fence.begin(changes));
        let in_flight = match in_flight {
            None => None,
            Some(Some(in_flight)) => Some(in_flight),
            Some(None) => return Err(Error::Fenced { rpc }),
        };
        if !self.is_wanted() {
            if let Some(in_flight) = in_flight {
                in_flight.ended();
            }
            return Err(Error::Outdated { rpc });
        }
        Ok(in_flight)
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.check.as_ref().is_none_or(|check| check())
    }

    /// Waits for something that has to come before the call of `rpc`, but not past the stop.
    pub(super) async fn wait<T>(
        &self,
        rpc: &'static str,
        before: impl Future<Output = T>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.stopped() => Err(Error::Fenced { rpc }),
            it = before => Ok(it),
        }
    }

    /// Waits until no call may begin any more.
    pub(super) async fn stopped(&self) {
        match &self.fence {
            Some(fence) => fence.stopped().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until calls in flight are to end.
    pub(super) async fn cancelled(&self) {
        match &self.fence {
            Some(fence) => fence.cancelled().await,
            None => std::future::pending().await,
        }
    }
}
