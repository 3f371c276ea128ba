use std::{collections::BTreeMap, sync::OnceLock};

use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio_util::sync::CancellationToken;

use super::{super::process::provider_options, *};
use crate::options;
use outrigger_provider_client::{
    ProviderMetrics,
    fixture::{Fake, Pipe},
};

/// The identity of a cluster whose UID was read.
fn identity(uid: &str, registry: &mut Registry, on_warning: OnWarning) -> Arc<ClusterIdentity> {
    let config = options::parse_from(&[], &BTreeMap::new()).unwrap();
    let facts = Facts {
        version: "v1".into(),
        uid: Some(uid.into()),
        remembered_uid: None,
    };
    let (provider, _connection) = Provider::new(
        provider_options(&config, &facts),
        Pipe(Fake::new()),
        ProviderMetrics::register(registry),
        CancellationToken::new(),
    );
    ClusterIdentity::new(provider, &facts, false, on_warning)
}

/// It concerns every Node and Service alike: one event, on the Lease.
#[tokio::test]
async fn a_uid_that_is_not_known_is_warned_about_once() {
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&warnings);
    let on_warning = Box::new(move |event: EventContent| log.lock().push(event.message));
    let identity = identity("uid-1", &mut Registry::default(), on_warning);
    for _ in 0..2 {
        identity.uids.lock().read = None;
        for _ in 0..3 {
            assert_eq!(identity.judge(None), ClusterUid::Unknown);
        }
        identity.uids.lock().read = Some("uid-1".into());
        identity.judge(None);
    }
    let warnings = warnings.lock();
    assert_eq!(warnings.len(), 2, "once for each time: {warnings:?}");
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
        let identity = meanwhile.get().unwrap();
        identity.uids.lock().read = Some("uid-1".into());
        assert_eq!(identity.judge(None), ClusterUid::Read("uid-1".into()));
    });
    let new = identity("uid-1", &mut registry, on_warning);
    let identity = slot.get_or_init(|| new);
    identity.uids.lock().read = None;
    assert_eq!(identity.judge(None), ClusterUid::Unknown);
    let mut scrape = String::new();
    encode(&mut scrape, &registry).unwrap();
    let read = "outrigger_cluster_uid{state=\"read\"} 1";
    assert!(scrape.contains(read), "{scrape}");
}
