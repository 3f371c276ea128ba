//! How the provider serves instances, beside its answers about them.

use std::sync::Arc;

use outrigger_api::{MethodRequest, v1::GetStatusRequest};
use tokio::time::Instant;

use super::{Error, Provider, ProviderState, Session, call::send, health};

impl Provider {
    /// Waits until there is a provider that serves instances; `without` is called once if one does
    /// not, for the next process behind the socket may (N-1).
    pub async fn serving_instances(&self, without: impl FnOnce()) {
        self.offering(|session| session.instances.is_some(), without)
            .await;
    }

    /// Waits until there is a provider that allocates Pod CIDRs; `without` as in
    /// [`serving_instances`](Self::serving_instances).
    pub async fn allocating_pod_cidrs(&self, without: impl FnOnce()) {
        let allocates = |session: &Session| {
            let instances = session.instances.as_ref();
            instances.is_some_and(|instances| instances.allocates_pod_cidrs)
        };
        self.offering(allocates, without).await;
    }

    /// A session of a provider that serves instances, now or as soon as there is one.
    ///
    /// # Errors
    /// [`Error::Fenced`] after the stop.
    pub async fn until_instances_are_served(&self) -> Result<Arc<Session>, Error> {
        let served = async {
            loop {
                let offers = |session: &Session| session.instances.is_some();
                self.shared.session_that(offers).await;
                let session = self.serving().await;
                if session.instances.is_some() {
                    return session;
                }
            }
        };
        self.preconditions
            .wait(GetStatusRequest::METHOD.name, served)
            .await
    }

    /// Asks the provider now how it is. Returns why its answers about instances are not to be relied upon; none:
    /// it says that it is READY.
    pub async fn trouble(&self) -> Option<Box<str>> {
        let ask = async {
            let session = self.shared.session()?;
            let channel = session.channel.clone();
            let request = GetStatusRequest {};
            let metrics = &self.shared.metrics;
            let status = send(metrics, channel, session.limits, request).await?;
            Ok::<_, Error>((session, status))
        };
        match self
            .preconditions
            .wait(GetStatusRequest::METHOD.name, ask)
            .await
        {
            Ok(Ok((session, status))) if *status.boot_id != *session.boot_id => {
                Some("another process than the one that was asked about the instance".into())
            }
            Ok(Ok((_, status))) => match health::read(&status).0.state(Instant::now(), None) {
                ProviderState::Ready => None,
                other => Some(other.to_string().into()),
            },
            Ok(Err(error)) | Err(error) => Some(error.to_string().into()),
        }
    }
}
