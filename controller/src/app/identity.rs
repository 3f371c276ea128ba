//! Which cluster this is: read from the API server, remembered on the Lease.

use std::{sync::Arc, time::Duration};

use outrigger_core::cluster_uid::ClusterUid;
use parking_lot::Mutex;
use tokio::time::sleep;
use tracing::{info, warn};

use outrigger_kubernetes::{
    api::Api,
    cluster::{self, CLUSTER_UID_ANNOTATION, Facts},
    events::EventContent,
    leader::Handle,
};
use outrigger_provider_client::Provider;

/// How often the API server is asked for a UID that could not be read, and the Lease is compared with it.
const LOOK: Duration = Duration::from_secs(30);

/// Takes a warning about the Lease. It must not wait.
pub(super) type OnWarning = Box<dyn Fn(EventContent) + Send + Sync>;

/// The cluster's identity, as this process knows it. The provider's handle refuses calls that change the
/// cloud as long as it is not certain.
pub(super) struct ClusterIdentity {
    provider: Provider,
    allow_untagged: bool,
    on_warning: OnWarning,
    uids: Mutex<Uids>,
}

struct Uids {
    read: Option<Box<str>>,
    /// The UID that was last read from the Lease, which may have been deleted since. It stands in for a UID that
    /// could not be read from the cluster.
    remembered: Option<Box<str>>,
    last: Option<ClusterUid>,
}

impl ClusterIdentity {
    /// Begins with the UIDs that the start has read.
    pub(super) fn new(
        provider: Provider,
        facts: &Facts,
        allow_untagged: bool,
        on_warning: OnWarning,
    ) -> Arc<Self> {
        let this = Arc::new(Self {
            provider,
            allow_untagged,
            on_warning,
            uids: Mutex::new(Uids {
                read: facts.uid.clone(),
                remembered: facts.remembered_uid.clone(),
                last: None,
            }),
        });
        this.judge(None);
        this
    }

    /// Compares with the annotation on the Lease now. To be called before a lease term begins its work, and
    /// whenever something may have changed.
    pub(super) fn judge(&self, lock: Option<&Handle>) -> ClusterUid {
        // Held until the provider knows, since two tasks judge: the last verdict has to be the one that
        // stays.
        let mut uids = self.uids.lock();
        let on_lease = lock.and_then(|lock| lock.annotation(CLUSTER_UID_ANNOTATION));
        if let Some(uid) = on_lease.as_deref().filter(|uid| !uid.is_empty()) {
            uids.remembered = Some(uid.into());
        }
        let remembered = match &uids.read {
            // Without the annotation nothing contradicts what was read.
            Some(_) => on_lease.as_deref(),
            None => uids.remembered.as_deref(),
        };
        let uid = ClusterUid::judge(uids.read.as_deref(), remembered);
        let is_new = uids.last.as_ref() != Some(&uid);
        uids.last = Some(uid.clone());
        if is_new {
            self.provider.set_cluster_uid(uid.clone());
        }
        drop(uids);
        if is_new {
            self.log(&uid);
        }
        uid
    }

    fn log(&self, uid: &ClusterUid) {
        if uid.allows_changes(self.allow_untagged) {
            if let ClusterUid::Read(_) = uid {
                info!("{uid}");
            } else {
                warn!("{uid}");
            }
            return;
        }
        warn!(reason = %uid, "nothing in the cloud is changed");
        let message = format!("Nothing in the cloud is changed: {uid}");
        (self.on_warning)(EventContent::warning("ClusterUnidentified", &message));
    }

    /// Why nothing in the cloud is changed, if the API server and the Lease contradict each other.
    pub(super) fn contradiction(&self) -> Option<String> {
        let uids = self.uids.lock();
        let last = uids.last.as_ref();
        last.filter(|uid| matches!(uid, ClusterUid::Contradicted { .. }))
            .map(ToString::to_string)
    }

    /// Reads a UID that could not be read at the start, and has the leader write what is known to the Lease
    /// of `lock`. Never returns.
    pub(super) async fn run(self: Arc<Self>, api: Api, lock: Option<Handle>) {
        let mut leadership = lock.as_ref().map(Handle::leadership);
        loop {
            if self.uids.lock().read.is_none()
                && let Ok(uid) = cluster::uid(&api).await
            {
                self.uids.lock().read = Some(uid);
            }
            let leads = leadership
                .as_mut()
                .is_some_and(|leadership| leadership.borrow_and_update().leading().is_some());
            let uid = self.judge(lock.as_ref());
            if let (ClusterUid::Read(uid) | ClusterUid::Remembered(uid), Some(lock)) = (&uid, &lock)
                && leads
                && lock.annotation(CLUSTER_UID_ANNOTATION).is_none()
            {
                // If this fails, the next round does it.
                let _ = lock
                    .annotate(CLUSTER_UID_ANNOTATION, Some(uid.to_string()))
                    .await;
            }
            let led_by_another = async {
                match &mut leadership {
                    Some(leadership) => {
                        if leadership.changed().await.is_err() {
                            std::future::pending::<()>().await;
                        }
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep(LOOK) => {}
                () = led_by_another => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
