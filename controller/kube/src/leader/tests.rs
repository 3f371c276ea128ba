use std::{sync::Arc, time::Duration};

use outrigger_core::targets::ANNOTATION_TARGETS;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::*;
use crate::{
    cluster::SameCluster,
    fixture::{
        durations,
        lease::{Mood, Store},
    },
};

mod trouble;

/// An elector on the store, and what it said.
struct Replica {
    handle: Handle,
    elector: Option<Elector>,
    tasks: JoinSet<()>,
    may: watch::Sender<bool>,
    events: Arc<Mutex<Vec<String>>>,
    metrics: LeaderMetrics,
    sight: Sight,
}

impl Replica {
    /// Not running yet.
    fn new(store: &Store, identity: &str) -> Self {
        let sight = Sight::of(SameCluster::new(store.api(), Some("uid-1".into())));
        let config = LeaderConfig {
            namespace: "kube-system".into(),
            name: "ccm".into(),
            identity: Arc::new(identity.into()),
            durations: durations(),
            sight: sight.clone(),
        };
        let (may, contends) = watch::channel(true);
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&events);
        let on_event: OnEvent = Arc::new(move |_, event| log.lock().push(event.message.into()));
        let metrics = LeaderMetrics::default();
        let (elector, handle) =
            Elector::new(store.api(), config, metrics.clone(), contends, on_event);
        Self {
            handle,
            elector: Some(elector),
            tasks: JoinSet::new(),
            may,
            events,
            metrics,
            sight,
        }
    }

    fn start(store: &Store, identity: &str) -> Self {
        let mut this = Self::new(store, identity);
        this.tasks.spawn(this.elector.take().unwrap().run());
        this
    }

    async fn leading(&self) -> LeaseTerm {
        let mut leadership = self.handle.leadership();
        let leads = leadership.wait_for(|now| now.leading().is_some());
        let now = timeout(Duration::from_mins(2), leads)
            .await
            .expect("leads in time")
            .unwrap();
        now.leading().unwrap().clone()
    }

    fn leads(&self) -> bool {
        self.handle
            .leadership()
            .borrow()
            .leading()
            .is_some_and(LeaseTerm::is_valid_now)
    }

    /// Waits for the end of the elector. Returns why it lost the lease, if it did.
    async fn ended(&mut self) -> Option<Lost> {
        let ended = timeout(Duration::from_mins(1), self.tasks.join_next());
        ended.await.expect("ends in time").unwrap().unwrap();
        self.lost()
    }

    fn lost(&self) -> Option<Lost> {
        match &*self.handle.leadership().borrow() {
            Leadership::Lost { reason } => Some(reason.clone()),
            _ => None,
        }
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().clone()
    }
}

async fn secs(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

fn metric(metrics: &LeaderMetrics) -> (i64, u64) {
    let text = metrics.text();
    let value = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or(" 0");
        line.rsplit(' ').next().unwrap().to_owned()
    };
    (
        value("leader_election_master_status{name=\"ccm\"}")
            .parse()
            .unwrap(),
        value("leader_election_slowpath_total{name=\"ccm\"}")
            .parse()
            .unwrap(),
    )
}

