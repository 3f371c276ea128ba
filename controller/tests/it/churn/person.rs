//! A user who makes a Service, changes it, deletes it, and has second thoughts.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
    },
};
use outrigger_core::service::{
    ANNOTATION_PAUSED, ANNOTATION_RESYNC, FINALIZER, TYPE_LOAD_BALANCER,
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    HELD, LAST_TIME, OTHER_CLASS,
    agreement::{has_finalizer, typed},
    journal::Journal,
    ledger::Ledger,
    plan::{Act, Shape, What},
};

/// How long to wait until a name can be used again.
const FREE: Duration = Duration::from_secs(5);

const SOON: Duration = Duration::from_millis(50);

/// One operator and one Service, which does one thing after the other.
pub(super) struct Person {
    name: String,
    /// Without types, which may not have what others write.
    services: Api<DynamicObject>,
    journal: Arc<Journal>,
    ledger: Ledger,
    /// True while an API server runs. An API server that starts while many clients create Services fails to
    /// repair its allocations of ports, and ends.
    api_server: watch::Receiver<bool>,
    /// Our finalizer was taken away and not seen again since. A deletion of the Service then, or a
    /// change of its type, while no controller runs, orphans the load balancer: that is what a
    /// finalizer is for, and no drill can ask for the contrary.
    stripped: bool,
    /// How many changes the API server took.
    pub(super) done: usize,
}

/// Why a request came to nothing: the code of the answer.
type Refused = u16;

impl Person {
    pub(super) fn new(
        client: &Client,
        namespace: &str,
        number: usize,
        journal: &Arc<Journal>,
        ledger: &Ledger,
        api_server: &watch::Receiver<bool>,
    ) -> Self {
        let kind = ApiResource::erase::<Service>(&());
        Self {
            name: format!("web-{number}"),
            services: Api::namespaced_with(client.clone(), namespace, &kind),
            journal: Arc::clone(journal),
            ledger: ledger.clone(),
            api_server: api_server.clone(),
            stripped: false,
            done: 0,
        }
    }

    /// Does one thing after the other until it is `over`.
    pub(super) async fn live(
        mut self,
        acts: impl Iterator<Item = Act>,
        over: CancellationToken,
    ) -> Self {
        for act in acts {
            if over.run_until_cancelled(sleep(act.pause)).await.is_none() {
                break;
            }
            let result = self.act(&act).await;
            self.done += usize::from(result.is_ok());
            let result = result.map_or_else(|why| why, |()| "done".to_owned());
            let (name, what) = (&self.name, act.what);
            self.journal.note(&format!("{name}: {what:?}: {result}"));
        }
        self
    }

    async fn act(&mut self, act: &Act) -> Result<(), String> {
        let refused = |code: Refused| format!("refused with {code}");
        let Some(service) = self.get().await else {
            return self
                .create(&act.shape.service(&self.name))
                .await
                .map_err(refused);
        };
        if service.metadata.deletion_timestamp.is_some() {
            self.release(&service).await;
            // Nothing is done for what is held: it would never go.
            return match act.what {
                What::Resume => self.resume().await.map_err(refused),
                _ => Err("it is being deleted".to_owned()),
            };
        }
        if has_finalizer(&service) {
            self.stripped = false;
        }
        let is_final = matches!(
            act.what,
            What::Retype | What::Delete | What::Recreate | What::Copy
        );
        if self.stripped && is_final {
            return Err("its finalizer is not back".to_owned());
        }
        let Shape {
            kind,
            ports,
            source_ranges,
            annotations,
            policy,
            ..
        } = &act.shape;
        let changed = match act.what {
            What::Ports => self.change(json!({"spec": {"ports": ports}})).await,
            What::SourceRanges => {
                let change = json!({"spec": {"loadBalancerSourceRanges": source_ranges}});
                self.change(change).await
            }
            What::Annotations => self.annotate(annotations).await,
            What::Policy => {
                let change = json!({"spec": {"externalTrafficPolicy": policy}});
                self.change(change).await
            }
            What::Retype => self.retype(&service, kind).await,
            What::Delete => self.delete(&service).await,
            What::Recreate => {
                let next = act.shape.service(&self.name);
                self.recreate(&service, &next).await
            }
            What::Copy => self.recreate(&service, &copy(&service)).await,
            What::Strip => return self.strip(&service).await,
            What::Pause => self.annotate(&json!({ANNOTATION_PAUSED: "true"})).await,
            What::Resume => self.resume().await,
            What::Resync => {
                let value = fastrand::u32(..).to_string();
                self.annotate(&json!({ANNOTATION_RESYNC: value})).await
            }
            What::Odd => self.write_odd_condition().await,
        };
        changed.map_err(refused)
    }

