//! The writer and its store over a small API, on the paused clock.

use std::{sync::Arc, time::Duration};

use outrigger_core::{
    condition::{Condition, ConditionChange},
    error_class::ErrorClass,
    service::{Ingress, patch_plan::FinalizerChange},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::*;
use crate::{
    api::Api,
    error::ApiError,
    fixture::{Cluster, PATIENCE, service},
    store::{Change, Origin, Store},
};

mod body;

const KEY: &str = "shop/web";
const STATUS: &str = "PATCH /api/v1/namespaces/shop/services/web/status";
const READ: &str = "GET /api/v1/namespaces/shop/services/web";

/// A Service in a store that a watch keeps in sync.
struct Rig {
    cluster: Cluster,
    services: Arc<Store<ServiceView>>,
    writer: ServiceWriter,
    changes: Arc<Mutex<Vec<&'static str>>>,
    tasks: JoinSet<()>,
}

impl Rig {
    async fn start() -> Self {
        let cluster = Cluster::new();
        cluster.create_service(service("web"));
        let services = Store::default();
        let changes = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&changes);
        services.subscribe(move |change: &Change<'_, ServiceView>, origin| {
            // Our own writes reach the handler too; this test is about the others.
            if origin == Origin::Write {
                return;
            }
            log.lock().push(match change {
                Change::Added(_) => "added",
                Change::Updated(..) => "updated",
                Change::Deleted(_) => "deleted",
            });
        });
        let services = Arc::new(services);
        let mut tasks = JoinSet::new();
        tasks.spawn(cluster.clone().watch_services(Arc::clone(&services)));
        services.synced().await;
        // Until the watch is open.
        sleep(Duration::from_secs(1)).await;
        Self {
            writer: ServiceWriter::new(Api::new(cluster.client()), Arc::clone(&services)),
            cluster,
            services,
            changes,
            tasks,
        }
    }

    fn held(&self) -> Arc<ServiceView> {
        self.services.get(KEY).unwrap()
    }

    fn live(&self) -> Value {
        self.cluster.service(KEY).unwrap()
    }

    /// Waits until the store has what the API server has, and that is so long after.
    async fn in_step(&self) {
        let same = || {
            let live = self.cluster.service(KEY);
            let live = live.map(|live| serde_json::from_value::<ServiceView>(live).unwrap());
            live.as_ref() == self.services.get(KEY).as_deref()
        };
        let waited = timeout(PATIENCE, async {
            while !same() {
                sleep(Duration::from_millis(10)).await;
            }
        });
        waited.await.expect("the store is in sync");
    }

    async fn write(&self, patch: &StatusPatch) -> Result<Option<Arc<ServiceView>>, ApiError> {
        self.writer.write(&self.held(), patch).await
    }

    fn patch(&self) -> StatusPatch {
        StatusPatch {
            uid: self.held().uid.clone(),
            finalizer: None,
            annotations: Vec::new(),
            conditions: Vec::new(),
            ingress: None,
        }
    }

    /// With a change of every kind.
    fn full(&self) -> StatusPatch {
        StatusPatch {
            finalizer: Some(FinalizerChange::Add),
            annotations: vec![("example.com/a".into(), Some("1".into()))],
            conditions: vec![ConditionChange::Set(condition("x/A"))],
            ingress: Some([at("192.0.2.7")].into()),
            ..self.patch()
        }
    }
}

fn condition(kind: &str) -> Condition {
    Condition {
        kind: kind.into(),
        status: "True".into(),
        reason: "Ready".into(),
        message: "all is well".into(),
        last_transition_time: Some("2026-11-21T10:00:00Z".parse().unwrap()),
    }
}

fn at(ip: &str) -> Ingress {
    Ingress {
        ip: ip.into(),
        ..Ingress::default()
    }
}

