//! The parts of the process that are there before its loops and after them: servers, clients, metrics, tasks.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::{COMPONENT, END_TIMEOUT, Fatal, metrics::Metrics, supervise::Supervisor};
use crate::{
    options::Config,
    server::{Access, Checks, ClientCa, Pages, Scope, Server, ServerParts},
    webhook::{self, WebhookServer},
};
use outrigger_kube::{
    api::Api,
    client::{ApiServer, Budget, Clients},
    cluster::{self, Facts},
    events::Events,
    store::{Store, View},
    watch::{self, Sight},
};
use outrigger_provider::{self as provider, Connect, Provider};
use outrigger_runtime::{history::History, telemetry};

/// Clients, servers, metrics and tasks of the process.
pub(super) struct Process<'a> {
    pub(super) config: &'a Config,
    pub(super) metrics: Metrics,
    pub(super) checks: Checks,
    pub(super) pages: Pages,
    pub(super) history: History,
    clients: Clients,
    /// For watches.
    pub(super) informers: Api,
    /// Decides which clients the HTTPS server answers; `None` without such a server.
    https_access: Option<Arc<Access>>,
    webhook: Option<Arc<WebhookServer>>,
    pub(super) tasks: Supervisor,
    /// Ends everything that the loops stand on, after them.
    end: CancellationToken,
}

impl<'a> Process<'a> {
    /// Takes the ports, reads the files that the flags name and starts the servers: probes want an answer before the
    /// API server gives one.
    pub(super) async fn start(
        config: &'a Config,
        api_server: ApiServer,
        set_verbosity: impl Fn(u32) + Send + Sync + 'static,
    ) -> Result<Self, Fatal> {
        // Before anything is asked for, so that a flag that cannot be followed ends the process immediately.
        // A plan is made beside a controller that works.
        let serves = config.plan.is_none();
        let https = config.serving.as_ref().filter(|_| serves);
        let https = https.map(Server::bind).transpose()?;
        let mut registry = Registry::default();
        telemetry::register(&mut registry);
        let metrics = Metrics::register(&mut registry);
        let clients = Clients::new(api_server, metrics.client.clone()).await;
        let clients = clients.map_err(|error| error.to_string())?;
        let informers = Api::new(clients.build("shared-informers", config.budget));
        let mut process = Self {
            config,
            checks: Checks::default(),
            pages: Pages::new(&config.configz, config.profiling, set_verbosity),
            informers,
            clients,
            history: History::new(config.history_bytes),
            https_access: None,
            webhook: None,
            tasks: Supervisor::default(),
            end: CancellationToken::new(),
            metrics,
        };
        let silent = format!("{} has not answered yet", process.clients.server());
        let is_reached = move || Err(silent.clone());
        process
            .checks
            .add("apiserver", Scope::Readiness, is_reached);
        if serves {
            process.serve_webhook()?;
        }
        if let Some(https) = https {
            process.serve(https, registry).await?;
        }
        Ok(process)
    }

    async fn serve(&mut self, https: Server, registry: Registry) -> Result<(), Fatal> {
        let access = Access::new(&self.config.access, &self.metrics.client).await;
        let access = Arc::new(access?);
        self.https_access = Some(Arc::clone(&access));
        let parts = ServerParts {
            checks: self.checks.clone(),
            registry: Arc::new(registry),
            access,
            pages: self.pages.clone(),
            metrics: self.metrics.serving.clone(),
        };
        let serving = https.run(parts, self.end.clone());
        self.tasks.spawn("HTTPS server", serving);
        Ok(())
    }

    /// Takes the webhook's port, reads the files of its flags, and begins to serve, on every replica from the start on (W-3);
    /// until there is something to decide with, each request is an error.
    fn serve_webhook(&mut self) -> Result<(), Fatal> {
        let Some(settings) = &self.config.webhook else {
            return Ok(());
        };
        let server = Server::bind(&settings.serving)?;
        let client_ca = settings.client_ca.clone();
        let client_ca = client_ca.map(|path| ClientCa::read("--webhook-client-ca-file", path));
        let client_ca = client_ca.transpose()?;
        let metrics = self.metrics.webhook.clone();
        let webhook = Arc::new(WebhookServer::new(client_ca, metrics));
        let connections = self.metrics.serving.clone();
        let running = Arc::clone(&webhook).run(server, connections, self.end.clone());
        self.tasks.spawn("HTTPS server of the webhook", running);
        self.webhook = Some(webhook);
        Ok(())
    }

