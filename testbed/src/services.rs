//! Services that want a load balancer, as many as you like, and how long each waits for its address.
//!
//! Measurements, scenarios and the demo make them through [`Exposure`] and delete them through [`delete_all`], which waits
//! until their load balancers are gone. A Service is served ([`is_served`]) once it has an address and this controller's
//! condition `Provisioned`.
//!
//! ```
//! use outrigger_testbed::services::{balanced, is_served, numbered};
//!
//! let services: Vec<_> = numbered("web-", 2).map(|name| balanced(&name, ("team", "a"))).collect();
//! assert_eq!(services[1].metadata.name.as_deref(), Some("web-00001"));
//! assert!(!is_served(&services[1]));
//! ```

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta},
};
use tokio::time::{Instant, sleep};

pub use crate::creation::Created;
use crate::{Error, Result, creation::Creation, nodes::Load, wire};

/// A Service that wants a load balancer for HTTP and HTTPS, with one label.
pub fn balanced(name: &str, label: (&str, &str)) -> Service {
    let port = |name: &str, port, target| ServicePort {
        name: Some(name.to_owned()),
        port,
        target_port: Some(IntOrString::Int(target)),
        ..ServicePort::default()
    };
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    Service {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([owned(label)].into()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some("LoadBalancer".to_owned()),
            selector: Some([owned(("app", name))].into()),
            ports: Some(vec![port("http", 80, 8080), port("https", 443, 8443)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// `count` names: `<prefix>00000`, `<prefix>00001` and so on.
pub fn numbered(prefix: &str, count: usize) -> impl ExactSizeIterator<Item = String> {
    (0..count).map(move |number| format!("{prefix}{number:05}"))
}

/// The addresses, or host names, at which a Service is reached.
pub fn addresses(service: &Service) -> Vec<&str> {
    let status = service.status.as_ref();
    let load_balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = load_balancer.and_then(|status| status.ingress.as_deref());
    let ingress = ingress.unwrap_or_default().iter();
    ingress
        .filter_map(|ingress| ingress.ip.as_deref().or(ingress.hostname.as_deref()))
        .collect()
}

/// The conditions of a Service.
pub fn conditions(service: &Service) -> &[Condition] {
    let status = service.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default()
}

/// Returns whether a Service has an address at which it is served.
pub fn is_served(service: &Service) -> bool {
    const PROVISIONED: &str = "outrigger.dev/Provisioned";
    let mut conditions = conditions(service).iter();
    !addresses(service).is_empty()
        && conditions.any(|one| one.type_ == PROVISIONED && one.status == "True")
}

/// Services to make, and what they wait for.
pub struct Exposure<'a> {
    /// Where they are made.
    pub namespace: &'a str,
    /// Each with the label of `selector`, and a name.
    pub services: Vec<Service>,
    /// Selects them.
    pub selector: &'a str,
    /// True if a Service has what it waits for.
    pub is_ready: fn(&Service) -> bool,
    /// How fast they are made.
    pub load: Load,
    /// Time limit of all of it.
    pub timeout: Duration,
}

impl Exposure<'_> {
    /// Makes the Services and waits until all are ready.
    ///
    /// `progress` is called with the number of those that are. Ends at the first error, or with
    /// [`Error::Unready`] after the timeout; what was made stays.
    pub async fn run(
        self,
        client: &Client,
        progress: impl FnMut(usize),
    ) -> Result<Created<Service>> {
        let path = path(self.namespace);
        let create = async |service: Service| {
            let name = service_named(&service.name_any());
            wire::post(client, &path, &service, &name).await.map(drop)
        };
        let creation = Creation {
            api: Api::namespaced(client.clone(), self.namespace),
            selector: self.selector,
            kind: "the Services",
            is_ready: self.is_ready,
            load: self.load,
            timeout: self.timeout,
        };
        let services = self.services.into_iter();
        let services = services.map(|service| (service.name_any(), service));
        creation.run(services.collect(), create, progress).await
    }
}

/// Deletes Services and returns, with the time that it took, when they are gone: that is when
/// their load balancers are.
///
/// Ends at the first error, or with [`Error::Undeleted`] after `timeout`. A Service that is not
/// there counts as deleted.
pub async fn delete_all(
    client: &Client,
    namespace: &str,
    names: BTreeSet<String>,
    load: Load,
    timeout: Duration,
) -> Result<Duration> {
    const EVERY: Duration = Duration::from_millis(100);
    let started = Instant::now();
    let path = path(namespace);
    let delete = async |name: String| {
        wire::delete(client, &format!("{path}/{name}"), &service_named(&name)).await
    };
    load.run(names.clone(), |_| {}, delete).await?;
    loop {
        let mut left = list(client, namespace).await?;
        left.retain(|name| names.contains(name));
        if left.is_empty() {
            return Ok(started.elapsed());
        }
        if started.elapsed() > timeout {
            return Err(Error::Undeleted { left, timeout });
        }
        sleep(EVERY).await;
    }
}

/// The names of all Services of a namespace, sorted.
pub async fn list(client: &Client, namespace: &str) -> Result<Vec<String>> {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let all = services.list_metadata(&ListParams::default()).await;
    let all = all.map_err(Error::kube("cannot list Services"))?.items;
    let mut names: Vec<_> = all
        .into_iter()
        .filter_map(|one| one.metadata.name)
        .collect();
    names.sort_unstable();
    Ok(names)
}

fn service_named(name: &str) -> String {
    format!("Service {name}")
}

fn path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/services")
}
