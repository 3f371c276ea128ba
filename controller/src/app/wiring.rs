//! Connects loops to their stores, their rights and their tasks.

use std::{collections::BTreeMap, sync::Arc};

use outrigger_core::{node::NodeView, service::ServiceView};

use super::{
    Fatal, access::Identity, explain::Stores, loops::Loops, process::Process, supervise::Supervisor,
};
use crate::{options::controllers::Controller, server::Scope};
use outrigger_kube::{
    store::{Store, View},
    watch::{self, Sight},
};
use outrigger_loops::{
    context::{LoopContext, LoopParts},
    control_loop::{self, ControlLoop, LoopInputs},
};
use outrigger_provider::Provider;

/// Connects loops, one after the other, and starts the stores that they have subscribed to last.
pub(super) struct Wiring<'a> {
    pub(super) process: &'a Process<'a>,
    pub(super) provider: &'a Provider,
    /// When a watch last showed something; shared by all watches.
    sight: &'a Sight,
    pub(super) nodes: Arc<Store<NodeView>>,
    pub(super) services: Arc<Store<ServiceView>>,
    tasks: &'a mut Supervisor,
    identities: BTreeMap<&'static str, Identity>,
    loops: Loops,
}

impl<'a> Wiring<'a> {
    /// No loops yet; `tasks` keep stores and credentials up to date until `process` ends.
    pub(super) fn new(
        process: &'a Process<'a>,
        (provider, sight): (&'a Provider, &'a Sight),
        tasks: &'a mut Supervisor,
    ) -> Self {
        let running = process.metrics.controllers.clone();
        let start_interval = process.config.controller_start_interval;
        let loops = Loops::new(process.checks.clone(), running, start_interval);
        Self {
            process,
            provider,
            sight,
            nodes: Arc::default(),
            services: Arc::default(),
            tasks,
            identities: BTreeMap::new(),
            loops,
        }
    }

    /// Adds a loop over the keys of `inputs`, unless `--controllers` has switched it off, with the rights of the service
    /// account `account` and events of `component`; `make` is called for each lease term, with a clone of `parts`.
    pub(super) async fn add<L: ControlLoop, P: Clone + Send + Sync + 'static>(
        &mut self,
        controller: Controller,
        account: &'static str,
        component: &'static str,
        inputs: LoopInputs<L::Key, L::State>,
        parts: P,
        make: fn(LoopContext<L::Key>, P) -> L,
    ) -> Result<(), Fatal> {
        if !self.process.config.controllers.enabled(controller) {
            return Ok(());
        }
        // Loops that name the same account share its clients.
        let identity = if let Some(identity) = self.identities.get(account) {
            identity.clone()
        } else {
            let Process { access, end, .. } = self.process;
            let made = access.controller(account, self.tasks, end).await?;
            self.identities.insert(account, made.clone());
            made
        };
        let shared = LoopParts {
            api: identity.api,
            provider: self.provider.clone(),
            nodes: Arc::clone(&self.nodes),
            events: identity.events.recorder(component),
            history: self.process.history.clone(),
            doubts: self.sight.doubts(),
        };
        let make = move |context| make(context, parts.clone());
        let host = control_loop::host(shared, inputs, make);
        self.loops.add(controller, host);
        Ok(())
    }

    /// Runs `task` until the process ends; it never returns before.
    pub(super) fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let stop = self.process.end.clone();
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
        self.process.pages.dump(&page, move || {
            format!("objects={} synced={}\n", shown.len(), shown.is_synced())
        });
        let stop = self.process.end.clone();
        let health = watch::Health::new(resource, self.sight);
        let (name, checked) = (format!("watch-{}", resource.name), health.clone());
        let checks = &self.process.checks;
        checks.add(&name, Scope::Readiness, move || checked.check());
        let watching = watch::run(
            self.process.informers.clone(),
            Arc::clone(store),
            health,
            self.process.metrics.watch.clone(),
            stop.clone(),
        );
        self.tasks
            .spawn(format!("watch of {}", resource.name), async move {
                if stop.run_until_cancelled(when).await.is_some() {
                    watching.await;
                }
            });
        let period = self.process.config.min_resync_period;
        let resyncing = Arc::clone(store).keep_resyncing(period, self.process.end.clone());
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

    /// The loops.
    pub(super) fn finish(self) -> Loops {
        self.loops
    }
}
