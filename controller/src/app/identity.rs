//! The cluster whose UID changes of the cloud carry: by the operator's word or the API server's, unless the Lease remembers another one.

use std::{sync::Arc, time::Duration};

use futures::future::OptionFuture;
use outrigger_core::cluster_uid::ClusterUid;
use parking_lot::Mutex;
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use crate::options::Config;
use outrigger_kube::{
    cluster::{CLUSTER_UID_ANNOTATION, SameCluster},
    events::EventContent,
    leader::Handle,
    watch::Sight,
};
use outrigger_provider::Provider;

/// How often the API server is asked for a UID that could not be read, and the Lease is compared with it.
const LOOK: Duration = Duration::from_secs(30);

/// Annotation of the Lease by which an operator has everything doubted.
const RESYNC_ANNOTATION: &str = "outrigger.dev/resync";

/// Takes an event about the Lease. It must not wait.
pub(super) type OnWarning = Box<dyn Fn(EventContent) + Send + Sync>;

/// The cluster's identity, as this process knows it. The provider's handle refuses calls that change the
/// cloud as long as it is not certain.
pub(super) struct ClusterIdentity {
    /// `--cluster-uid`.
    given: Option<Box<str>>,
    cluster: SameCluster,
    /// Told of an operator's doubt.
    sight: Sight,
    /// The last value of [`RESYNC_ANNOTATION`] that was followed.
    resync: Mutex<Option<String>>,
    provider: Provider,
    allow_untagged: bool,
    on_warning: OnWarning,
    /// The lock of the election, if there is one.
    lock: Option<Handle>,
    last: Mutex<Option<ClusterUid>>,
}

impl ClusterIdentity {
    /// Begins with the UID that `config` gives or the start has read.
    pub(super) fn new(
        config: &Config,
        (cluster, sight): (SameCluster, Sight),
        provider: Provider,
        on_warning: OnWarning,
        lock: Option<Handle>,
    ) -> Arc<Self> {
        let this = Arc::new(Self {
            given: config.cluster_uid.clone(),
            cluster,
            sight,
            resync: Mutex::default(),
            provider,
            allow_untagged: config.provider.allow_untagged_cloud,
            on_warning,
            lock,
            last: Mutex::default(),
        });
        this.judge();
        this
    }

    /// Compares with the annotation on the Lease now. To be called before a lease term begins its work, and
    /// whenever something may have changed.
    pub(super) fn judge(&self) -> ClusterUid {
        // Held until the provider knows, since two tasks judge: the last verdict has to be the one that
        // stays.
        let mut last = self.last.lock();
        let own_uid = self.given.as_deref().or(self.cluster.uid());
        let lock = self.lock.as_ref();
        let remembered = lock.and_then(|lock| lock.annotation(CLUSTER_UID_ANNOTATION));
        let uid = ClusterUid::judge(own_uid, remembered.as_deref());
        let is_new = last.as_ref() != Some(&uid);
        *last = Some(uid.clone());
        if is_new {
            self.provider.set_cluster_uid(uid.clone());
        }
        drop(last);
        if is_new {
            self.log(&uid);
        }
        uid
    }

    fn log(&self, uid: &ClusterUid) {
        if let ClusterUid::Known(_) = uid {
            info!("{uid}");
        } else if uid.allows_changes(self.allow_untagged) {
            warn!("{uid}");
        } else {
            warn!(reason = %uid, "nothing in the cloud is changed");
            let message = format!("Nothing in the cloud is changed: {uid}");
            (self.on_warning)(EventContent::warning("ClusterUnidentified", &message));
        }
    }

    /// For the health check.
    ///
    /// # Errors
    /// Nothing in the cloud is changed, since the Lease remembers another UID.
    pub(super) fn check(&self) -> Result<(), String> {
        match &*self.last.lock() {
            Some(uid @ ClusterUid::Contradicted { .. }) => Err(uid.to_string()),
            _ => Ok(()),
        }
    }

    /// Follows the operator's act on the Lease: nothing that was known is believed, as after a restore of etcd, and the
    /// annotation is removed. To be called by the leader before a lease term begins its work, too, so that no route of a
    /// Node that is lost goes first.
    pub(super) fn resync(&self) {
        let Some(lock) = &self.lock else {
            return;
        };
        let Some(value) = lock.annotation(RESYNC_ANNOTATION) else {
            return;
        };
        // A value that is not removed, as by a policy, is followed once.
        if self.resync.lock().replace(value.clone()).as_ref() == Some(&value) {
            return;
        }
        let message = format!(
            "{RESYNC_ANNOTATION}={value}: all objects are listed again, each Service is ensured once, and routes to Nodes \
             that are not there stay for an hour"
        );
        self.sight.doubt(EventContent::normal("Resync", &message));
        // If this fails, the value is known.
        drop(lock.annotate(RESYNC_ANNOTATION, None));
    }

