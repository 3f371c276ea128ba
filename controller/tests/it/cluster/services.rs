//! Services as those who own them see them.

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::Cluster;
use crate::{
    look::{
        reason,
        services::{addresses_of, condition},
        uid,
    },
    wait::{holds, until},
};

/// A Service of type `LoadBalancer` with one port.
pub(crate) fn load_balancer(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "type": "LoadBalancer",
            "selector": {"app": name},
            "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
        },
    })
}

/// The same with `change` merged into it.
pub(crate) fn load_balancer_with(name: &str, change: Value) -> Value {
    let mut service = load_balancer(name);
    merge(&mut service, change);
    service
}

/// A Service of type `LoadBalancer` with this annotation.
pub(crate) fn annotated(name: &str, key: &str, value: &str) -> Value {
    load_balancer_with(name, annotation(key, value))
}

/// A change that sets an annotation.
pub(crate) fn annotation(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

/// RFC 7396, except `null`.
pub(crate) fn merge(target: &mut Value, change: Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (key, value) in change {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, change) => *target = change,
    }
}

impl Cluster {
    pub(crate) fn services(&self) -> Api<Service> {
        Api::namespaced(self.admin(), "default")
    }

    /// Makes a Service of what its owner would apply.
    pub(crate) async fn create_service(&self, service: Value) -> Service {
        let service = serde_json::from_value(service).unwrap();
        let (services, parameters) = (self.services(), PostParams::default());
        services.create(&parameters, &service).await.unwrap()
    }

    pub(crate) async fn service(&self, name: &str) -> Service {
        self.services().get(name).await.unwrap()
    }

    /// Changes a Service as its owner does: a merge patch of all but the status.
    pub(crate) async fn change_service(&self, name: &str, change: Value) -> Service {
        let (services, parameters) = (self.services(), PatchParams::default());
        let patch = Patch::Merge(change);
        services.patch(name, &parameters, &patch).await.unwrap()
    }

    /// Changes the status of a Service as some other controller does.
    pub(crate) async fn change_service_status(&self, name: &str, change: Value) -> Service {
        let (services, parameters) = (self.services(), PatchParams::default());
        let patch = Patch::Merge(change);
        let patched = services.patch_status(name, &parameters, &patch).await;
        patched.unwrap()
    }

    pub(crate) async fn delete_service(&self, name: &str) {
        let deleted = self.services().delete(name, &DeleteParams::default()).await;
        deleted.unwrap();
    }

    /// Removes all finalizers, as an impatient user.
    pub(crate) async fn strip_service(&self, name: &str) {
        self.change_service(name, json!({"metadata": {"finalizers": null}}))
            .await;
    }

    /// Makes a Service and waits until it has a load balancer that is ready.
    pub(crate) async fn serve(&self, service: Value) -> Service {
        let name = service["metadata"]["name"].as_str().unwrap().to_owned();
        self.create_service(service).await;
        self.served(&name).await
    }

    /// Waits until the load balancer of a Service is ready.
    pub(crate) async fn served(&self, name: &str) -> Service {
        self.service_that(name, "has a load balancer", |service| {
            let is_ready = condition(service, "Provisioned") == ("True", "Ready");
            is_ready && !addresses_of(service).is_empty()
        })
        .await
    }

    /// Waits until this is so of a Service.
    pub(crate) async fn service_that(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Service) -> bool,
    ) -> Service {
        until(&format!("{name} {what}"), async || {
            let service = self.service(name).await;
            holds(is_so(&service), || {
                let (metadata, status) = (&service.metadata, &service.status);
                format!(
                    "{:?} {:?} {status:?}",
                    metadata.finalizers, metadata.annotations
                )
            })?;
            Ok(service)
        })
        .await
    }

    /// Waits until there is no Service of that name any more.
    pub(crate) async fn service_is_gone(&self, name: &str) {
        until(&format!("{name} is gone"), async || {
            let left = self.services().get_opt(name).await.unwrap();
            holds(left.is_none(), || format!("{:?}", left.map(|s| s.metadata)))
        })
        .await;
    }

    /// The reasons of the events about a Service, each as often as it was sent, sorted.
    pub(crate) async fn reasons_of(&self, service: &Service) -> Vec<String> {
        let events = self.events_of(service).await;
        let mut reasons: Vec<_> = events
            .iter()
            .flat_map(|event| {
                let times = event.count.unwrap_or(1).unsigned_abs() as usize;
                std::iter::repeat_n(reason(event).to_owned(), times)
            })
            .collect();
        reasons.sort_unstable();
        reasons
    }

    /// Waits until these are the reasons of all events about a Service, in any order.
    pub(crate) async fn only_events(&self, service: &Service, expected: &[&str]) {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        until(&format!("the events of {}", uid(service)), async || {
            let reasons = self.reasons_of(service).await;
            holds(reasons == expected, || {
                format!("{reasons:?} and not {expected:?}")
            })
        })
        .await;
    }
}
