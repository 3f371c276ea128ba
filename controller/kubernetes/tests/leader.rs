//! Two electors on a real API server, with exactly the rights that the crate's documentation names.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use outrigger_core::lease::Durations;
use outrigger_kubernetes::{
    api::Api as Requests,
    leader::{
        Elector, Handle, LeaderConfig, LeaderMetrics, Leadership, LeaseTerm, Lost, ProcessIdentity,
    },
    watch::Sight,
};
use outrigger_testbed::{
    ControlPlane,
    faults::{Cut, Fault, FaultProxy, Rule},
    shared,
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

const LEASE: Duration = Duration::from_secs(4);
const DEADLINE: Duration = Duration::from_millis(2_500);
const NAME: &str = "cloud-controller-manager";

/// A namespace of its own, whose user `<namespace>-leader` may do what an elector needs.
struct Place {
    plane: &'static ControlPlane,
    namespace: &'static str,
}

impl Place {
    async fn new(namespace: &'static str) -> Self {
        let plane = shared().await.unwrap();
        let client = plane.client().unwrap();
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        let leases = |verbs: &[&str], names: &[&str]| {
            json!({
                "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                "verbs": verbs, "resourceNames": names,
            })
        };
        let role = json!({
            "metadata": {"name": "leader"},
            "rules": [leases(&["create"], &[]), leases(&["get", "update", "watch"], &[NAME, "second"])],
        });
        let binding = json!({
            "metadata": {"name": "leader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "leader"},
            "subjects": [{
                "kind": "User", "apiGroup": "rbac.authorization.k8s.io",
                "name": format!("{namespace}-leader"),
            }],
        });
        for (kind, object) in [("Role", role), ("RoleBinding", binding)] {
            let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
            let resource = ApiResource::from_gvk(&kind);
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), namespace, &resource);
            let object = serde_json::from_value(object).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap();
        }
        Self { plane, namespace }
    }

    fn user(&self) -> String {
        format!("{}-leader", self.namespace)
    }

    fn client(&self) -> Client {
        self.plane.client_of(&self.user(), None).unwrap()
    }

    async fn proxy(&self) -> FaultProxy {
        FaultProxy::start_as(self.plane, &self.user(), None)
            .await
            .unwrap()
    }

    async fn lease(&self, name: &str) -> Lease {
        Api::namespaced(self.plane.client().unwrap(), self.namespace)
            .get(name)
            .await
            .unwrap()
    }

    async fn holder(&self) -> String {
        self.lease(NAME)
            .await
            .spec
            .unwrap()
            .holder_identity
            .unwrap_or_default()
    }

    fn start(&self, client: Client) -> Replica {
        self.start_as(client, &Arc::default(), NAME)
    }

    fn start_as(&self, client: Client, identity: &Arc<ProcessIdentity>, name: &str) -> Replica {
        let config = LeaderConfig {
            namespace: self.namespace.into(),
            name: name.into(),
            identity: Arc::clone(identity),
            durations: Durations::new(LEASE, DEADLINE, Duration::from_millis(500)).unwrap(),
            sight: Sight::default(),
        };
        let (may, contends) = watch::channel(true);
        let metrics = LeaderMetrics::default();
        let (elector, handle) = Elector::new(
            Requests::new(client),
            config,
            metrics,
            contends,
            Arc::new(|_, _| {}),
        );
        let mut tasks = JoinSet::new();
        tasks.spawn(elector.run());
        Replica {
            identity: identity.own.clone(),
            handle,
            tasks,
            may,
        }
    }
}

struct Replica {
    identity: String,
    handle: Handle,
    tasks: JoinSet<()>,
    may: watch::Sender<bool>,
}

impl Replica {
    async fn leading(&self) -> LeaseTerm {
        let mut leadership = self.handle.leadership();
        let leads = leadership.wait_for(|now| now.leading().is_some());
        let now = timeout(Duration::from_secs(30), leads)
            .await
            .expect("leads in time")
            .unwrap();
        now.leading().unwrap().clone()
    }

    /// Returns when it stands by and knows who leads.
    async fn follows(&self, leader: &Self) {
        let mut leadership = self.handle.leadership();
        let follows = leadership.wait_for(|now| match now {
            Leadership::Standby { holder } => holder.as_deref() == Some(&*leader.identity),
            _ => false,
        });
        timeout(Duration::from_secs(10), follows)
            .await
            .expect("follows in time")
            .unwrap();
    }

    /// Waits for the end of the elector. Returns why it lost the lease, if it did.
    async fn ended(&mut self) -> Option<Lost> {
        let ended = timeout(Duration::from_secs(30), self.tasks.join_next());
        ended.await.expect("ends in time").unwrap().unwrap();
        match &*self.handle.leadership().borrow() {
            Leadership::Lost { reason } => Some(reason.clone()),
            _ => None,
        }
    }
}

#[tokio::test]
async fn a_release_hands_over_within_a_second() {
    let place = Place::new("leader-release").await;
    let mut leader = place.start(place.client());
    leader.leading().await;
    for round in 1..=10 {
        let next = place.start(place.client());
        next.follows(&leader).await;
        // The watch is up, too: the renewal after the first look comes through it.
        sleep(Duration::from_millis(100)).await;
        let began = Instant::now();
        leader.handle.release().await;
        assert_eq!(next.leading().await.epoch(), round);
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(leader.ended().await, None);
        assert_eq!(place.holder().await, next.identity);
        leader = next;
    }
    leader.handle.release().await;
    let spec = place.lease(NAME).await.spec.unwrap();
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_duration_seconds),
        (Some(""), Some(1))
    );
    assert_eq!(spec.lease_transitions, Some(10));
}