    async fn retype(&self, service: &Service, kind: &str) -> Result<(), Refused> {
        // To and fro, so that it is always another.
        let is = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
        let kind = match (is, kind) {
            (Some(TYPE_LOAD_BALANCER), TYPE_LOAD_BALANCER) => "ClusterIP",
            (Some(TYPE_LOAD_BALANCER), kind) => kind,
            _ => TYPE_LOAD_BALANCER,
        };
        if is == Some(TYPE_LOAD_BALANCER) {
            self.ledger.release(uid(service));
        }
        // The API server drops the rest of what has no meaning any more.
        let change = json!({"spec": {"type": kind, "loadBalancerSourceRanges": null}});
        self.change(change).await
    }

    async fn recreate(&self, service: &Service, next: &Value) -> Result<(), Refused> {
        self.delete(service).await?;
        let end = Instant::now() + FREE;
        loop {
            match self.create(next).await {
                Err(409) if Instant::now() < end => {}
                result => return result,
            }
            if let Some(service) = self.get().await {
                self.release(&service).await;
            }
            sleep(SOON).await;
        }
    }

    async fn strip(&mut self, service: &Service) -> Result<(), String> {
        let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
        if kind != Some(TYPE_LOAD_BALANCER) || !has_finalizer(service) {
            return Err("it has none".to_owned());
        }
        // Once its class is another controller's, ours does not put it back, and a lost record is the only other trace.
        let spec = service.spec.as_ref();
        if spec.and_then(|spec| spec.load_balancer_class.as_deref()) == Some(OTHER_CLASS) {
            return Err("its class may be another controller's".to_owned());
        }
        // Before it is known: the answer may be lost.
        self.stripped = true;
        let stripped = self.without(service, FINALIZER).await;
        stripped.map_err(|code| format!("refused with {code}"))
    }

    /// A condition as Go writes it, with the last second that it can write.
    async fn write_odd_condition(&self) -> Result<(), Refused> {
        let change = json!({"status": {"conditions": [{
            "type": "drill.example/Odd",
            "status": "Perhaps",
            "reason": "Odd",
            "message": "",
            "lastTransitionTime": LAST_TIME,
        }]}});
        let (parameters, change) = (PatchParams::default(), Patch::Strategic(change));
        let patched = self.ask(|| self.services.patch_status(&self.name, &parameters, &change));
        patched.await.map(drop)
    }

    /// No pause and no other finalizer is left: paused Services go on, deleted ones may go.
    pub(super) async fn unblock(&self) {
        let Some(service) = self.get().await else {
            return;
        };
        if service.metadata.deletion_timestamp.is_some() {
            self.release(&service).await;
        }
        let annotations = service.metadata.annotations.iter().flatten();
        if annotations
            .into_iter()
            .any(|(key, _)| key == ANNOTATION_PAUSED)
        {
            let _ = self.resume().await;
        }
    }

    /// Deletes it for good.
    pub(super) async fn leave(&self) {
        if let Some(service) = self.get().await {
            let _ = self.delete(&service).await;
        }
    }

