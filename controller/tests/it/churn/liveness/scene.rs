//! The means of all faults: the clients of cluster and cloud, and the record of what they change.

use std::{collections::HashMap, sync::Arc, time::Duration};

use fastrand::Rng;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use outrigger_provider_mock::{
    control::{self, InjectFault, operations::SET_FAULT},
    faults::Fault as CallFault,
};
use outrigger_testbed::{
    dead_way::DeadWay,
    nodes::{self, Machine},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    super::{agreement::View, journal::Journal, ledger::Ledger},
    fault::Fault,
    plan::Plan,
    rule::Goal,
};
use crate::{plane::USER, stage::Stage};

/// Clones share all of it.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) view: View,
    pub(super) journal: Arc<Journal>,
    pub(super) record: Record,
    pub(super) way: Arc<DeadWay>,
    pub(super) client: Client,
    /// A client that acts as the controller, for requests that a policy has to refuse.
    pub(super) as_controller: Client,
    pub(super) services: Api<Service>,
    pub(super) nodes: Api<Node>,
    pub(super) families: usize,
    /// True if lookups are served one after the other.
    pub(super) is_slow: bool,
    /// How long a Service may wait for its load balancer.
    pub(super) served: Duration,
    ledger: Ledger,
    cloud: control::Client,
}

impl Scene {
    pub(super) fn new(
        stage: &Stage,
        way: DeadWay,
        view: &View,
        ledger: &Ledger,
        journal: &Arc<Journal>,
        plan: &Plan,
    ) -> Self {
        let client = stage.admin();
        Self {
            view: view.clone(),
            journal: Arc::clone(journal),
            record: Record::default(),
            way: Arc::new(way),
            as_controller: stage.plane.client_of(USER, None).unwrap(),
            services: Api::namespaced(client.clone(), &view.namespace),
            nodes: Api::all(client.clone()),
            client,
            families: plan.cluster_cidrs().len(),
            is_slow: plan.has(Fault::SlowLookups),
            served: plan.served(),
            ledger: ledger.clone(),
            cloud: control::Client::new(stage.dir().join("provider.sock.ctl")),
        }
    }

    /// The name that the mock has for a Service.
    pub(super) fn named(&self, service: &str) -> String {
        format!("{}/{service}", self.view.namespace)
    }

    pub(super) async fn inject(&self, fault: CallFault) {
        let fault = InjectFault { fault, add: true };
        self.cloud.ask(SET_FAULT, &fault).await.unwrap();
    }