#[tokio::test]
async fn a_killed_leader_is_followed_within_the_lease_duration() {
    let place = Place::new("leader-kill").await;
    let leader = place.start(place.client());
    let leading = leader.leading().await;
    let next = place.start(place.client());
    next.follows(&leader).await;
    let killed = Instant::now();
    drop(leader);
    next.leading().await;
    let waited = killed.elapsed();
    assert!(!leading.is_valid_now());
    assert!(waited + Duration::from_secs(1) > LEASE, "{waited:?}");
    assert!(waited < LEASE + Duration::from_secs(2), "{waited:?}");
}

/// The leader is cut off: it is over at the renew deadline, before another replica leads, and sends
/// no request afterwards although it could.
#[tokio::test]
async fn a_leader_that_is_cut_off_gives_up_in_time() {
    for (namespace, silent) in [("leader-silence", true), ("leader-refused", false)] {
        let place = Place::new(namespace).await;
        let proxy = place.proxy().await;
        let mut leader = place.start(proxy.client().unwrap());
        let leading = leader.leading().await;
        let next = place.start(place.client());
        next.follows(&leader).await;

        if silent {
            proxy.inject(Rule::new(Fault::Silence));
            proxy.cut_watches("", Cut::Abrupt);
        } else {
            proxy.refuse_connections().await;
        }
        let cut = Instant::now();
        leading.token().cancelled().await;
        assert!(
            cut.elapsed() <= DEADLINE + Duration::from_millis(700),
            "{:?}",
            cut.elapsed()
        );
        assert!(!leading.is_valid_now());
        assert!(
            next.handle.leadership().borrow().leading().is_none(),
            "two leaders"
        );
        assert_eq!(leader.ended().await, Some(Lost::RenewDeadline));
        proxy.clear_rules();
        proxy.accept_connections().await;
        proxy.take_requests();
        next.leading().await;
        sleep(Duration::from_secs(2)).await;
        assert_eq!(proxy.requests().len(), 0);
    }
}

#[tokio::test]
async fn a_short_outage_changes_nothing() {
    let place = Place::new("leader-outage").await;
    let proxy = place.proxy().await;
    let leader = place.start(proxy.client().unwrap());
    let leading = leader.leading().await;
    let next = place.start(place.client());
    next.follows(&leader).await;
    for fault in [Fault::Disconnect, Fault::unavailable(), Fault::LoseAnswer] {
        let injected = proxy.inject(Rule::new(fault));
        proxy.cut_watches("", Cut::Abrupt);
        sleep(Duration::from_millis(1_200)).await;
        assert!(injected.hits() > 0);
        proxy.clear_rules();
        sleep(Duration::from_secs(2)).await;
        assert!(leading.is_valid_now());
    }
    assert_eq!(place.holder().await, leader.identity);
}

/// Giving up is not the end.
#[tokio::test]
async fn a_replica_that_gives_up_lets_the_other_lead() {
    let place = Place::new("leader-give-up").await;
    let first = place.start(place.client());
    first.leading().await;
    let second = place.start(place.client());
    second.follows(&first).await;
    first.may.send_replace(false);
    let began = Instant::now();
    first.handle.step_down().await;
    second.leading().await;
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    first.follows(&second).await;

    second.may.send_replace(false);
    second.handle.step_down().await;
    first.may.send_replace(true);
    first.leading().await;
}

/// The shape of our requests at the API server: their number, names and form.
#[tokio::test]
async fn an_idle_leader_costs_one_request_a_period() {
    let place = Place::new("leader-cost").await;
    let proxy = place.proxy().await;
    let leader = place.start(proxy.client().unwrap());
    leader.leading().await;
    let standby_proxy = place.proxy().await;
    let standby = place.start(standby_proxy.client().unwrap());
    standby.follows(&leader).await;
    sleep(Duration::from_millis(700)).await;
    assert_eq!(
        (
            proxy.open_watches("/leases"),
            standby_proxy.open_watches("/leases")
        ),
        (1, 1)
    );
    let annotated = leader.handle.annotate("outrigger.dev/x", Some("1".into()));
    annotated.await.unwrap();
    proxy.take_requests();
    standby_proxy.take_requests();
    sleep(Duration::from_secs(6)).await;
    let requests = proxy.requests();
    assert!((9..=13).contains(&requests.len()), "{requests:?}");
    for request in requests {
        let body: Value = request.json();
        assert_eq!(
            (request.method.as_str(), body["kind"].as_str()),
            ("PUT", Some("Lease"))
        );
        assert_eq!(body["metadata"]["annotations"]["outrigger.dev/x"], "1");
    }
    // A standby reads the Lease after each event.
    let reads = standby_proxy.requests();
    assert!((9..=20).contains(&reads.len()), "{reads:?}");
    assert!(reads.iter().all(|request| request.method.as_str() == "GET"));
    assert_eq!(
        standby.handle.annotation("outrigger.dev/x").as_deref(),
        Some("1")
    );
}
