//! The provider: what the contract asks, answered from the cloud.

mod effects;
mod instances;
mod load_balancers;
mod options;
mod routes;
mod volumes;

use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use outrigger_provider_sdk::{Context, Error, Provider, ProviderInfo, Server, Targets, v1};
use parking_lot::Mutex;

pub use options::{
    ListedTarget, ProviderOptions, Respelled, ServedLoadBalancers, ServedRoutes, ServedVolumes,
};

use crate::cloud::{Cloud, CloudError, RateLimited};
use crate::faulty::faulty;
use crate::load_balancers::{LoadBalancerRefused as Balancer, Target};
use crate::routes::RouteRefused;

/// Annotation in which a kubelet with `--node-ip` names the address of its Node.
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// The tag of a cluster: its UID, or its name where it has none.
fn cluster_of(ctx: &Context) -> String {
    let cluster = ctx.cluster();
    let uid = Some(&cluster.uid).filter(|uid| !uid.is_empty());
    uid.unwrap_or(&cluster.name).clone()
}

/// Nodes, and what the cloud keeps of them.
type Kept = (Targets, Arc<[Target]>);

/// A correct provider over a [`Cloud`]. Clones answer for the same cloud.
///
/// Faults are not its business: they stand in front of it, in `faulty`.
#[derive(Debug, Clone)]
pub struct MockProvider {
    cloud: Cloud,
    options: ProviderOptions,
    /// For the nodes of the last call.
    kept: Arc<Mutex<Kept>>,
}

impl MockProvider {
    /// Answers for this cloud.
    pub fn new(cloud: Cloud) -> Self {
        Self::with_options(cloud, ProviderOptions::default())
    }

    /// Answers for this cloud, with these declarations.
    pub fn with_options(cloud: Cloud, options: ProviderOptions) -> Self {
        Self {
            cloud,
            options,
            kept: Arc::default(),
        }
    }

    /// The cloud it answers for.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// The server of it, with the faults of its cloud in front of each call.
    ///
    /// Before its end [`Cloud::clear_faults`] ends calls that hang.
    pub fn into_server(self) -> Server {
        let cloud = self.cloud.clone();
        let options = self.options.clone();
        let mut server = Server::new(self.clone()).instances(self.clone());
        if options.load_balancers.is_some() {
            server = server.load_balancers(self.clone());
        }
        if options.routes.is_some() {
            server = server.routes(self.clone());
        }
        if options.volumes.is_some() {
            server = server.volumes(self);
        }
        if options.without_node_sets {
            server = server.without_node_sets();
        }
        server.wrap(move |mut routes| {
            let router = routes.axum_router_mut();
            *router = std::mem::take(router).layer(from_fn_with_state(cloud, faulty));
            routes
        })
    }

    fn options(&self) -> &ProviderOptions {
        &self.options
    }

    fn effects(&self) -> Option<v1::EffectsCapability> {
        let (balancers, routes) = (&self.options.load_balancers, &self.options.routes);
        let on_services = balancers.as_ref().is_some_and(|served| served.effects);
        let beside_routes = routes.as_ref().is_some_and(|served| served.effects);
        let on_nodes = beside_routes || self.options.instance_effects;
        let prefix_if = |is_used: bool| {
            let prefix = is_used.then(|| effects::PREFIX.to_owned());
            prefix.into_iter().collect()
        };
        (on_services || on_nodes).then(|| v1::EffectsCapability {
            service_annotation_prefixes: prefix_if(on_services),
            node_annotation_prefixes: prefix_if(on_nodes),
            condition_type_prefixes: prefix_if(true),
        })
    }
}

impl Provider for MockProvider {
    fn info(&self) -> ProviderInfo {
        let config = self.cloud.config();
        ProviderInfo {
            without_cluster_id: self.options.without_cluster_id,
            service_annotation_prefixes: self.options.service_annotation_prefixes.clone(),
            node_annotation_prefixes: vec![PROVIDED_NODE_IP.to_owned()],
            effects: self.effects(),
            ..ProviderInfo::new(config.provider_name.as_str(), env!("CARGO_PKG_VERSION"))
        }
    }

    fn status(&self) -> v1::GetStatusResponse {
        let cost = self.cloud.cost();
        let quota = cost.quota.zip(cost.remaining);
        let quota = quota.map(|(quota, remaining)| v1::QuotaStatus {
            name: "cloud-calls".to_owned(),
            limit: quota.burst.into(),
            remaining: remaining.into(),
            resets_at: None,
        });
        let degraded = v1::Readiness::Degraded.into();
        let refused = self.cloud.faults().refuse_credentials();
        let refused = refused.then(|| v1::DependencyStatus {
            name: "credentials".to_owned(),
            readiness: degraded,
            message: "the cloud refuses the credentials".to_owned(),
            ..v1::DependencyStatus::default()
        });
        v1::GetStatusResponse {
            readiness: match refused {
                None => v1::Readiness::Ready.into(),
                Some(_) => degraded,
            },
            dependencies: refused.into_iter().collect(),
            quotas: quota.into_iter().collect(),
            ..v1::GetStatusResponse::default()
        }
    }
}

impl From<RateLimited> for Error {
    fn from(limited: RateLimited) -> Self {
        Self::rate_limited(limited.retry_after)
    }
}

impl From<CloudError> for Error {
    fn from(error: CloudError) -> Self {
        let text = error.to_string();
        match error {
            CloudError::RateLimited(limited) => limited.into(),
            CloudError::LoadBalancer(Balancer::Quota(_) | Balancer::NoAddress)
            | CloudError::Route(RouteRefused::Full(_)) => Self::quota_exceeded(text),
            CloudError::LoadBalancer(Balancer::AddressTaken { .. } | Balancer::Exists(_))
            | CloudError::Route(
                RouteRefused::Taken { .. } | RouteRefused::Foreign(_) | RouteRefused::Exists(_),
            ) => Self::conflicting_resource(text),
            // It was there a moment ago: a user deleted it.
            CloudError::LoadBalancer(Balancer::Unknown(_))
            | CloudError::Route(RouteRefused::Unknown(_)) => Self::conflict(text),
        }
    }
}