    /// Waits for the API server, and asks which cluster this is.
    pub(super) async fn reach_api_server(&self) -> Result<Facts, Fatal> {
        let facts = cluster::discover(&self.informers, &self.clients.server()).await;
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

    /// Starts the connection to the provider.
    pub(super) fn connect_provider(
        &mut self,
        facts: &Facts,
        connector: Box<dyn Connect>,
    ) -> Provider {
        let options = provider_options(self.config, facts);
        let metrics = self.metrics.provider.clone();
        let (provider, connection) = Provider::new(options, connector, metrics, self.end.clone());
        self.tasks.spawn("provider connection", connection);
        if let Some(server) = &self.webhook {
            server.decide_by(webhook::review_by(provider.clone()));
        }
        let (queues, shown) = (self.metrics.queues.clone(), provider.clone());
        self.pages.dump("queues", move || queues.dump());
        self.pages.dump("provider", move || shown.dump());
        let state = provider.state();
        self.checks.add("provider", Scope::Readiness, move || {
            let state = state.borrow();
            let serves = state.serves().then_some(());
            serves.ok_or_else(|| state.to_string())
        });
        provider
    }

    /// A client named as upstream's (E-7), with a connection and `budget` of its own.
    pub(super) fn api(&self, name: &str, budget: Budget) -> Api {
        Api::new(self.clients.build(name, budget))
    }

    /// The events of all components. They take nothing of the loops' budgets.
    pub(super) fn write_events(&mut self) -> Events {
        let api = Api::new(self.clients.build(COMPONENT, self.config.budget));
        let (events, writer) = Events::new(api, self.clients.writes(), &self.metrics.events);
        let writing = writer.run(self.end.clone(), END_TIMEOUT);
        self.tasks.spawn("event writer", writing);
        events
    }

    /// Runs `task` until the process ends; it never returns before.
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let end = self.end.clone();
        self.tasks.spawn(name, async move {
            let _ = end.run_until_cancelled(task).await;
        });
    }

    /// Keeps `store` up to date from when `when` resolves. To be called after every subscription.
    pub(super) fn watch<V: View>(
        &mut self,
        store: &Arc<Store<V>>,
        sight: &Sight,
        when: impl Future<Output = ()> + Send + 'static,
    ) {
        let (resource, shown) = (V::RESOURCE, Arc::clone(store));
        let page = format!("stores/{}", resource.name);
        self.pages.dump(&page, move || {
            format!("objects={} synced={}\n", shown.len(), shown.is_synced())
        });
        let health = watch::Health::new(resource, sight);
        let (name, checked) = (format!("watch-{}", resource.name), health.clone());
        self.checks
            .add(&name, Scope::Readiness, move || checked.check());
        let end = self.end.clone();
        let watching = watch::run(
            self.informers.clone(),
            Arc::clone(store),
            health,
            self.metrics.watch.clone(),
            end.clone(),
        );
        let name = format!("watch of {}", resource.name);
        self.tasks.spawn(name, async move {
            if end.run_until_cancelled(when).await.is_some() {
                watching.await;
            }
        });
        let period = self.config.min_resync_period;
        let resyncing = Arc::clone(store).keep_resyncing(period, self.end.clone());
        let name = format!("resync of {}", resource.name);
        self.tasks.spawn(name, resyncing);
    }

    /// Ends all tasks, once the events are written.
    pub(super) async fn end(&mut self) {
        self.end.cancel();
        self.tasks.drain().await;
    }
}

/// The UID with which the cloud is changed: the operator's word, else that of `kube-system`.
fn known_uid<'a>(config: &'a Config, facts: &'a Facts) -> Option<&'a str> {
    config.cluster_uid.as_deref().or(facts.uid.as_deref())
}

/// Facts for the provider about this process and its cluster.
pub(crate) fn provider_options(config: &Config, facts: &Facts) -> provider::Options {
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