#[tokio::test(start_paused = true)]
async fn one_patch_writes_all_and_the_store_has_it_before_the_watch() {
    let rig = Rig::start().await;
    rig.changes.lock().clear();
    let written = rig.write(&rig.full()).await.unwrap().unwrap();
    assert_eq!(rig.held(), written);
    let live: ServiceView = serde_json::from_value(rig.live()).unwrap();
    assert_eq!(*written, live);
    assert!(live.has_finalizer() && live.condition("x/A").is_some());
    assert_eq!(live.ingress[0].ip_mode.as_deref(), Some("VIP"));
    assert_eq!(live.annotations.get("example.com/a"), Some("1"));
    assert_eq!(rig.cluster.log(), [STATUS]);
    sleep(PATIENCE / 10).await;
    // The watch brought nothing new.
    assert_eq!(*rig.changes.lock(), [""; 0]);

    let undo = StatusPatch {
        finalizer: Some(FinalizerChange::Remove),
        annotations: vec![("example.com/a".into(), None)],
        conditions: vec![ConditionChange::Remove("x/A".into())],
        ingress: Some([].into()),
        ..rig.patch()
    };
    let written = rig.write(&undo).await.unwrap().unwrap();
    assert!(!written.has_finalizer() && written.annotations.is_empty());
    assert!(written.conditions.is_empty() && written.ingress.is_empty());
    rig.in_step().await;
    assert_eq!(*rig.changes.lock(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_to_what_is_gone_or_another_of_the_same_name() {
    let rig = Rig::start().await;
    let (service_then, patch) = (rig.held(), rig.full());
    rig.cluster.delete_service(KEY);
    assert_eq!(rig.writer.write(&service_then, &patch).await.unwrap(), None);
    rig.cluster.create_service(service("web"));
    let before = rig.live();
    assert_eq!(rig.writer.write(&service_then, &patch).await.unwrap(), None);
    assert_eq!(rig.writer.read(&service_then).await.unwrap(), None);
    assert_eq!(rig.live(), before);
    rig.in_step().await;
    assert_ne!(rig.held().uid, service_then.uid);
}

#[tokio::test(start_paused = true)]
async fn after_a_refusal_the_store_knows_why() {
    let mut rig = Rig::start().await;
    rig.write(&rig.full()).await.unwrap().unwrap();
    let refused = [
        |service: &mut Value| service["spec"]["type"] = json!("ClusterIP"),
        |service: &mut Value| {
            service["metadata"]["finalizers"] = json!(["example.com/other"]);
            service["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
        },
    ];
    // No watch helps.
    rig.tasks.shutdown().await;
    for (change, text) in refused
        .into_iter()
        .zip(["may only be used", "no new finalizers"])
    {
        rig.changes.lock().clear();
        let patch = StatusPatch {
            ingress: Some([at("192.0.2.8")].into()),
            ..rig.full()
        };
        rig.cluster.before_next_patch(change);
        let error = rig.write(&patch).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Conflict);
        assert!(error.to_string().contains(text), "{error}");
        rig.in_step().await;
        assert_eq!(*rig.changes.lock(), ["updated"]);
        rig.cluster.change_service(KEY, |service| {
            service["spec"]["type"] = json!("LoadBalancer");
        });
        rig.writer.read(&rig.held()).await.unwrap().unwrap();
    }
    let held = rig.held();
    assert!(held.deleted.is_some() && !held.has_finalizer());
}

/// It may arrive late: from a process that was killed, by a proxy that tried again.
#[tokio::test(start_paused = true)]
async fn the_finalizer_is_taken_from_nothing_but_what_was_decided_upon() {
    let rig = Rig::start().await;
    rig.write(&rig.full()).await.unwrap().unwrap();
    let patch = StatusPatch {
        finalizer: Some(FinalizerChange::Remove),
        ..rig.patch()
    };
    rig.cluster.before_next_patch(|service| {
        service["spec"]["ports"][0]["port"] = json!(81);
    });
    let error = rig.write(&patch).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert!(rig.held().has_finalizer());
    assert_eq!(
        rig.held().spec.ports[0].port,
        81,
        "the writer must decide again"
    );
    rig.write(&patch).await.unwrap().unwrap();
    rig.in_step().await;
    assert!(!rig.held().has_finalizer());
}

/// It may have been written.
#[tokio::test(start_paused = true)]
async fn other_errors_are_handed_on() {
    let rig = Rig::start().await;
    rig.cluster.refuse("/status", 503, 1);
    let error = rig.write(&rig.full()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Transient);
    assert_eq!(rig.cluster.log(), [STATUS]);
    rig.cluster.refuse("/services/web", 500, 2);
    assert!(rig.writer.read(&rig.held()).await.is_err());
    // A write whose object cannot be read after a refusal is refused all the same.
    rig.cluster.refuse("/status", 409, 1);
    let error = rig.write(&rig.full()).await.unwrap_err();
    assert_eq!(
        error.class(),
        ErrorClass::Transient,
        "the one that was left"
    );
    let error = rig.write(&rig.full()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert_eq!(rig.cluster.log(), [STATUS, READ, STATUS, STATUS, READ]);
    rig.write(&rig.full()).await.unwrap().unwrap();
}
