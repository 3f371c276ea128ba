//! The provider: what the contract asks, answered from the cloud.

mod effects;
mod instances;
mod load_balancers;
mod options;
mod routes;
mod volumes;

use axum::middleware::from_fn_with_state;
use outrigger_provider_sdk::{
    CallClass, Context, Dependency, EffectsCapability, Error, Provider, ProviderInfo,
    ProviderStatus, Quota, RateLimit, Readiness, Server,
};

pub use options::{
    ListedTarget, ProviderOptions, Respelled, ServedLoadBalancers, ServedRoutes, ServedVolumes,
};

use crate::cloud::{Cloud, CloudError, RateLimited};
use crate::faulty::faulty;
use crate::load_balancers::LoadBalancerRefused as Balancer;
use crate::routes::RouteRefused;

/// Annotation in which a kubelet with `--node-ip` names the address of its Node.
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// The tag of a cluster: its UID, or its name where it has none.
fn cluster_of(ctx: &Context) -> String {
    let cluster = ctx.cluster();
    let uid = Some(&cluster.uid).filter(|uid| !uid.is_empty());
    uid.unwrap_or(&cluster.name).clone()
}

/// A correct provider over a [`Cloud`]. Clones answer for the same cloud.
///
/// Faults are not its business: they stand in front of it, in `faulty`.
#[derive(Debug, Clone)]
pub struct MockProvider {
    cloud: Cloud,
    options: ProviderOptions,
}

impl MockProvider {
    /// Answers for this cloud.
    pub fn new(cloud: Cloud) -> Self {
        Self::with_options(cloud, ProviderOptions::default())
    }

    /// Answers for this cloud, with these declarations.
    pub fn with_options(cloud: Cloud, options: ProviderOptions) -> Self {
        Self { cloud, options }
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

    fn effects(&self) -> Option<EffectsCapability> {
        let (balancers, routes) = (&self.options.load_balancers, &self.options.routes);
        let on_services = balancers.as_ref().is_some_and(|served| served.effects);
        let beside_routes = routes.as_ref().is_some_and(|served| served.effects);
        let on_nodes = beside_routes || self.options.instance_effects;
        let prefix_if = |is_used: bool| is_used.then(|| effects::PREFIX.to_owned());
        let declared = EffectsCapability::default()
            .with_service_annotation_prefixes(prefix_if(on_services).as_slice())
            .with_node_annotation_prefixes(prefix_if(on_nodes).as_slice())
            .with_condition_type_prefixes([effects::PREFIX.to_owned()]);
        (on_services || on_nodes).then_some(declared)
    }
}

impl Provider for MockProvider {
    fn info(&self) -> ProviderInfo {
        let config = self.cloud.config();
        let quota = config.quota.filter(|_| self.options.announce_quota);
        let limits =
            quota.map(|quota| RateLimit::new(CallClass::Instances, quota.qps, quota.burst));
        ProviderInfo::new(config.provider_name.as_str(), env!("CARGO_PKG_VERSION"))
            .with_no_cluster_id(self.options.without_cluster_id)
            .with_service_annotation_prefixes(self.options.service_annotation_prefixes.as_slice())
            .with_node_annotation_prefixes([PROVIDED_NODE_IP.to_owned()])
            .with_effects(self.effects())
            .with_rate_limits(limits.into_iter().collect::<Vec<_>>())
    }

    fn status(&self) -> ProviderStatus {
        let cost = self.cloud.cost();
        let quotas = cost.quota.zip(cost.remaining).map(|(quota, remaining)| {
            Quota::new("cloud-calls", quota.burst.into(), remaining.into())
        });
        let status = if self.cloud.faults().refuse_credentials() {
            let credentials = Dependency::new("credentials", Readiness::Degraded)
                .with_message("the cloud refuses the credentials");
            ProviderStatus::new(Readiness::Degraded).with_dependencies([credentials])
        } else {
            ProviderStatus::ready()
        };
        status.with_quotas(quotas.into_iter().collect::<Vec<_>>())
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
