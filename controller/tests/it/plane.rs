//! A control plane for one test after the other: starting one takes seconds, tidying up does not.

use std::{
    ops::Deref,
    sync::LazyLock,
    thread::{available_parallelism, panicking},
};

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use outrigger_testbed::{ControlPlane, Options, nodes};
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::wait::{holds, until};

/// Who the controller is to the API server. It may do what its documentation says it must, and
/// nothing else.
pub(crate) const USER: &str = "cloud-controller-manager";

/// More at a time would only make all of them slow.
static PLACES: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(2, usize::from).clamp(1, 4)));

static IDLE: parking_lot::Mutex<Vec<ControlPlane>> = parking_lot::Mutex::new(Vec::new());

/// One starts at a time.
static STARTING: Mutex<()> = Mutex::const_new(());

/// A control plane without nodes that belongs to one test until it is dropped.
pub(crate) struct Plane {
    plane: Option<ControlPlane>,
    _place: SemaphorePermit<'static>,
}

impl Plane {
    pub(crate) async fn take() -> Self {
        let place = PLACES.acquire().await.unwrap();
        let idle = IDLE.lock().pop();
        let plane = match idle {
            Some(plane) => plane,
            None => start().await,
        };
        let client = plane.client().unwrap();
        let left = nodes::names(&client, "").await.unwrap();
        nodes::delete_all(&client, left, nodes::Load::default(), |_| {})
            .await
            .unwrap();
        Self {
            plane: Some(plane),
            _place: place,
        }
    }
}

impl Deref for Plane {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.plane.as_ref().unwrap()
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        // A test that fails may leave it without its API server.
        if !panicking() {
            IDLE.lock().extend(self.plane.take());
        }
    }
}

async fn start() -> ControlPlane {
    let _alone = STARTING.lock().await;
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.client().unwrap();
    grant(&client, USER, USER).await;
    let controller = plane.client_of(USER, None).unwrap();
    until("the controller's rights", async || {
        for (verb, resource, subresource) in [
            ("patch", "nodes", ""),
            ("patch", "nodes", "status"),
            ("create", "events", ""),
        ] {
            let allowed = may(&controller, verb, resource, subresource).await;
            holds(allowed, || {
                format!("may not {verb} {resource}/{subresource}")
            })?;
        }
        Ok(())
    })
    .await;
    plane
}

/// Gives `user` the rights that initialising nodes takes.
pub(crate) async fn grant(client: &Client, user: &str, name: &str) {
    let rule = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": [""], "resources": resources, "verbs": verbs});
    let mut system = rule(&["namespaces"], &["get"]);
    system["resourceNames"] = json!(["kube-system"]);
    let role = json!({
        "metadata": {"name": name},
        "rules": [
            rule(&["nodes"], &["get", "list", "watch", "patch"]),
            rule(&["nodes/status"], &["patch"]),
            rule(&["events"], &["create", "patch"]),
            system,
        ],
    });
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    });
    create(client, "ClusterRole", role).await;
    create(client, "ClusterRoleBinding", binding).await;
}

/// Takes them away again.
pub(crate) async fn revoke(client: &Client, name: &str) {
    for kind in ["ClusterRoleBinding", "ClusterRole"] {
        let deleted = rbac(client, kind)
            .delete(name, &DeleteParams::default())
            .await;
        deleted.unwrap();
    }
}

fn rbac(client: &Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

async fn create(client: &Client, kind: &str, object: Value) {
    let api = rbac(client, kind);
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

async fn may(client: &Client, verb: &str, resource: &str, subresource: &str) -> bool {
    let review = json!({"metadata": {}, "spec": {"resourceAttributes": {
        "verb": verb, "resource": resource, "subresource": subresource, "namespace": "",
    }}});
    let review: SelfSubjectAccessReview = serde_json::from_value(review).unwrap();
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    answer.unwrap().status.is_some_and(|status| status.allowed)
}
