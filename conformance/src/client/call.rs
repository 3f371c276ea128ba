//! The way of each call: its deadline on the wire, a limit of our own behind it, and the record.

use std::time::Duration;

use tokio::time::timeout;
use tonic::{Request, Response, Status, transport::Channel};

use super::{CallError, Client};

/// The time beyond its deadline after which a call counts as not answered.
const PATIENCE: Duration = Duration::from_secs(5);

impl Client {
    pub(super) async fn unary<Q, A, F>(
        &self,
        rpc: &'static str,
        deadline: Duration,
        request: Q,
        send: impl FnOnce(Channel, Request<Q>) -> F + Send,
    ) -> Result<A, CallError>
    where
        F: Future<Output = Result<Response<A>, Status>> + Send,
    {
        let (deadline, request) = self.timed(deadline, request);
        self.awaited(rpc, deadline, send(self.channel.clone(), request))
            .await
            .map(Response::into_inner)
    }

    /// The deadline that counts, and the request with it.
    pub(super) fn timed<Q>(&self, deadline: Duration, request: Q) -> (Duration, Request<Q>) {
        let deadline = self.deadline.unwrap_or(deadline);
        let mut request = Request::new(request);
        *request.metadata_mut() = self.metadata.clone();
        request.set_timeout(deadline);
        (deadline, request)
    }

    /// Waits for a part of a call; its error is recorded.
    pub(super) async fn awaited<A>(
        &self,
        rpc: &'static str,
        deadline: Duration,
        answer: impl Future<Output = Result<A, Status>> + Send,
    ) -> Result<A, CallError> {
        let waited = deadline + PATIENCE;
        let answered = match timeout(waited, answer).await {
            Ok(answered) => answered.map_err(|status| CallError::of_call(rpc, &status)),
            Err(_elapsed) => Err(CallError::silence(rpc, waited)),
        };
        answered.inspect_err(|error| self.ledger.record(error.clone()))
    }
}
