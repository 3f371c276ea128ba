//! Replicas whose providers come and go, on one scripted Lease and the paused clock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::FutureExt;
use outrigger_core::node::NodeView;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{super::process::provider_options, *};
use crate::options::{self, controllers::Controller};
use outrigger_kube::{
    cluster::{CLUSTER_UID_ANNOTATION, Facts, SameCluster},
    error::ApiError,
    events::EventContent,
    fixture::lease::Store as Lease,
    store::View,
    watch::{Health, Sight},
};
use outrigger_loops::context::Term;
use outrigger_provider::{
    ProviderMetrics,
    fixture::{Fake, Pipe},
};
use outrigger_runtime::telemetry::RunningControllers;

/// After which a leader without a provider gives up (design 4.1).
const GRACE: Duration = Duration::from_mins(1);

const LEASE_DURATION: Duration = Duration::from_secs(15);

/// One process, as far as the election and the provider go.
struct Replica {
    provider: Arc<Fake>,
    stop: CancellationToken,
    lease_task: JoinSet<Result<(), Fatal>>,
    identity: Arc<ClusterIdentity>,
    /// Health of the only watch.
    health: Health,
    warnings: Arc<Mutex<Vec<EventContent>>>,
    _tasks: JoinSet<()>,
}

impl Replica {
    fn start(lease: &Lease) -> Self {
        Self::with(lease, |_| {})
    }

    /// With the loops that `add` adds.
    fn with(lease: &Lease, add: impl FnOnce(&mut Hosts)) -> Self {
        let facts = Facts {
            version: "v1".into(),
            uid: Some("uid-1".into()),
        };
        let args = [
            "--leader-elect-resource-name=ccm",
            "--controllers=cloud-node",
        ];
        let config = options::parse_from(&args.map(str::to_owned), &BTreeMap::new()).unwrap();
        let mut registry = Registry::default();
        let mut tasks = JoinSet::new();
        let fake = Fake::new();
        let (provider, connection) = Provider::new(
            provider_options(&config, &facts),
            Box::new(Pipe(Arc::clone(&fake))),
            ProviderMetrics::register(&mut registry),
            CancellationToken::new(),
        );
        tasks.spawn(connection);
        let mut hosts = Vec::new();
        add(&mut hosts);
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&warnings);
        let on_warning = Box::new(move |text| log.lock().push(text));
        let cluster = SameCluster::new(lease.api(), facts.uid);
        let sight = Sight::default();
        let health = Health::new(NodeView::RESOURCE, &sight);
        health.began();
        let contender = Contender::start(
            config.election.as_ref().unwrap(),
            lease.api(),
            LeaderMetrics::register(&mut registry),
            Arc::new(|_, _| {}),
            &provider,
            &sight,
        );
        let identity = ClusterIdentity::new(
            &config,
            (cluster, sight),
            provider.clone(),
            on_warning,
            Some(contender.lock.clone()),
        );
        tasks.spawn(Arc::clone(&identity).run());
        let task = LeaseTask {
            contender: Some(contender),
            hosts,
            provider,
            identity: Arc::clone(&identity),
            checks: Checks::default(),
            running: RunningControllers::register(&mut registry),
            grace: config.shutdown_grace,
        };
        let stop = CancellationToken::new();
        let mut lease_task = JoinSet::new();
        lease_task.spawn(task.run(stop.clone()));
        Self {
            identity,
            health,
            warnings,
            provider: fake,
            stop,
            lease_task,
            _tasks: tasks,
        }
    }

    async fn ended(&mut self) -> Result<(), Fatal> {
        self.lease_task.join_next().await.unwrap().unwrap()
    }
}