    /// Removes the other finalizer once ours is gone.
    async fn release(&self, service: &Service) {
        if !has_finalizer(service) && finalizers(service).any(|name| name == HELD) {
            let _ = self.without(service, HELD).await;
        }
    }

    async fn without(&self, service: &Service, finalizer: &str) -> Result<(), Refused> {
        let left: Vec<_> = finalizers(service)
            .filter(|name| *name != finalizer)
            .collect();
        self.change(json!({"metadata": {
            "resourceVersion": service.metadata.resource_version,
            "finalizers": left,
        }}))
        .await
    }

    async fn resume(&self) -> Result<(), Refused> {
        self.annotate(&json!({ANNOTATION_PAUSED: null})).await
    }

    async fn annotate(&self, annotations: &Value) -> Result<(), Refused> {
        self.change(json!({"metadata": {"annotations": annotations}}))
            .await
    }

    async fn change(&self, change: Value) -> Result<(), Refused> {
        let (parameters, change) = (PatchParams::default(), Patch::Merge(change));
        let patched = self.ask(|| self.services.patch(&self.name, &parameters, &change));
        patched.await.map(drop)
    }

    async fn create(&self, service: &Value) -> Result<(), Refused> {
        let service: DynamicObject = serde_json::from_value(service.clone()).unwrap();
        let parameters = PostParams::default();
        let created = self.ask(|| self.services.create(&parameters, &service));
        created.await.map(drop)
    }

    /// The API server looks for finalizers before it deletes, not while it does: one that comes
    /// between holds nothing. In one that is starting it may be seconds later.
    async fn delete(&self, service: &Service) -> Result<(), Refused> {
        self.ledger.release(uid(service));
        let version = service.metadata.resource_version.clone();
        let preconditions = (!has_finalizer(service)).then_some(Preconditions {
            resource_version: version,
            uid: None,
        });
        let parameters = DeleteParams {
            preconditions,
            ..DeleteParams::default()
        };
        let deleted = self.ask(|| self.services.delete(&self.name, &parameters));
        deleted.await.map(drop)
    }

    async fn get(&self) -> Option<Service> {
        let service = self.ask(|| self.services.get_opt(&self.name)).await;
        service.ok().flatten().map(typed)
    }

    /// Asks again while there is no API server.
    async fn ask<T, A: Future<Output = kube::Result<T>>>(
        &self,
        request: impl Fn() -> A,
    ) -> Result<T, Refused> {
        const ANSWER: Duration = Duration::from_secs(10);
        let mut api_server = self.api_server.clone();
        loop {
            api_server.wait_for(|is_there| *is_there).await.unwrap();
            match timeout(ANSWER, request()).await {
                Ok(Ok(answer)) => return Ok(answer),
                // It is ending, or starting.
                Ok(Err(kube::Error::Api(status))) if status.code >= 500 || status.code == 429 => {}
                Ok(Err(kube::Error::Api(status))) => return Err(status.code),
                Ok(Err(_)) | Err(_) => {}
            }
            sleep(SOON).await;
        }
    }
}

fn uid(service: &Service) -> &str {
    service.metadata.uid.as_deref().unwrap()
}

fn finalizers(service: &Service) -> impl Iterator<Item = &str> {
    let finalizers = service.metadata.finalizers.iter().flatten();
    finalizers.map(String::as_str)
}

/// A manifest that was read and is applied again, annotations and finalizers included, without what
/// would be refused.
fn copy(service: &Service) -> Value {
    let mut spec = service.spec.clone().unwrap_or_default();
    (spec.cluster_ip, spec.cluster_ips) = (None, None);
    spec.health_check_node_port = None;
    for port in spec.ports.iter_mut().flatten() {
        port.node_port = None;
    }
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service.metadata.name,
            "annotations": service.metadata.annotations,
            "finalizers": service.metadata.finalizers,
        },
        "spec": spec,
    })
}
