//! Connects loops to their stores, their rights and their tasks.

use std::{collections::BTreeMap, sync::Arc};

use outrigger_core::{node::NodeView, service::ServiceView};
use tokio_util::sync::CancellationToken;

use super::{
    Fatal,
    access::{ApiAccess, Identity},
    explain::Stores,
    loops::Loops,
    metrics::Metrics,
    supervise::Supervisor,
};
use crate::{
    options::{Config, controllers::Controller},
    server::{Checks, Pages, Scope},
};
use outrigger_kube::{
    api::Api,
    events::Events,
    store::{Resource, Store, View},
    watch,
};
use outrigger_loops::{
    context::{LoopContext, LoopParts},
    control_loop::{self, ControlLoop, LoopInputs},
};
use outrigger_provider::Provider;
use outrigger_runtime::history::History;

/// Common inputs of all loops (upstream's `ControllerContext`).
pub(super) struct ControllerContext<'a> {
    pub(super) config: &'a Config,
    /// For watches.
    pub(super) informers: Api,
    pub(super) provider: &'a Provider,
    pub(super) metrics: &'a Metrics,
    /// Show the sizes of stores.
    pub(super) pages: &'a Pages,
    /// The last decisions of all loops.
    pub(super) history: &'a History,
    /// Served on `/readyz`.
    pub(super) checks: &'a Checks,
    /// When a watch last showed something; shared by all watches.
    pub(super) sight: &'a watch::Sight,
}

impl ControllerContext<'_> {
    /// The readiness check `watch-<resource>`.
    pub(super) fn watched(&self, resource: Resource) -> watch::Health {
        let health = watch::Health::new(resource, self.sight);
        let checked = health.clone();
        let name = format!("watch-{}", resource.name);
        self.checks
            .add(&name, Scope::Readiness, move || checked.check());
        health
    }
}

/// Connects loops, one after the other, and starts the stores that they have subscribed to last.
pub(super) struct Wiring<'a> {
    pub(super) context: ControllerContext<'a>,
    pub(super) nodes: Arc<Store<NodeView>>,
    pub(super) services: Arc<Store<ServiceView>>,
    access: &'a ApiAccess,
    tasks: &'a mut Supervisor,
    process: &'a CancellationToken,
    identities: BTreeMap<&'static str, Identity>,
    loops: Loops,
}

impl<'a> Wiring<'a> {
    /// No loops yet; `tasks` keep stores and credentials up to date until `process` ends.
    pub(super) fn new(
        context: ControllerContext<'a>,
        access: &'a ApiAccess,
        tasks: &'a mut Supervisor,
        process: &'a CancellationToken,
    ) -> Self {
        let running = context.metrics.controllers.clone();
        let start_interval = context.config.controller_start_interval;
        let loops = Loops::new(context.checks.clone(), running, start_interval);
        Self {
            context,
            nodes: Arc::default(),
            services: Arc::default(),
            access,
            tasks,
            process,
            identities: BTreeMap::new(),
            loops,
        }
    }

    /// The clients of a service account; loops that name the same account share them.
    pub(super) async fn identity(&mut self, account: &'static str) -> Result<Identity, Fatal> {
        if let Some(identity) = self.identities.get(account) {
            return Ok(identity.clone());
        }
        let made = self.access.controller(account, self.tasks, self.process);
        let made = made.await?;
        self.identities.insert(account, made.clone());
        Ok(made)
    }

    /// Adds a loop over the keys of `inputs`, with the rights of the service account `account` and events of
    /// `component`; `make` is called for each lease term.
    pub(super) async fn add<L: ControlLoop>(
        &mut self,
        controller: Controller,
        account: &'static str,
        component: &'static str,
        inputs: LoopInputs<L::Key, L::State>,
        make: impl Fn(LoopContext<L::Key>) -> L + Send + Sync + 'static,
    ) -> Result<(), Fatal> {
        let identity = self.identity(account).await?;
        let parts = LoopParts {
            api: identity.api,
            provider: self.context.provider.clone(),
            nodes: Arc::clone(&self.nodes),
            events: identity.events.recorder(component),
            history: self.context.history.clone(),
            doubts: self.context.sight.doubts(),
        };
        self.loops
            .add(controller, control_loop::host(parts, inputs, make));
        Ok(())
    }

    /// Runs `task` until the process ends; it never returns before.
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let stop = self.process.clone();
        self.tasks.spawn(name, async move {
            let _ = stop.run_until_cancelled(task).await;
        });
    }

    /// Keeps `store` up to date from when `when` resolves. To be called after every subscription.
    pub(super) fn watch<V: View>(
        &mut self,
        store: &Arc<Store<V>>,
        when: impl Future<Output = ()> + Send + 'static,
    ) {
        let (resource, shown) = (V::RESOURCE, Arc::clone(store));
        let page = format!("stores/{}", resource.name);
        self.context.pages.dump(&page, move || {
            format!("objects={} synced={}\n", shown.len(), shown.is_synced())
        });
        let stop = self.process.clone();
        let watching = watch::run(
            self.context.informers.clone(),
            Arc::clone(store),
            self.context.watched(resource),
            self.context.metrics.watch.clone(),
            stop.clone(),
        );
        self.tasks
            .spawn(format!("watch of {}", resource.name), async move {
                if stop.run_until_cancelled(when).await.is_some() {
                    watching.await;
                }
            });
        let period = self.context.config.api.min_resync_period;
        let resyncing = Arc::clone(store).keep_resyncing(period, self.process.clone());
        self.tasks
            .spawn(format!("resync of {}", resource.name), resyncing);
    }

    /// The stores that show which objects there are.
    pub(super) fn stores(&self) -> Stores {
        Stores {
            nodes: Arc::clone(&self.nodes),
            services: Arc::clone(&self.services),
        }
    }

    /// The loops, and the events that must be written before the process ends.
    pub(super) fn finish(self) -> (Loops, Vec<Events>) {
        let identities = self.identities.into_values();
        (
            self.loops,
            identities.map(|identity| identity.events).collect(),
        )
    }
}
