//! A control plane for one test after the other: starting one takes seconds, tidying up does not.

use std::{
    env,
    ops::Deref,
    sync::LazyLock,
    thread::{available_parallelism, panicking},
};

use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration,
    certificates::v1::CertificateSigningRequest,
    coordination::v1::Lease,
    core::v1::{PersistentVolume, Service},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use outrigger_testbed::{ControlPlane, Options, nodes};
use serde_json::json;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

use crate::rights::{ALWAYS, Rights};

/// The controller's identity at the API server. It may do what its documentation says it must, and
/// nothing else.
pub(crate) const USER: &str = "system:serviceaccount:kube-system:cloud-controller-manager";

/// Names of Leases that controllers take.
const LEASES: [&str; 1] = ["cloud-controller-manager"];

/// More at a time would only make all of them slow, unless most of them wait: `OUTRIGGER_TEST_PLANES`.
static PLACES: LazyLock<Semaphore> = LazyLock::new(|| {
    let number = env::var("OUTRIGGER_TEST_PLANES").ok();
    let usual = || available_parallelism().map_or(2, usize::from).clamp(1, 4);
    Semaphore::new(number.map_or_else(usual, |number| number.parse().unwrap()))
});

static IDLE: parking_lot::Mutex<Vec<ControlPlane>> = parking_lot::Mutex::new(Vec::new());

/// One starts at a time.
static STARTING: Mutex<()> = Mutex::const_new(());

/// A control plane without nodes, Services and volumes that belongs to one test until it is dropped.
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
        delete_services(&client).await;
        delete_webhooks(&client).await;
        delete_volumes(&client).await;
        delete_csrs(&client).await;
        // A holder that was killed would keep the next one out until the Lease expires.
        let leases: Api<Lease> = Api::namespaced(client, "kube-system");
        for name in LEASES {
            let _ = leases.delete(name, &DeleteParams::default()).await;
        }
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

/// Removes finalizers too: no controller is left for that.
async fn delete_services(client: &Client) {
    let all: Api<Service> = Api::all(client.clone());
    for service in all.list(&ListParams::default()).await.unwrap() {
        let (name, namespace) = (service.metadata.name.unwrap(), service.metadata.namespace);
        if name == "kubernetes" {
            continue;
        }
        let services: Api<Service> = Api::namespaced(client.clone(), &namespace.unwrap());
        let _ = services.delete(&name, &DeleteParams::default()).await;
        let strip = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = services.patch(&name, &PatchParams::default(), &strip).await;
    }
}

/// Deletes the webhooks: one that is not served any more would refuse volumes.
async fn delete_webhooks(client: &Client) {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let (parameters, all) = (DeleteParams::default(), ListParams::default());
    let deleted = configurations.delete_collection(&parameters, &all).await;
    deleted.unwrap();
}

async fn delete_volumes(client: &Client) {
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let (parameters, all) = (DeleteParams::default(), ListParams::default());
    volumes.delete_collection(&parameters, &all).await.unwrap();
}

async fn delete_csrs(client: &Client) {
    let csrs: Api<CertificateSigningRequest> = Api::all(client.clone());
    let (parameters, all) = (DeleteParams::default(), ListParams::default());
    csrs.delete_collection(&parameters, &all).await.unwrap();
}

async fn start() -> ControlPlane {
    let _alone = STARTING.lock().await;
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    Rights::documented(ALWAYS).grant(&plane).await;
    plane
}