impl LeaderMetrics {
    /// The text of a scrape.
    fn text(&self) -> String {
        let mut registry = prometheus_client::registry::Registry::default();
        self.register_in(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_lease_is_made_and_renewed() {
    let store = Store::default();
    let replica = Replica::start(&store, "a");
    assert_eq!(metric(&replica.metrics), (0, 0));
    let leading = replica.leading().await;
    assert_eq!(store.requests(), ["GET", "POST a"]);
    let lease = store.lease();
    assert_eq!(lease["apiVersion"], "coordination.k8s.io/v1");
    assert_eq!(lease["kind"], "Lease");
    assert_eq!(
        (&lease["metadata"]["namespace"], &lease["metadata"]["name"]),
        (&json!("kube-system"), &json!("ccm"))
    );
    let spec = &lease["spec"];
    assert_eq!(spec["leaseDurationSeconds"], 15);
    assert_eq!(spec["leaseTransitions"], 0);
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    // 2026-01-02T03:04:05.000000Z: the API server takes no other number of decimals.
    assert_eq!(spec["renewTime"].as_str().unwrap().len(), 27, "{spec}");
    assert_eq!(leading.epoch(), 0);

    secs(7).await;
    assert_eq!(store.requests(), ["PUT a", "PUT a", "PUT a"]);
    assert_ne!(
        store.lease()["spec"]["acquireTime"],
        store.lease()["spec"]["renewTime"]
    );
    assert!(leading.is_valid_now());
    assert_eq!(replica.events(), ["a became leader"]);
    assert_eq!(metric(&replica.metrics), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let store = Store::default();
    let mut a = Replica::start(&store, "a");
    let leading = a.leading().await;
    let b = Replica::start(&store, "b");
    secs(20).await;
    let holder = match &*b.handle.leadership().borrow() {
        Leadership::Standby { holder } => holder.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(holder.as_deref(), Some("a"));
    // Annotations of others on the Lease stay.
    store.edit(|lease| {
        lease["metadata"]["annotations"] = json!({"other": "1", ANNOTATION_TARGETS: "5921@0"});
        lease["metadata"]["labels"] = json!({"team": "x"});
        lease["spec"]["strategy"] = json!("OldestEmulationVersion");
    });
    secs(1).await;
    store.requests();

    let began = Instant::now();
    a.handle.release().await;
    assert!(leading.token().is_cancelled() && !leading.is_valid_now());
    assert_eq!(a.ended().await, None);
    assert_eq!(b.leading().await.epoch(), 1);
    assert!(
        began.elapsed() < Duration::from_millis(100),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(store.requests(), ["PUT", "GET", "PUT b"]);
    let lease = store.lease();
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    assert_eq!(lease["spec"]["strategy"], "OldestEmulationVersion");
    assert_eq!(lease["metadata"]["annotations"]["other"], "1");
    // The next term is the next of this program, whatever it does.
    assert_eq!(
        lease["metadata"]["annotations"][ANNOTATION_TARGETS],
        "5921@1"
    );
    assert_eq!(lease["metadata"]["labels"]["team"], "x");
    assert_eq!(a.events(), ["a became leader", "a stopped leading"]);
    assert_eq!(metric(&a.metrics), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_answered_with_an_older_version_shows_that_etcd_has_gone_back() {
    let store = Store::default();
    store.0.lock().version = 1000;
    let replica = Replica::start(&store, "a");
    replica.leading().await;
    secs(10).await;
    let mut doubts = replica.sight.doubts();
    assert!(!doubts.has_changed().unwrap());
    // The backup has the Lease of the same holder.
    store.0.lock().version = 400;
    store.edit(|lease| lease["metadata"]["labels"] = json!({"restored": "1"}));
    secs(10).await;
    assert!(replica.leads());
    assert!(doubts.has_changed().unwrap());
    let doubt = doubts.borrow_and_update().clone().unwrap();
    assert_eq!(&*doubt.event.reason, "EtcdRestored");
    secs(10).await;
    assert!(!doubts.has_changed().unwrap(), "once");
}

/// The address of the API server, or the kubeconfig, leads to another cluster.
#[tokio::test(start_paused = true)]
async fn a_lease_of_another_cluster_is_neither_made_nor_claimed() {
    let store = Store::default();
    let leads_to = |uid| store.0.lock().kube_system = Some(uid);
    leads_to("uid-1");
    let leader = Replica::start(&store, "a");
    leader.leading().await;
    let wrote = |store: &Store| {
        let requests = store.requests().into_iter();
        requests.filter(|it| it != "GET").collect::<Vec<_>>()
    };
    // It has no Lease.
    leads_to("uid-2");
    store.delete();
    wrote(&store);
    secs(30).await;
    assert_eq!(wrote(&store), [""; 0]);
    assert!(!leader.leads());

    // It has one that is free.
    leads_to("uid-1");
    let former = Replica::start(&store, "b");
    former.leading().await;
    former.handle.release().await;
    leads_to("uid-2");
    wrote(&store);
    let mut standby = Replica::start(&store, "c");
    secs(30).await;
    assert_eq!(wrote(&store), [""; 0]);
    leads_to("uid-1");
    standby.leading().await;
    standby.handle.release().await;
    assert_eq!(standby.ended().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_gave_up_lets_others_lead() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    let leading = a.leading().await;
    a.may.send_replace(false);
    secs(60).await;
    a.handle.step_down().await;
    assert!(leading.token().is_cancelled());
    assert_eq!(store.holder(), "");
    assert!(matches!(
        &*a.handle.leadership().borrow(),
        Leadership::Standby { holder: None }
    ));
    assert_eq!(a.events(), ["a became leader", "a stopped leading"]);
    secs(60).await;
    assert_eq!(store.holder(), "");
    a.may.send_replace(true);
    let able = Instant::now();
    // No other replica came: it takes the lease again, as a new leader.
    let again = a.leading().await;
    let waited = again.quiet_at() - able;
    assert!(waited.as_millis() < 10, "{waited:?}");
    assert_eq!(again.epoch(), 1);
    assert!(again.is_valid_now() && !leading.is_valid_now());

    // Able all the while, it lets the other one come first.
    let began = Instant::now();
    a.handle.step_down().await;
    let waited = a.leading().await.quiet_at() - began;
    assert!((6_000..6_010).contains(&waited.as_millis()), "{waited:?}");
    let b = Replica::start(&store, "b");
    secs(3).await;
    a.handle.step_down().await;
    b.leading().await;
    secs(60).await;
    assert!(b.leads() && !a.leads());
}

#[tokio::test(start_paused = true)]
async fn an_annotation_brings_the_renewal_forward() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    a.leading().await;
    store.requests();
    let began = Instant::now();
    a.handle.annotate("x", Some("1".into())).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(100));
    assert_eq!(store.requests(), ["PUT a"]);
    assert_eq!(store.lease()["metadata"]["annotations"]["x"], "1");
    assert_eq!(a.handle.annotation("x").as_deref(), Some("1"));
    a.handle.annotate("x", None).await.unwrap();
    assert_eq!(a.handle.annotation("x"), None);
    assert_eq!(store.lease()["metadata"]["annotations"].get("x"), None);
    // Renewals go on in their own time.
    store.requests();
    secs(5).await;
    assert_eq!(store.requests(), ["PUT a", "PUT a"]);
}

/// At the first start two tasks annotate: the second one while the write for the first is in flight.
#[tokio::test(start_paused = true)]
async fn an_annotation_during_a_write_follows_it_at_once() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    a.leading().await;
    store.requests();
    store.0.lock().write_latency = Duration::from_millis(50);
    let began = Instant::now();
    let second = async {
        sleep(Duration::from_millis(20)).await;
        a.handle.annotate("y", Some("2".into())).await
    };
    let (first, second) = tokio::join!(a.handle.annotate("x", Some("1".into())), second);
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert!(
        began.elapsed() < Duration::from_millis(200),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(store.requests(), ["PUT a", "PUT a"]);
}

/// The first annotation is written, and the answer is lost.
#[tokio::test(start_paused = true)]
async fn an_annotation_that_is_taken_back_may_still_be_in_flight() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    a.leading().await;
    store.mood(Mood::Mute);
    let handle = a.handle.clone();
    let (mut set, mut taken_back) = (JoinSet::new(), JoinSet::new());
    set.spawn(async move { handle.annotate("x", Some("1".into())).await });
    secs(1).await;
    assert_eq!(store.lease()["metadata"]["annotations"]["x"], "1");
    let handle = a.handle.clone();
    taken_back.spawn(async move { handle.annotate("x", None).await });
    secs(1).await;
    assert!(taken_back.try_join_next().is_none());
    store.mood(Mood::Well);
    taken_back.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(store.lease()["metadata"]["annotations"].get("x"), None);
    assert_eq!(set.join_next().await.unwrap().unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_annotates() {
    let store = Store::default();
    let a = Replica::start(&store, "a");
    a.leading().await;
    let b = Replica::start(&store, "b");
    secs(3).await;
    assert_eq!(
        b.handle.annotate("x", Some("1".into())).await,
        Err(NotLeading)
    );
    assert_eq!(store.lease()["metadata"]["annotations"].get("x"), None);
}
