//! Writes to Services, against the API server's own rules, with the rights of `docs/rbac.md`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use outrigger_core::{
    condition::{Condition, ConditionChange},
    error_class::ErrorClass,
    service::{
        Ingress, ServiceView,
        patch_plan::{FinalizerChange, StatusPatch},
    },
};
use outrigger_kubernetes::{
    api::Api as Requests,
    error::ApiError,
    services::ServiceWriter,
    store::{Origin, Store},
};
use serde_json::{Value, json};

use crate::{cluster::Cluster, plane::USER};

const OTHER: &str = "example.com/other";

/// A Service, and a writer that may do what is documented.
struct Desk {
    services: Api<Service>,
    writer: ServiceWriter,
    view: Arc<ServiceView>,
    _cluster: Cluster,
}

impl Desk {
    async fn with(name: &str) -> Self {
        let cluster = Cluster::take().await;
        let services: Api<Service> = Api::namespaced(cluster.admin(), "default");
        let service = json!({
            "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        });
        let service = serde_json::from_value(service).unwrap();
        services
            .create(&PostParams::default(), &service)
            .await
            .unwrap();
        let store = Arc::new(Store::default());
        let client = cluster.plane.client_of(USER, None).unwrap();
        let mut this = Self {
            services,
            writer: ServiceWriter::new(Requests::new(client), Arc::clone(&store)),
            view: serde_json::from_value(
                json!({"metadata": {"name": name, "namespace": "default"}}),
            )
            .unwrap(),
            _cluster: cluster,
        };
        let live = this.live().await;
        store.apply(ServiceView::clone(&live), Origin::List);
        this.view = live;
        this
    }

    async fn object(&self) -> Value {
        let service = self.services.get(self.view.name()).await.unwrap();
        serde_json::to_value(service).unwrap()
    }

    async fn live(&self) -> Arc<ServiceView> {
        Arc::new(serde_json::from_value(self.object().await).unwrap())
    }

    /// Another client changes it, anything but its status.
    async fn change(&self, change: &Value) {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(change));
        let services = &self.services;
        let changed = services.patch(self.view.name(), &parameters, &patch).await;
        changed.unwrap();
    }

    async fn delete(&self) {
        let parameters = DeleteParams::default();
        self.services
            .delete(self.view.name(), &parameters)
            .await
            .unwrap();
    }

    fn patch(&self) -> StatusPatch {
        StatusPatch {
            uid: self.view.uid.clone(),
            finalizer: None,
            annotations: Vec::new(),
            conditions: Vec::new(),
            ingress: None,
        }
    }

    /// Planned on the Service as it was at the beginning.
    async fn write(&self, patch: &StatusPatch) -> Result<Option<Arc<ServiceView>>, ApiError> {
        self.writer.write(&self.view, patch).await
    }

    /// Planned on the Service as it is now.
    async fn write_now(&self, patch: &StatusPatch) -> Result<Option<Arc<ServiceView>>, ApiError> {
        self.writer.write(&self.live().await, patch).await
    }
}

fn condition(kind: &str, status: &str) -> Condition {
    Condition {
        kind: kind.into(),
        status: status.into(),
        reason: "Tested".into(),
        message: "by a test".into(),
        last_transition_time: Some("2026-11-21T10:00:00Z".parse().unwrap()),
    }
}

fn at(ip: &str, mode: Option<&str>) -> Ingress {
    Ingress {
        ip: ip.into(),
        ip_mode: mode.map(Into::into),
        ..Ingress::default()
    }
}

/// S-4, S-39, S-70, S-71.
#[tokio::test]
async fn the_store_after_a_write_equals_the_api_server() {
    let desk = Desk::with("written").await;
    let named = Ingress {
        hostname: "lb.example.com".into(),
        ..Ingress::default()
    };
    let first = StatusPatch {
        finalizer: Some(FinalizerChange::Add),
        annotations: vec![("example.com/a".into(), Some("1".into()))],
        conditions: vec![
            ConditionChange::Set(condition("x/A", "True")),
            ConditionChange::Set(condition("x/B", "False")),
        ],
        ingress: Some([at("192.0.2.7", None), at("192.0.2.8", Some("Proxy")), named].into()),
        ..desk.patch()
    };
    let written = desk.write(&first).await.unwrap().unwrap();
    assert_eq!(written, desk.live().await);
    let modes = written.ingress.iter().map(|entry| entry.ip_mode.as_deref());
    assert_eq!(
        modes.collect::<Vec<_>>(),
        [Some("VIP"), Some("Proxy"), None]
    );

    // Conditions merge by type, in whatever order they are planned, and each goes alone.
    let second = StatusPatch {
        annotations: vec![("example.com/a".into(), None)],
        conditions: vec![
            ConditionChange::Set(condition("x/D", "True")),
            ConditionChange::Remove("x/A".into()),
            ConditionChange::Set(condition("x/C", "True")),
            ConditionChange::Set(condition("x/B", "True")),
        ],
        ingress: Some([at("2001:db8::7", None)].into()),
        ..desk.patch()
    };
    let written = desk.write(&second).await.unwrap().unwrap();
    assert_eq!(written, desk.live().await);
    assert_eq!(written.conditions.len(), 3);

    let last = StatusPatch {
        finalizer: Some(FinalizerChange::Remove),
        conditions: ["x/D", "x/B", "x/C"]
            .map(|kind| ConditionChange::Remove(kind.into()))
            .into(),
        ingress: Some([].into()),
        ..desk.patch()
    };
    let written = desk.write_now(&last).await.unwrap().unwrap();
    assert_eq!(written, desk.live().await);
    let object = desk.object().await;
    assert_eq!(object["status"], json!({"loadBalancer": {}}));
    assert!(object["metadata"]["finalizers"].is_null(), "{object}");
    desk.delete().await;
}

/// S-46.
#[tokio::test]
async fn concurrent_writes_of_others_to_a_service_stay() {
    let desk = Desk::with("shared").await;
    desk.change(&json!({"metadata": {"finalizers": [OTHER], "annotations": {OTHER: "1"}}}))
        .await;
    let theirs = Patch::Merge(json!({"status": {"conditions": [{
        "type": OTHER, "status": "True", "reason": "Theirs", "message": "",
        "lastTransitionTime": "2026-11-21T09:00:00Z",
    }]}}));
    let (services, parameters) = (&desk.services, PatchParams::default());
    let changed = services.patch_status("shared", &parameters, &theirs).await;
    changed.unwrap();
    let add = StatusPatch {
        finalizer: Some(FinalizerChange::Add),
        annotations: vec![("example.com/a".into(), Some("1".into()))],
        conditions: vec![ConditionChange::Set(condition("x/A", "True"))],
        ingress: Some([at("192.0.2.7", None)].into()),
        ..desk.patch()
    };
    desk.write(&add).await.unwrap().unwrap();
    let live = desk.live().await;
    assert!(live.has_finalizer() && live.condition("x/A").is_some());
    assert_eq!(
        (
            live.finalizers.len(),
            live.annotations.len(),
            live.conditions.len()
        ),
        (2, 2, 2)
    );

    let remove = StatusPatch {
        finalizer: Some(FinalizerChange::Remove),
        annotations: vec![("example.com/a".into(), None)],
        conditions: vec![ConditionChange::Remove("x/A".into())],
        ingress: Some([].into()),
        ..desk.patch()
    };
    // It was decided upon something else.
    let error = desk.write(&remove).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert!(desk.live().await.has_finalizer());
    desk.write_now(&remove).await.unwrap().unwrap();
    let live = desk.live().await;
    assert_eq!(*live.finalizers, [OTHER.into()]);
    assert_eq!(live.annotations.get(OTHER), Some("1"));
    let condition = live.condition(OTHER).unwrap();
    assert_eq!((&*condition.reason, live.conditions.len()), ("Theirs", 1));
    desk.change(&json!({"metadata": {"finalizers": null}}))
        .await;
    desk.delete().await;
}

/// S-38.
#[tokio::test]
async fn a_refusal_of_the_api_server_has_its_words() {
    let desk = Desk::with("refused").await;
    for (ingress, expected) in [
        (
            at("nonsense", None),
            "Service \"refused\" is invalid: status.loadBalancer.ingress[0].ip: Invalid value: \
             \"nonsense\": must be a valid IP address",
        ),
        (
            Ingress {
                hostname: "lb.example.com".into(),
                ..at("", Some("VIP"))
            },
            "Service \"refused\" is invalid: status.loadBalancer.ingress[0].ipMode: Forbidden: may \
             not be specified when `ip` is not set",
        ),
    ] {
        let patch = StatusPatch {
            ingress: Some([ingress].into()),
            ..desk.patch()
        };
        let error = desk.write(&patch).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Invalid);
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    // The Service has got another type meanwhile: a new plan helps.
    desk.change(&json!({"spec": {"type": "ClusterIP"}})).await;
    let patch = StatusPatch {
        ingress: Some([at("192.0.2.7", None)].into()),
        ..desk.patch()
    };
    let error = desk.write(&patch).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict, "{error}");
    desk.delete().await;
}
