//! The checked and typed flags, grouped by their user.

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use outrigger_core::{effects::GrantedPrefixes, ipam::Allocator, lease::Terms, route::RouteRange};

use super::{
    controllers::Controllers, features::FeatureGates, logging::Logging, migration::Migration,
};
use crate::{
    kube::client::{Budget, Source},
    lifecycle::LifecycleSettings,
    node::NodeSettings,
    provider::{Cluster, Endpoint},
    service::ServiceSettings,
    webhook::Webhook,
};

/// Everything that the command line and the environment decide.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the API server is.
    pub kube: Source,
    /// How it may be used.
    pub api: ApiSettings,
    /// Which controllers run.
    pub controllers: Controllers,
    /// Pause between the starts of two controllers, stretched by up to its own length.
    pub controller_start_interval: Duration,
    /// `--shutdown-grace-period`: how long calls in flight may last after the first
    /// termination signal.
    pub shutdown_grace: Duration,
    /// Switches of unfinished or contested behaviour.
    pub features: FeatureGates,
    /// Facts of the cluster for providers.
    pub cluster: Cluster,
    /// How the provider is reached and who it must be.
    pub provider: ProviderSettings,
    /// The cloud-node loop.
    pub node: NodeSettings,
    /// The cloud-node-lifecycle loop.
    pub lifecycle: LifecycleSettings,
    /// The service-lb loop.
    pub service: ServiceSettings,
    /// `--plan`: only print in this form which changes would follow, and end.
    pub plan: Option<PlanOutput>,
    /// The node-route loop.
    pub route: Route,
    /// Of the node-ipam loop, before it has observed a Node; absent without `--allocate-node-cidrs`.
    pub ipam: Option<Allocator>,
    /// Leader election; absent with `--leader-elect=false`.
    pub election: Option<Election>,
    /// The HTTPS server with health, metrics and debugging; absent with `--secure-port=0`.
    pub serving: Option<Serving>,
    /// Admission webhooks; absent without `--webhooks`.
    pub webhook: Option<WebhookSettings>,
    /// Authentication of callers of the HTTPS server.
    pub authentication: Authentication,
    /// Their authorization.
    pub authorization: Authorization,
    /// Contents of `/debug` on the HTTPS server.
    pub debugging: Debugging,
    /// Levels and formats of the log.
    pub logging: Logging,
    /// Lines for standard error before anything is logged: use of deprecated flags.
    pub notices: Vec<String>,
    /// Values that were accepted but have no effect, or not quite the asked one; to be logged.
    pub warnings: Vec<String>,
    /// Every flag with its value as Go prints it, by name: for the log, `/flagz` and `/configz`.
    pub flags: Vec<FlagValue>,
}

/// One flag as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagValue {
    /// Without the dashes.
    pub name: String,
    /// As Go prints it: `5m0s`, `[a,b]`, `true`.
    pub value: String,
    /// Whether the command line or the environment sets it.
    pub explicit: bool,
}

/// How the API server may be used.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Of each client.
    pub budget: Budget,
    /// A service account for each controller instead of one for all.
    pub service_account_credentials: bool,
    /// Stores resync in a random period between this and twice this.
    pub min_resync_period: Duration,
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

/// `--plan-output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanOutput {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// The node-route loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// `--configure-cloud-routes`.
    pub enabled: bool,
    /// Routes are listed again once in this period.
    pub reconciliation_period: Duration,
    /// `--cluster-cidr`: routes inside are this cluster's; absent if it is empty.
    pub ranges: Option<Arc<[RouteRange]>>,
}

/// Leader election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// How long a lease term lasts, and how often it is renewed.
    pub terms: Terms,
    /// `--enable-leader-migration`: the second Lease and who runs under it.
    pub migration: Option<Migration>,
}

impl Election {
    /// Path of the Lease at the API server.
    pub fn path(&self) -> String {
        let Self {
            namespace, name, ..
        } = self;
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    }
}

/// One HTTPS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Unspecified (`0.0.0.0`, `::`): all interfaces and both families.
    pub address: IpAddr,
    /// Never 0.
    pub port: u16,
    /// The certificate for clients that ask for no other.
    pub certificate: Certificate,
    /// Certificates by name; the first that fits is used.
    pub sni: Vec<SniCertificate>,
    /// Protocol versions and ciphers.
    pub tls: TlsPolicy,
    /// HTTP/2 beside HTTP/1.1.
    pub http2: bool,
    /// Streams of one HTTP/2 connection; absent: the library's default.
    pub http2_max_streams: Option<u32>,
    /// `SO_REUSEPORT`.
    pub permit_port_sharing: bool,
    /// `SO_REUSEADDR`.
    pub permit_address_sharing: bool,
}

