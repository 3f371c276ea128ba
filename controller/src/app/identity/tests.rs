use std::{collections::BTreeMap, sync::OnceLock};

use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio_util::sync::CancellationToken;

use super::{super::provider_options, *};
use crate::{
    options,
    provider::{
        ProviderMetrics,
        tests::fake::{Fake, Pipe},
    },
};

/// The task that judges first must not tell the provider last.
#[tokio::test]
async fn the_provider_keeps_the_last_verdict() {
    let config = options::parse_from(&[], &BTreeMap::new()).unwrap();
    let facts = Facts {
        version: "v1".into(),
        uid: Some("uid-1".into()),
        remembered_uid: None,
    };
    let mut registry = Registry::default();
    let (provider, _connection) = Provider::new(
        provider_options(&config, &facts),
        Pipe(Fake::new()),
        ProviderMetrics::register(&mut registry),
        CancellationToken::new(),
    );
    let identity = Arc::new(OnceLock::<Arc<ClusterIdentity>>::new());
    let meanwhile = Arc::clone(&identity);
    // Another task reads the UID and judges while the first one reports that it is not known.
    let on_warning = Box::new(move |_| {
        let identity = meanwhile.get().unwrap();
        identity.known.lock().read = Some("uid-1".into());
        assert_eq!(identity.judge(None), ClusterUid::Read("uid-1".into()));
    });
    let new = ClusterIdentity::new(provider, &facts, false, on_warning);
    let identity = identity.get_or_init(|| new);
    identity.known.lock().read = None;
    assert_eq!(identity.judge(None), ClusterUid::Unknown);
    let mut scrape = String::new();
    encode(&mut scrape, &registry).unwrap();
    let read = "outrigger_cluster_uid{state=\"read\"} 1";
    assert!(scrape.contains(read), "{scrape}");
}