    pub(super) async fn create_service(&self, name: &str) {
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": name}},
        });
        self.changed(name, "is made");
        let service = serde_json::from_value(service).unwrap();
        let made = self.services.create(&PostParams::default(), &service).await;
        made.unwrap();
    }

    /// Gives it another port.
    pub(super) async fn edit_service(&self, name: &str) {
        self.changed(name, "is edited");
        let port = fastrand::u16(1_000..9_000);
        let change = json!({"spec": {"ports": [{"port": port}]}});
        let (parameters, change) = (PatchParams::default(), Patch::Merge(change));
        let edited = self.services.patch(name, &parameters, &change).await;
        edited.unwrap();
    }

    pub(super) async fn delete_service(&self, name: &str) {
        self.changed(name, "is deleted");
        let service = self.services.get(name).await.unwrap();
        self.ledger
            .release(service.metadata.uid.as_deref().unwrap());
        let deleted = self.services.delete(name, &DeleteParams::default()).await;
        deleted.unwrap();
    }

    pub(super) async fn delete_services(&self) {
        let all = self.services.list(&kube::api::ListParams::default()).await;
        for service in all.unwrap() {
            if service.metadata.deletion_timestamp.is_none() {
                self.delete_service(&service.metadata.name.unwrap()).await;
            }
        }
    }

    /// Registers Nodes at one moment.
    pub(super) async fn register(&self, names: impl IntoIterator<Item = String>) {
        let machines = names.into_iter().map(|name| {
            self.changed(&name, "registers");
            Machine::new(name)
        });
        let machines: Vec<_> = machines.collect();
        let load = nodes::Load::default();
        nodes::register_all(&self.client, machines, load, |_| {})
            .await
            .unwrap();
    }

    pub(super) async fn delete_node(&self, name: &str) {
        self.changed(name, "is deleted");
        let node = self.nodes.get(name).await.unwrap();
        self.ledger
            .delete_node(node.metadata.uid.as_deref().unwrap());
        let deleted = self.nodes.delete(name, &DeleteParams::default()).await;
        deleted.unwrap();
    }

    pub(super) async fn change_node(&self, name: &str, change: Value) {
        self.changed(name, &format!("gets {change}"));
        let (parameters, change) = (PatchParams::default(), Patch::Strategic(change));
        self.nodes.patch(name, &parameters, &change).await.unwrap();
    }

    /// Acts as a kubelet that reports another address.
    pub(super) async fn readdress(&self, name: &str, address: &str) {
        self.changed(name, &format!("has the address {address}"));
        let addresses = json!([{"type": "InternalIP", "address": address}]);
        let change = Patch::Merge(json!({"status": {"addresses": addresses}}));
        let parameters = PatchParams::default();
        let changed = self.nodes.patch_status(name, &parameters, &change).await;
        changed.unwrap();
    }

    /// Other users edit Services that no fault is about, as long as it is asked for.
    pub(super) async fn edit_all_the_time(&self, plan: &Plan) {
        let mut random = Rng::with_seed(plan.seed);
        loop {
            sleep(Duration::from_millis(random.u64(1_000..4_000))).await;
            let number = random.usize(plan.services / 2..plan.services);
            self.edit_service(&format!("web-{number}")).await;
        }
    }

    /// Starts the bounds of the object again. Call it before the change.
    pub(super) fn changed(&self, name: &str, what: &str) {
        self.journal.note(&format!("{name} {what}"));
        let mut facts = self.record.0.lock();
        facts.changed.insert(name.to_owned(), Instant::now());
    }
}

/// When each object was changed last, and the faults that concern it. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Record(Arc<Mutex<Facts>>);

#[derive(Default)]
struct Facts {
    changed: HashMap<String, Instant>,
    targets_changed: Option<Instant>,
    concerns: Vec<Concern>,
}

type IsAbout = Box<dyn Fn(Goal, &str) -> bool + Send>;

/// A fault that excuses some objects.
struct Concern {
    since: Instant,
    until: Option<Instant>,
    is_about: IsAbout,
}

impl Record {
    /// The bounds count after this time.
    pub(super) fn begin(&self, after: Duration) {
        self.concern(Some(after), |_, _| true);
    }

    /// The Nodes that load balancers shall send to are others.
    pub(super) fn change_targets(&self) {
        self.0.lock().targets_changed = Some(Instant::now());
    }

    /// Excuses the goals that a fault concerns: for a time, or until the faults end.
    pub(super) fn concern(
        &self,
        time: Option<Duration>,
        is_about: impl Fn(Goal, &str) -> bool + Send + 'static,
    ) {
        let since = Instant::now();
        self.0.lock().concerns.push(Concern {
            since,
            until: time.map(|time| since + time),
            is_about: Box::new(is_about),
        });
    }

    /// The faults end. The next attempt comes at most as much later as they went on: each wait is at most as
    /// long as all before it.
    pub(super) fn release_all(&self) {
        let now = Instant::now();
        for concern in &mut self.0.lock().concerns {
            concern.until.get_or_insert(now + (now - concern.since));
        }
    }

    /// From when on the bound counts; `None`: from the first sight.
    pub(super) fn begun(&self, goal: Goal, name: &str) -> Option<Instant> {
        let facts = self.0.lock();
        let concerns = facts.concerns.iter();
        let concerns = concerns.filter(|concern| (concern.is_about)(goal, name));
        let until = concerns
            .map(|concern| concern.until.unwrap_or_else(Instant::now))
            .max();
        let of_targets = (goal == Goal::Targets).then_some(facts.targets_changed);
        let changed = facts.changed.get(name).copied();
        until.max(changed).max(of_targets.flatten())
    }
}
