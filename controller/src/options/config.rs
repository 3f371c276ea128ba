//! The checked and typed flags, grouped by their user.

use std::{path::PathBuf, time::Duration};

use crate::server::settings::{AccessSettings, Serving};
use clap::ValueEnum;
use outrigger_core::{effects::GrantedPrefixes, ipam::Allocator, lease::Durations};
use outrigger_kube::client::{Budget, Source};
use outrigger_loops::{
    lifecycle::LifecycleSettings, node::NodeSettings, route::RouteSettings,
    service::ServiceSettings,
};
use outrigger_provider::{Cluster, Endpoint};
use outrigger_runtime::telemetry::Logging;

use super::controllers::Controllers;

/// Everything that the command line and the environment decide.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the API server is.
    pub kube: Source,
    /// The rate of requests of each client to it.
    pub budget: Budget,
    /// Stores resync in a random period between this and twice this.
    pub min_resync_period: Duration,
    /// Which controllers run.
    pub controllers: Controllers,
    /// The object of `/configz`.
    pub configz: serde_json::Value,
    /// `--shutdown-grace-period`: how long calls in flight may last after the first
    /// termination signal.
    pub shutdown_grace: Duration,
    /// Facts of the cluster for providers.
    pub cluster: Cluster,
    /// `--cluster-uid`; absent: that of the namespace `kube-system`.
    pub cluster_uid: Option<Box<str>>,
    /// How the provider is reached and who it must be.
    pub provider: ProviderSettings,
    /// The cloud-node loop.
    pub node: NodeSettings,
    /// The cloud-node-lifecycle loop.
    pub lifecycle: LifecycleSettings,
    /// The service-lb loop.
    pub service: ServiceSettings,
    /// `--plan`: only print in this form which changes would follow, and end.
    pub plan: Option<OutputForm>,
    /// `--configure-cloud-routes`.
    pub configure_cloud_routes: bool,
    /// The node-route loop; absent if `--cluster-cidr` is empty.
    pub route: Option<RouteSettings>,
    /// The allocator of the node-ipam loop, before it has observed a Node; absent if that does not run.
    pub ipam: Option<Allocator>,
    /// Leader election; absent with `--leader-elect=false`.
    pub election: Option<Election>,
    /// The HTTPS server with health, metrics and debugging; absent with `--secure-port=0`.
    pub serving: Option<Serving>,
    /// The admission webhook; absent without `--webhooks`.
    pub webhook: Option<WebhookSettings>,
    /// Authentication and authorization of callers of the HTTPS server.
    pub access: AccessSettings,
    /// `--profiling`: the HTTPS server has pages below `/debug/`.
    pub profiling: bool,
    /// Bytes of memory for the last decisions; 0: none.
    pub history_bytes: usize,
    /// Levels and formats of the log.
    pub logging: Logging,
    /// Flags that are deprecated or have no effect, or not quite that of their value; to be logged.
    pub warnings: Vec<String>,
    /// Every flag with its value as it was given, by name; the items of a list are joined by commas.
    pub flags: Vec<(String, String)>,
}

/// How the provider is reached and who it must be.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// `--provider-endpoint`.
    pub endpoint: Endpoint,
    /// `--cloud-provider`: the name that the provider must report; absent: any.
    pub name: Option<String>,
    /// `--allow-untagged-cloud`: a provider without cluster id is warned about, not refused.
    pub allow_untagged_cloud: bool,
    /// `--provider-effect-prefixes`.
    pub effect_prefixes: GrantedPrefixes,
    /// `--provider-user`: empty: any.
    pub users: Vec<u32>,
}

/// Form of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Leader election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// How long a lease term lasts, and how often it is renewed.
    pub durations: Durations,
    /// `--leader-elect-identity-file`.
    pub identity_file: Option<PathBuf>,
}

impl Election {
    /// Path of the Lease at the API server.
    pub fn path(&self) -> String {
        outrigger_kube::cluster::lease_path(&self.namespace, &self.name)
    }
}

/// The admission webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Its server.
    pub serving: Serving,
    /// CAs of the clients; absent: any client is answered.
    pub client_ca: Option<PathBuf>,
}

impl Config {
    /// Logs, as the first thing of the process, what was accepted but is not followed, and from
    /// `-v=1` on every flag.
    pub fn log(&self) {
        if self.logging.verbosity >= 1 {
            for (name, value) in &self.flags {
                tracing::info!("FLAG: --{name}={value:?}");
            }
        }
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
    }
}