    /// Asks for a UID that could not be read at the start, and has the leader write what is known to the Lease.
    /// Never returns.
    pub(super) async fn run(self: Arc<Self>) {
        let mut leadership = self.lock.as_ref().map(Handle::leadership);
        let mut doubts = self.sight.doubts();
        loop {
            if self.cluster.uid().is_none() {
                // Without an answer the next round asks.
                let _ = self.cluster.confirm().await;
            }
            let leads = leadership
                .as_mut()
                .is_some_and(|leadership| leadership.borrow_and_update().leading().is_some());
            let uid = self.judge();
            if let (ClusterUid::Known(uid), Some(lock)) = (&uid, &self.lock)
                && leads
                && lock.annotation(CLUSTER_UID_ANNOTATION).is_none()
            {
                // If this fails, the next round does it.
                let _ = lock
                    .annotate(CLUSTER_UID_ANNOTATION, Some(uid.to_string()))
                    .await;
            }
            if leads {
                self.resync();
            }
            if doubts.has_changed().unwrap_or_default()
                && let Some(doubt) = &*doubts.borrow_and_update()
                && leads
            {
                (self.on_warning)(doubt.event.clone());
            }
            let led_by_another =
                OptionFuture::from(leadership.as_mut().map(watch::Receiver::changed));
            tokio::select! {
                () = sleep(LOOK) => {}
                Some(Ok(())) = led_by_another => {}
                Ok(()) = doubts.changed() => doubts.mark_changed(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::OnceLock};

    use futures::FutureExt;
    use prometheus_client::{encoding::text::encode, registry::Registry};
    use tokio_util::sync::CancellationToken;

    use super::{super::process::provider_options, *};
    use crate::options;
    use outrigger_kube::{api::Api, cluster::Facts, fixture::scripted};
    use outrigger_provider::{
        ProviderMetrics,
        fixture::{Fake, Pipe},
    };

    /// The identity of a cluster whose UID has not been read yet.
    fn identity(registry: &mut Registry, on_warning: OnWarning) -> Arc<ClusterIdentity> {
        let config = options::parse_from::<&str>(&[], &BTreeMap::new()).unwrap();
        let facts = Facts::default();
        let (provider, _connection) = Provider::new(
            provider_options(&config, &facts),
            Box::new(Pipe(Fake::new())),
            ProviderMetrics::register(registry),
            CancellationToken::new(),
        );
        let silent = scripted::client(|_| std::future::pending().boxed());
        let cluster = SameCluster::new(Api::new(silent), facts.uid);
        ClusterIdentity::new(
            &config,
            (cluster, Sight::default()),
            provider,
            on_warning,
            None,
        )
    }

    /// It concerns every Node and Service alike: one event, on the Lease.
    #[tokio::test]
    async fn a_uid_that_is_not_known_is_warned_about_once() {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&warnings);
        let on_warning = Box::new(move |event: EventContent| log.lock().push(event.message));
        let identity = identity(&mut Registry::default(), on_warning);
        for _ in 0..3 {
            let unknown = ClusterUid::Unknown { remembered: None };
            assert_eq!(identity.judge(), unknown);
        }
        identity.cluster.learn("uid-1");
        assert_eq!(identity.judge(), ClusterUid::Known("uid-1".into()));
        let warnings = warnings.lock();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let text = "Nothing in the cloud is changed: the cluster's UID is not known";
        assert!(warnings[0].starts_with(text), "{warnings:?}");
    }

    /// The task that judges first must not tell the provider last.
    #[tokio::test]
    async fn the_provider_keeps_the_last_verdict() {
        let mut registry = Registry::default();
        let slot = Arc::new(OnceLock::<Arc<ClusterIdentity>>::new());
        let meanwhile = Arc::clone(&slot);
        // Another task reads the UID and judges while the first one reports that it is not known.
        let on_warning = Box::new(move |_| {
            if let Some(identity) = meanwhile.get() {
                identity.cluster.learn("uid-1");
                assert_eq!(identity.judge(), ClusterUid::Known("uid-1".into()));
            }
        });
        let identity = slot.get_or_init(|| identity(&mut registry, on_warning));
        *identity.last.lock() = None;
        let unknown = ClusterUid::Unknown { remembered: None };
        assert_eq!(identity.judge(), unknown);
        let mut scrape = String::new();
        encode(&mut scrape, &registry).unwrap();
        let gauge = "outrigger_cluster_uid{state=\"known\"} 1";
        assert!(scrape.contains(gauge), "{scrape}");
    }
}