/// Admission webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// At least one.
    pub webhooks: Vec<Webhook>,
    /// Their server.
    pub serving: Serving,
    /// CAs of the clients; absent: any client is answered.
    pub client_ca: Option<PathBuf>,
    /// Where the API server reaches them.
    pub address: WebhookAddress,
    /// `--register-webhooks`.
    pub register: bool,
}

/// Where the API server reaches the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookAddress {
    /// Namespace of the Service, and of the Secret.
    pub namespace: String,
    /// Name of the Service, of the Secret and of the `MutatingWebhookConfiguration`.
    pub name: String,
    /// `--webhook-url`, without a path, and its host.
    pub url: Option<(String, String)>,
}

/// Where a server's certificate comes from. Files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// Made at start, kept in memory.
    SelfSigned,
    /// Set while the server runs: all replicas share it. Before that no client is served.
    Shared,
    /// In `--cert-dir`: made there at start if they are missing.
    Kept {
        /// PEM.
        certificate: PathBuf,
        /// PEM.
        key: PathBuf,
    },
    /// Named by flags; an error if they are missing.
    Files {
        /// PEM, with the chain behind the certificate.
        certificate: PathBuf,
        /// PEM.
        key: PathBuf,
    },
}

/// `--tls-sni-cert-key CERT,KEY[:DOMAINS]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniCertificate {
    /// PEM.
    pub certificate: PathBuf,
    /// PEM.
    pub key: PathBuf,
    /// Names or `*.` patterns; empty: those in the certificate.
    pub domains: Vec<String>,
}

/// Protocol versions and ciphers of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPolicy {
    /// 1.2 is the least that is spoken.
    pub min_version: TlsVersion,
    /// Suites of TLS 1.2 by their IANA names, only ones that exist here; absent: all. Those of
    /// TLS 1.3 are not chosen, as in Go.
    pub cipher_suites: Option<Vec<String>>,
    /// By their numbers in TLS, only ones that exist here; empty: all.
    pub curves: Vec<u16>,
}

/// A version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Authentication of callers of the HTTPS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// For `TokenReview` and the lookup of CAs; absent: in a Pod its service account, else every
    /// caller is anonymous.
    pub kubeconfig: Option<PathBuf>,
    /// The cluster is not asked for settings that the flags leave out.
    pub skip_lookup: bool,
    /// A failed lookup is no reason to end.
    pub tolerate_lookup_failure: bool,
    /// How long the answer about a token is believed.
    pub token_cache_ttl: Duration,
    /// CAs of client certificates.
    pub client_ca_file: Option<PathBuf>,
    /// Callers that speak for others.
    pub request_header: RequestHeader,
}

/// Callers that speak for others, by headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// CAs of their certificates.
    pub client_ca_file: Option<PathBuf>,
    /// Common names of their certificates; empty: any.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name.
    pub username_headers: Vec<String>,
    /// Headers with groups.
    pub group_headers: Vec<String>,
    /// Headers with the user's UID.
    pub uid_headers: Vec<String>,
    /// Prefixes of headers with further attributes.
    pub extra_header_prefixes: Vec<String>,
}

/// Authorization of callers of the HTTPS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// For `SubjectAccessReview`; absent: in a Pod its service account, else only
    /// [`Self::always_allow_paths`].
    pub kubeconfig: Option<PathBuf>,
    /// Paths that need no right; a trailing `*` stands for anything.
    pub always_allow_paths: Vec<String>,
    /// How long a yes is believed.
    pub authorized_ttl: Duration,
    /// How long a no is believed.
    pub unauthorized_ttl: Duration,
}

/// Contents of `/debug` on the HTTPS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debugging {
    /// `--profiling`.
    pub profiling: bool,
    /// `--contention-profiling`.
    pub contention: bool,
}

impl Config {
    /// Logs, as the first thing of the process, what was accepted but is not followed, and from
    /// `-v=1` on every flag.
    pub fn log(&self) {
        if self.logging.verbosity >= 1 {
            for FlagValue { name, value, .. } in &self.flags {
                tracing::info!("FLAG: --{name}={value:?}");
            }
        }
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
    }
}
