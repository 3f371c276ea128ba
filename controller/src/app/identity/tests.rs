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
        Pipe(Fake::new()),
        ProviderMetrics::register(registry),
        CancellationToken::new(),
    );
    let silent = scripted::client(|_| std::future::pending().boxed());
    let cluster = SameCluster::new(Api::new(silent), facts.uid);
    ClusterIdentity::new(&config, (cluster, Sight::default()), provider, on_warning)
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
        assert_eq!(identity.judge(None), unknown);
    }
    identity.cluster.learn("uid-1");
    assert_eq!(identity.judge(None), ClusterUid::Known("uid-1".into()));
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
            assert_eq!(identity.judge(None), ClusterUid::Known("uid-1".into()));
        }
    });
    let identity = slot.get_or_init(|| identity(&mut registry, on_warning));
    *identity.last.lock() = None;
    let unknown = ClusterUid::Unknown { remembered: None };
    assert_eq!(identity.judge(None), unknown);
    let mut scrape = String::new();
    encode(&mut scrape, &registry).unwrap();
    let gauge = "outrigger_cluster_uid{state=\"known\"} 1";
    assert!(scrape.contains(gauge), "{scrape}");
}
