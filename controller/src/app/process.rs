//! The parts of the process that are there before its loops and after them.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::{
    COMPONENT, Fatal,
    access::ApiAccess,
    explain::{Explainer, Stores},
    identity::ClusterIdentity,
    lease_events,
    lease_task::{Building, LeaseTask},
    loops::Loops,
    metrics::Metrics,
    supervise::Supervisor,
};
use crate::{
    options::{Config, config::WebhookSettings},
    server::{Access, Checks, ClientCa, Pages, Scope, Server, ServerParts},
    webhook::{self, WebhookServer},
};
use outrigger_kube::{
    api::Api,
    client::{ApiServer, Clients},
    cluster::{self, Facts, SameCluster},
    events::Events,
    leader::{self, Handle},
    watch::Sight,
};
use outrigger_provider::{self as provider, Connect, Provider};
use outrigger_runtime::{history::History, telemetry};

/// Clients, servers and metrics of the process.
pub(super) struct Process<'a> {
    pub(super) config: &'a Config,
    pub(super) metrics: Metrics,
    pub(super) checks: Checks,
    pub(super) pages: Pages,
    pub(super) access: ApiAccess,
    pub(super) history: History,
    /// For watches.
    pub(super) informers: Api,
    /// The address of the API server.
    api_server: String,
    /// Decides which clients the HTTPS server answers; `None` without such a server.
    https_access: Option<Arc<Access>>,
    webhook: Option<Arc<WebhookServer>>,
    /// Ends everything that the loops stand on, after them.
    pub(super) end: CancellationToken,
}

impl<'a> Process<'a> {
    /// Takes the ports, reads the files that the flags name and starts the servers: probes want an answer before the
    /// API server gives one.
    pub(super) async fn start(
        config: &'a Config,
        api_server: ApiServer,
        set_verbosity: impl Fn(u32) + Send + Sync + 'static,
        tasks: &mut Supervisor,
    ) -> Result<Self, Fatal> {
        // Before anything is asked for, so that a flag that cannot be followed ends the process immediately.
        // A plan is made beside a controller that works.
        let serves = config.plan.is_none();
        let https = config.serving.as_ref().filter(|_| serves);
        let https = https.map(Server::bind).transpose();
        let https = https.map_err(|error| Fatal::setup(&error))?;
        let mut registry = Registry::default();
        telemetry::register(&mut registry);
        let metrics = Metrics::register(&mut registry);
        let end = CancellationToken::new();
        let webhook = config.webhook.as_ref().filter(|_| serves);
        let webhook = webhook.map(|webhook| serve_webhook(webhook, &metrics, tasks, &end));
        let webhook = webhook.transpose()?;
        let pages = Pages::new(config.profiling, set_verbosity);
        let clients = Clients::new(api_server, metrics.client.clone()).await;
        let clients = clients.map_err(|error| Fatal::setup(&error))?;
        let api_server = clients.server();
        let events = metrics.events.clone();
        let access = ApiAccess::new(config, clients, events);
        let mut process = Self {
            config,
            informers: access.root("shared-informers"),
            checks: Checks::default(),
            pages,
            access,
            history: History::new(config.history_bytes),
            api_server,
            https_access: None,
            webhook,
            end,
            metrics,
        };
        let silent = format!("{} has not answered yet", process.api_server);
        let is_reached = move || Err(silent.clone());
        process
            .checks
            .add("apiserver", Scope::Readiness, is_reached);
        if let Some(https) = https {
            process.serve(https, registry, tasks).await?;
        }
        Ok(process)
    }

    async fn serve(
        &mut self,
        https: Server,
        registry: Registry,
        tasks: &mut Supervisor,
    ) -> Result<(), Fatal> {
        let access = Access::new(&self.config.access, &self.metrics.client);
        let access = access.await.map_err(|error| Fatal::setup(&error))?;
        let access = Arc::new(access);
        self.https_access = Some(Arc::clone(&access));
        let parts = ServerParts {
            checks: self.checks.clone(),
            registry: Arc::new(registry),
            access,
            pages: self.pages.clone(),
            metrics: self.metrics.serving.clone(),
        };
        tasks.spawn("HTTPS server", https.run(parts, self.end.clone()));
        Ok(())
    }

    /// Waits for the API server, and asks which cluster this is.
    pub(super) async fn reach_api_server(&self) -> Result<Facts, Fatal> {
        let facts = cluster::discover(&self.informers, &self.api_server).await;
        if let Some(access) = &self.https_access {
            access.look_up().await;
        }
        self.checks.add("apiserver", Scope::Readiness, || Ok(()));
        if self.config.plan.is_some() && known_uid(self.config, &facts).is_none() {
            return Err(Fatal::Setup(
                "cannot plan: may not read the namespace kube-system, and without the cluster's UID the \
                 provider could take this for another cluster; grant `get` on it, or set --cluster-uid"
                    .to_owned(),
            ));
        }
        Ok(facts)
    }

    /// The cluster of these facts.
    pub(super) fn cluster(&self, facts: &Facts) -> SameCluster {
        SameCluster::new(self.informers.clone(), facts.uid.clone())
    }

