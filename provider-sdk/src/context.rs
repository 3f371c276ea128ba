//! [`Context`]: the facts of one call, which every handler gets as its first argument.
//!
//! The server makes it when a call arrives, from the call's headers and message, and cancels it when the caller no longer
//! waits. A handler asks it before each change in the cloud and bounds its cloud requests by the time that remains. The
//! server asks it while a call waits for the lock of its Service or route.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use outrigger_api::v1;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::error::cut;

/// One call: its caller, its deadline, and whether the caller still waits.
///
/// # Cancellation
///
/// A handler runs in a separate task. When its caller goes away (cancelled, deadline passed,
/// connection lost) the handler is **not** dropped where it stands: between two cloud calls that
/// would leave half a change behind. Instead [`cancelled`](Self::cancelled) resolves and the
/// handler is expected to
///
/// 1. start no further change in the cloud ([`check`](Self::check) between two of them), unless what was
///    made cannot be found from its key without it: a tag that is still missing,
/// 2. let a running cloud request end,
/// 3. return, with anything: the result is not read.
///
/// A handler that has not returned 30 s later is dropped at its next `await`, so that a cloud that
/// hangs cannot collect tasks for ever. [`Instances::get_instance`](crate::Instances::get_instance)
/// is the exception: it only looks, so it is dropped at once.
///
/// Clones are cheap and refer to the same call. A task that outlives the handler may keep one: a call that was answered in
/// time is not cancelled afterwards.
///
/// # Example
///
/// A handler under test gets a context of its own, and is cancelled by the test:
///
/// ```
/// use outrigger_provider_sdk::{CancellationToken, Context, v1};
///
/// let cluster = v1::ClusterInfo { uid: "7f3c".to_owned(), ..Default::default() };
/// let caller = CancellationToken::new();
/// let ctx = Context::detached("request-1", cluster, caller.clone());
/// assert!(ctx.check().is_ok());
///
/// caller.cancel();
/// assert!(ctx.check().is_err(), "no further change begins");
/// ```
#[derive(Clone)]
pub struct Context {
    call: Arc<Call>,
}

struct Call {
    request_id: String,
    cluster: Arc<v1::ClusterInfo>,
    deadline: Option<Instant>,
    traceparent: Option<String>,
    cancellation: CancellationToken,
}

impl Context {
    /// A context outside of any server, for tests of a vendor's handlers: no deadline, cancelled by
    /// the holder of `cancellation` alone.
    pub fn detached(
        request_id: impl Into<String>,
        cluster: v1::ClusterInfo,
        cancellation: CancellationToken,
    ) -> Self {
        Self::new(
            request_id.into(),
            Arc::new(cluster),
            None,
            None,
            cancellation,
        )
    }

    pub(crate) fn new(
        request_id: String,
        cluster: Arc<v1::ClusterInfo>,
        deadline: Option<Instant>,
        traceparent: Option<String>,
        cancellation: CancellationToken,
    ) -> Self {
        Self {
            call: Arc::new(Call {
                request_id,
                cluster,
                deadline,
                traceparent,
                cancellation,
            }),
        }
    }

    /// Names this attempt in logs, traces and the cloud's client tokens. It changes with the next
    /// attempt, so it is not what a change is idempotent by.
    pub fn request_id(&self) -> &str {
        &self.call.request_id
    }

    /// The cluster that the call is about, as its controller named it at handshake or, for the UID, in the call.
    /// While [`uid`](v1::ClusterInfo::uid) is empty, a handler that tags with it must change nothing:
    /// [`Error::invalid_request`](crate::Error::invalid_request).
    pub fn cluster(&self) -> &v1::ClusterInfo {
        &self.call.cluster
    }

    /// When the caller stops waiting; `None` if it named no time.
    pub fn deadline(&self) -> Option<Instant> {
        self.call.deadline
    }

    /// Time until the deadline: the limit of a cloud request of this call.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline()
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Resolves when a twentieth of the time until the deadline is left: an answer still reaches the caller.
    pub(crate) fn nearly_over(&self) -> impl Future<Output = ()> + use<> {
        let time = self.deadline().zip(self.remaining());
        async move {
            match time {
                Some((deadline, remaining)) => sleep_until(deadline - remaining / 20).await,
                None => std::future::pending().await,
            }
        }
    }

    /// The caller's W3C `traceparent`, to be passed on to the cloud or to an exporter.
    pub fn traceparent(&self) -> Option<&str> {
        self.call.traceparent.as_deref()
    }

    /// Returns true if the caller no longer waits for this call.
    pub fn is_cancelled(&self) -> bool {
        // In a process that was stopped, the handler may go on before the timer of its deadline does.
        let is_over = |deadline| deadline <= Instant::now();
        self.call.cancellation.is_cancelled() || self.deadline().is_some_and(is_over)
    }

    /// Resolves once the caller no longer waits for this call. Safe to drop.
    pub async fn cancelled(&self) {
        self.call.cancellation.cancelled().await;
    }

    /// `Err` once the caller no longer waits, though `work` goes on.
    pub(crate) async fn unless_cancelled<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.cancelled() => Err(Error::cancelled()),
            done = work => Ok(done),
        }
    }

    /// `Err` once the caller no longer waits. To be asked before each change in the cloud:
    /// `ctx.check()?`.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_cancelled() {
            Err(Error::cancelled())
        } else {
            Ok(())
        }
    }

    /// Logs a panic that ended the handler of this call. Its text may contain anything, so it is not sent.
    pub(crate) fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        let request_id = self.request_id();
        tracing::error!(request_id, panic = cut(text, 1 << 10), "a handler panicked");
        Error::internal(format!(
            "the provider panicked: look for request id {request_id} in its log"
        ))
    }

    /// The token behind [`cancelled`](Self::cancelled), for libraries that need one.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.call.cancellation
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("request_id", &self.call.request_id)
            .field("cluster", &self.call.cluster.name)
            .field("deadline", &self.call.deadline)
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};
    use tokio_util::sync::CancellationToken;

    use super::{Context, v1};

    /// No timer has cancelled it yet.
    #[tokio::test(start_paused = true)]
    async fn no_change_begins_after_the_deadline() {
        let limit = Duration::from_mins(2);
        let (cluster, cancellation) = (v1::ClusterInfo::default().into(), CancellationToken::new());
        let deadline = Some(Instant::now() + limit);
        let ctx = Context::new("r".to_owned(), cluster, deadline, None, cancellation);
        assert!(ctx.check().is_ok());
        advance(limit).await;
        assert!(ctx.check().is_err());
    }
}
