//! Replicas whose providers come and go, on one scripted Lease and the paused clock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{super::provider_options, *};
use crate::{
    kube::cluster::Facts,
    leader::tests::store::Store as Lease,
    options,
    provider::{
        ProviderMetrics,
        tests::fake::{Fake, Pipe},
    },
    telemetry::RunningControllers,
};

/// After which a leader without a provider gives up (design 4.1).
const GRACE: Duration = Duration::from_mins(1);

const LEASE_DURATION: Duration = Duration::from_secs(15);

/// One process, as far as the election and the provider go.
struct Replica {
    provider: Arc<Fake>,
    stop: CancellationToken,
    offices: Offices,
    _tasks: JoinSet<()>,
}

impl Replica {
    fn start(lease: &Lease) -> Self {
        let args = [
            "--leader-elect-resource-name=ccm",
            "--controllers=cloud-node",
        ];
        let config = options::parse_from(&args.map(str::to_owned), &BTreeMap::new()).unwrap();
        let facts = Facts {
            version: "v1".into(),
            uid: String::new(),
        };
        let mut registry = Registry::default();
        let mut tasks = JoinSet::new();
        let fake = Fake::new();
        let (provider, connection) = Provider::new(
            provider_options(&config, &facts),
            Pipe(Arc::clone(&fake)),
            ProviderMetrics::register(&mut registry),
            CancellationToken::new(),
        );
        tasks.spawn(connection);
        let checks = Checks::default();
        let running = RunningControllers::register(&mut registry);
        let building = Building {
            api: lease.api(),
            metrics: LeaderMetrics::register(&mut registry),
            events: Arc::new(drop),
            loops: Arc::new(Loops::new(checks.clone(), running, Duration::ZERO)),
            provider,
            checks,
        };
        let stop = CancellationToken::new();
        let offices = building.open(&config, &stop).unwrap();
        Self {
            provider: fake,
            stop,
            offices,
            _tasks: tasks,
        }
    }
}

/// Waits until the holder is as wanted, and returns who that is and how long it took.
async fn holder(lease: &Lease, wanted: impl Fn(&str) -> bool) -> (String, Duration) {
    let began = Instant::now();
    loop {
        let holder = lease.holder();
        if wanted(&holder) {
            return (holder, began.elapsed());
        }
        assert!(began.elapsed() < Duration::from_mins(10), "{holder:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_provider_stays_away_gives_the_lease_to_another_replica_for_good() {
    let lease = Lease::default();
    let first = Replica::start(&lease);
    let (one, _) = holder(&lease, |holder| !holder.is_empty()).await;
    let mut second = Replica::start(&lease);
    sleep(LEASE_DURATION).await;

    first.provider.kill();
    let (other, took) = holder(&lease, |holder| !holder.is_empty() && holder != one).await;
    assert!(
        took >= GRACE && took < GRACE + Duration::from_secs(1),
        "{took:?}"
    );

    first.provider.restart();
    let began = Instant::now();
    while began.elapsed() < LEASE_DURATION * 6 {
        assert_eq!(lease.holder(), other);
        sleep(Duration::from_millis(100)).await;
    }

    second.stop.cancel();
    second.offices.drain().await.unwrap();
    let (holder, took) = holder(&lease, |holder| !holder.is_empty()).await;
    assert_eq!(holder, one);
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_back_within_the_grace_costs_no_lease() {
    let lease = Lease::default();
    let mut first = Replica::start(&lease);
    let (one, _) = holder(&lease, |holder| !holder.is_empty()).await;
    let _second = Replica::start(&lease);
    for _ in 0..3 {
        sleep(Duration::from_secs(5)).await;
        first.provider.kill();
        sleep(Duration::from_secs(55)).await;
        first.provider.restart();
        sleep(Duration::from_secs(5)).await;
    }
    sleep(GRACE * 2).await;
    assert_eq!(lease.holder(), one);
    assert_eq!(lease.lease()["spec"]["leaseTransitions"], 0);
    first.stop.cancel();
    first.offices.drain().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_gave_up_and_is_alone_leads_again_when_others_had_their_chance() {
    let lease = Lease::default();
    let only = Replica::start(&lease);
    let (one, _) = holder(&lease, |holder| !holder.is_empty()).await;
    only.provider.kill();
    holder(&lease, str::is_empty).await;
    sleep(LEASE_DURATION * 4).await;
    assert_eq!(lease.holder(), "");

    only.provider.restart();
    let (again, took) = holder(&lease, |holder| !holder.is_empty()).await;
    assert_eq!(again, one);
    // The provider is dialled within a second.
    let chance = LEASE_DURATION * 2;
    assert!(
        took >= chance && took < chance + Duration::from_secs(2),
        "{took:?}"
    );
}

/// Whatever ends first with the time in office, the reason is the lease.
#[tokio::test(start_paused = true)]
async fn proc_13_who_loses_the_lease_ends_and_says_so() {
    for _ in 0..10 {
        let lease = Lease::default();
        let mut only = Replica::start(&lease);
        holder(&lease, |holder| !holder.is_empty()).await;
        lease.edit(|lease| lease["spec"]["holderIdentity"] = json!("somebody-else"));
        let ended = only.offices.ended().await.unwrap_err();
        assert_eq!(ended.to_string(), "leaderelection lost");
        assert_eq!(ended.exit_code(), 1);
    }
}