    /// Starts the connection to the provider.
    pub(super) fn connect_provider(
        &self,
        facts: &Facts,
        connector: Box<dyn Connect>,
        tasks: &mut Supervisor,
    ) -> Provider {
        let options = provider_options(self.config, facts);
        let metrics = self.metrics.provider.clone();
        let (provider, connection) = Provider::new(options, connector, metrics, self.end.clone());
        tasks.spawn("provider connection", connection);
        if let Some(server) = &self.webhook {
            server.decide_by(webhook::review_by(provider.clone()));
        }
        let (queues, shown) = (self.metrics.queues.clone(), provider.clone());
        self.pages.dump("queues", move || queues.dump());
        self.pages.dump("provider", move || shown.dump());
        provider
    }

    /// Answers `explain` from the history, with the objects that the stores have, while this process leads by `lock`.
    pub(super) fn explain(&self, stores: Stores, lock: Option<Handle>) {
        let explainer = Explainer {
            history: self.history.clone(),
            stores,
            lock,
        };
        self.pages.explain_by(move |path| explainer.answer(path));
    }

    /// Starts to contend for the Lease, under which the task that it returns runs `loops`, and to say on the Lease, by
    /// `events`, what concerns the whole cluster.
    pub(super) fn contend(
        &self,
        loops: Loops,
        (provider, cluster): (&Provider, &SameCluster),
        sight: &Sight,
        events: &Events,
        tasks: &mut Supervisor,
    ) -> LeaseTask {
        let election = self.config.election.as_ref();
        let on_lease = lease_events::recorder(election, events.recorder(COMPONENT));
        let identity = ClusterIdentity::new(
            self.config,
            (cluster.clone(), sight.clone()),
            provider.clone(),
            Box::new(on_lease.clone()),
        );
        let compared = Arc::clone(&identity);
        self.checks.add("clusterUID", Scope::Readiness, move || {
            compared.contradiction().map_or(Ok(()), Err)
        });
        let recorder = events.recorder(COMPONENT);
        let building = Building {
            identity: Arc::clone(&identity),
            api: self.access.unlimited("leader-election"),
            metrics: self.metrics.leader.clone(),
            events: Arc::new(move |lease, event| recorder.event(lease, event)),
            loops,
            provider: provider.clone(),
            sight: sight.clone(),
        };
        let lease_task = building.open(self.config);
        let identified = identity.run(lease_task.lock());
        let end = self.end.clone();
        tasks.spawn("cluster identity", async move {
            let _ = end.run_until_cancelled(identified).await;
        });
        let (reported, end) = (provider.clone(), self.end.clone());
        tasks.spawn("events about the provider", async move {
            let host = leader::host();
            let reports = async {
                tokio::join!(
                    lease_events::report(reported.state(), &host, &on_lease),
                    lease_events::report_grants(&reported, &on_lease)
                )
            };
            let _ = end.run_until_cancelled(reports).await;
        });
        let state = provider.state();
        self.checks.add("provider", Scope::Readiness, move || {
            let state = state.borrow();
            let serves = state.serves().then_some(());
            serves.ok_or_else(|| state.to_string())
        });
        lease_task
    }

    /// Ends all tasks, once the events are written.
    pub(super) async fn end(&self, tasks: &mut Supervisor) {
        self.end.cancel();
        tasks.drain().await;
    }
}

/// Takes the webhook's port, reads the files of its flags, and begins to serve, on every replica from the start on (W-3);
/// until there is something to decide with, each request is an error.
fn serve_webhook(
    settings: &WebhookSettings,
    metrics: &Metrics,
    tasks: &mut Supervisor,
    stop: &CancellationToken,
) -> Result<Arc<WebhookServer>, Fatal> {
    let server = Server::bind(&settings.serving).map_err(|error| Fatal::setup(&error))?;
    let client_ca = settings.client_ca.clone();
    let client_ca = client_ca.map(|path| ClientCa::read("--webhook-client-ca-file", path));
    let client_ca = client_ca
        .transpose()
        .map_err(|error| Fatal::setup(&error))?;
    let webhook = Arc::new(WebhookServer::new(client_ca, metrics.webhook.clone()));
    let connections = metrics.serving.clone();
    let running = Arc::clone(&webhook).run(server, connections, stop.clone());
    tasks.spawn("HTTPS server of the webhook", running);
    Ok(webhook)
}

/// The UID with which the cloud is changed: the operator's word, else that of `kube-system`.
fn known_uid<'a>(config: &'a Config, facts: &'a Facts) -> Option<&'a str> {
    config.cluster_uid.as_deref().or(facts.uid.as_deref())
}

/// Facts for the provider about this process and its cluster.
pub(super) fn provider_options(config: &Config, facts: &Facts) -> provider::Options {
    let settings = &config.provider;
    let uid = known_uid(config, facts);
    provider::Options {
        expected_name: settings.name.clone(),
        allow_untagged: settings.allow_untagged_cloud,
        effect_prefixes: settings.effect_prefixes.clone(),
        controller_name: COMPONENT.to_owned(),
        controller_version: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes_version: facts.version.clone(),
        cluster: config.cluster.clone(),
        cluster_uid: uid.unwrap_or_default().to_owned(),
        standby: config.election.is_some(),
    }
}