/// Waits until the holder is as wanted, and returns who that is and how long it took.
async fn holder(lease: &Lease, is_expected: impl Fn(&str) -> bool) -> (String, Duration) {
    let began = Instant::now();
    loop {
        let holder = lease.holder();
        if is_expected(&holder) {
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
    second.ended().await.unwrap();
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
    first.ended().await.unwrap();
}

/// Renewals reach the API server, and nothing of the cluster is seen.
#[tokio::test(start_paused = true)]
async fn a_leader_none_of_whose_watches_works_gives_the_lease_to_another_replica() {
    let lease = Lease::default();
    let first = Replica::start(&lease);
    let (one, _) = holder(&lease, |holder| !holder.is_empty()).await;
    let _second = Replica::start(&lease);
    let broken = ApiError::Timeout(Duration::from_secs(30));
    // Back within the grace.
    first.health.failed(&broken);
    sleep(GRACE / 2).await;
    first.health.opened();
    sleep(GRACE).await;
    assert_eq!(lease.holder(), one);

    first.health.failed(&broken);
    let (other, took) = holder(&lease, |holder| !holder.is_empty() && holder != one).await;
    assert!(
        took >= GRACE && took < GRACE + Duration::from_secs(1),
        "{took:?}"
    );
    sleep(GRACE).await;
    assert_eq!(lease.holder(), other);
}

#[tokio::test(start_paused = true)]
async fn a_replica_none_of_whose_watches_works_does_not_contend() {
    let lease = Lease::default();
    let only = Replica::start(&lease);
    only.health
        .failed(&ApiError::Timeout(Duration::from_secs(30)));
    sleep(GRACE).await;
    assert_eq!(lease.holder(), "");
    only.health.opened();
    holder(&lease, |holder| !holder.is_empty()).await;
}

/// If anything else ends together with the lease term, the reason is the lease.
#[tokio::test(start_paused = true)]
async fn proc_13_who_loses_the_lease_ends_and_says_so() {
    for _ in 0..10 {
        let lease = Lease::default();
        let mut only = Replica::start(&lease);
        holder(&lease, |holder| !holder.is_empty()).await;
        lease.edit(|lease| lease["spec"]["holderIdentity"] = json!("another-replica"));
        let ended = only.ended().await.unwrap_err();
        assert_eq!(ended.to_string(), "leaderelection lost");
        assert_eq!(ended.exit_code(), 1);
    }
}

/// A loop with one call in flight that changes the cloud, and that the provider answers after `answer`.
fn working(answer: Duration) -> impl FnOnce(&mut Hosts) {
    move |hosts| {
        let host = move |term: &Term, work: CancellationToken| {
            let fence = term.fence.clone();
            let running = async move {
                let call = fence.begin(true).unwrap();
                tokio::select! {
                    () = sleep(answer) => call.ended(),
                    () = fence.cancelled() => drop(call),
                }
                assert!(fence.begin(true).is_none() || !work.is_cancelled());
                work.cancelled().await;
            };
            running.boxed()
        };
        hosts.push((Controller::CloudNode, Box::new(host)));
    }
}

/// Tells a replica to end, and how long that took.
async fn end(replica: &mut Replica) -> (Result<(), Fatal>, Duration) {
    let stopped = Instant::now();
    replica.stop.cancel();
    let ended = replica.ended().await;
    (ended, stopped.elapsed())
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_released_with_the_last_answer() {
    let lease = Lease::default();
    let mut only = Replica::with(&lease, working(Duration::from_secs(20)));
    holder(&lease, |holder| !holder.is_empty()).await;
    sleep(Duration::from_secs(5)).await;
    let (ended, took) = end(&mut only).await;
    ended.unwrap();
    assert_eq!(took.as_secs(), 15 - 1, "a moment passes until it leads");
    assert_eq!(lease.holder(), "");
}

/// The provider may still be at work when the next leader begins.
#[tokio::test(start_paused = true)]
async fn a_lease_with_an_unanswered_call_is_left_to_expire() {
    let lease = Lease::default();
    let mut only = Replica::with(&lease, working(Duration::MAX));
    let (one, _) = holder(&lease, |holder| !holder.is_empty()).await;
    let (ended, took) = end(&mut only).await;
    ended.unwrap();
    assert_eq!(took.as_secs(), 25);
    assert_eq!(lease.holder(), one);
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_at_once_when_the_lease_is_lost_while_it_ends() {
    let lease = Lease::default();
    let mut only = Replica::with(&lease, working(Duration::MAX));
    holder(&lease, |holder| !holder.is_empty()).await;
    let ((ended, took), ()) = tokio::join!(end(&mut only), async {
        sleep(Duration::from_secs(3)).await;
        lease.edit(|lease| lease["spec"]["holderIdentity"] = json!("another-replica"));
    });
    ended.unwrap();
    assert_eq!(took.as_secs(), 3);
    assert_eq!(lease.holder(), "another-replica");
}

/// Another replica need not wait for the lease to expire.
#[tokio::test(start_paused = true)]
async fn a_loop_that_panics_gives_the_lease_back() {
    let lease = Lease::default();
    let mut only = Replica::with(&lease, |hosts| {
        let panics = || async {
            sleep(Duration::from_secs(5)).await;
            panic!("as the test wants it");
        };
        let host = move |_: &Term, _| panics().boxed();
        hosts.push((Controller::CloudNode, Box::new(host)));
    });
    holder(&lease, |holder| !holder.is_empty()).await;
    let ended = only.ended().await.unwrap_err();
    assert!(
        matches!(&ended, Fatal::Died(name) if name == "cloud-node-controller"),
        "{ended}"
    );
    assert_eq!(lease.holder(), "");
}

/// A loop that hands the lease over since its provider is gone has the same time.
#[tokio::test(start_paused = true)]
async fn a_leader_without_a_provider_waits_for_its_calls_too() {
    let lease = Lease::default();
    let only = Replica::with(&lease, working(GRACE + Duration::from_secs(20)));
    holder(&lease, |holder| !holder.is_empty()).await;
    only.provider.kill();
    let (_, took) = holder(&lease, str::is_empty).await;
    assert!(took > GRACE + Duration::from_secs(18), "{took:?}");
    assert!(took < GRACE + Duration::from_secs(21), "{took:?}");
}

/// The cluster UID on the Lease.
fn uid_on(lease: &Lease) -> Option<String> {
    let lease = lease.lease();
    let uid = lease["metadata"]["annotations"][CLUSTER_UID_ANNOTATION].as_str();
    uid.map(str::to_owned)
}

/// No replica may change another cluster's load balancers, and the next leader has to know which those are.
#[tokio::test(start_paused = true)]
async fn a_leader_remembers_the_clusters_uid_and_is_stopped_by_another() {
    let lease = Lease::default();
    let mut first = Replica::start(&lease);
    holder(&lease, |holder| !holder.is_empty()).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(uid_on(&lease).as_deref(), Some("uid-1"));
    assert_eq!(first.identity.check(), Ok(()));
    first.stop.cancel();
    first.ended().await.unwrap();
    assert_eq!(uid_on(&lease).as_deref(), Some("uid-1"));

    lease.edit(|lease| {
        lease["metadata"]["annotations"][CLUSTER_UID_ANNOTATION] = json!("uid-0");
    });
    let second = Replica::start(&lease);
    holder(&lease, |holder| !holder.is_empty()).await;
    sleep(Duration::from_secs(1)).await;
    let reason = second.identity.check().unwrap_err();
    assert!(
        reason.contains("uid-0") && reason.contains("uid-1"),
        "{reason}"
    );
    assert_eq!(second.warnings.lock().len(), 1);
    sleep(LEASE_DURATION * 8).await;
    assert_eq!(
        uid_on(&lease).as_deref(),
        Some("uid-0"),
        "an operator decides"
    );
    assert_eq!(second.warnings.lock().len(), 1, "it is said once");

    lease.edit(|lease| {
        let annotations = lease["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(CLUSTER_UID_ANNOTATION);
    });
    sleep(LEASE_DURATION * 4).await;
    assert_eq!(second.identity.check(), Ok(()));
    assert_eq!(uid_on(&lease).as_deref(), Some("uid-1"));
}

/// A full disk, a pipe or a device in its place: the process starts, and its Lease has to expire after a crash.
#[test]
fn an_identity_file_that_cannot_be_used_keeps_no_controller_from_starting() {
    for path in ["/dev/full", "/dev/null", "/proc", "/nonexistent/identity"] {
        let identity = identity(Some(Path::new(path)));
        assert!(
            !identity.own.is_empty() && identity.killed.is_none(),
            "{path}"
        );
    }
}
