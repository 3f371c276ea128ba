//! Each loop with the stores, the client and the settings that it needs.

use std::sync::Arc;

use outrigger_core::{node::NodeView, route::WITHOUT_CLUSTER_CIDR, service::ServiceView};
use tracing::{info, warn};

use super::process::Process;
use crate::options::controllers::{Controller, Controllers};
use outrigger_kube::{events::Events, store::Store, watch::Sight};
use outrigger_loops::{
    context::{LoopContext, LoopParts},
    control_loop::{self, ControlLoop, Host, LoopInputs},
    csr::{self, KubeletServing},
    ipam::{self, NodeIpam},
    lifecycle::{self, NodeLifecycle, OnLookup},
    node::{self, CloudNode},
    not_managed::NotManaged,
    route::{self, NodeRoute},
    service::{self, ServiceLb},
    volume::{self, VolumeLabels},
};
use outrigger_provider::{Provider, Session};

/// The loops that run in each lease term. Their queues fill on a standby too, so that a new leader knows at once what
/// there is to do.
pub(super) type Hosts = Vec<(Controller, Host)>;

/// The loops as they are made, one after the other, and the parts that they share.
pub(super) struct Loops<'w, 'c> {
    pub(super) process: &'w mut Process<'c>,
    pub(super) provider: &'w Provider,
    /// The state of all watches, and the cluster that they show.
    pub(super) sight: &'w Sight,
    pub(super) events: &'w Events,
    pub(super) nodes: Arc<Store<NodeView>>,
    pub(super) services: Arc<Store<ServiceView>>,
    pub(super) hosts: Hosts,
}

impl Loops<'_, '_> {
    /// Makes the loops that the flags ask for. The store of Nodes is last: every loop has subscribed to it then.
    pub(super) fn make(mut self) -> Hosts {
        log_disabled(&self.process.config.controllers);
        let on_lookup = self.nodes();
        if self.runs(Controller::ServiceLb) {
            self.services();
        }
        if self.runs(Controller::NodeIpam) {
            self.ipam(on_lookup);
        }
        if self.runs(Controller::NodeRoute) {
            self.routes();
        }
        if self.runs(Controller::VolumeLabels) {
            self.volumes();
        }
        if self.runs(Controller::KubeletServing) {
            self.certificates();
        }
        let (follow, kept) = (self.provider.clone(), Arc::clone(&self.nodes));
        self.process.spawn("annotations of nodes", async move {
            let keep = |session: &Session| kept.keep_annotations(&session.annotations_of_nodes());
            follow.each_session(keep).await;
        });
        let at_once = std::future::ready(());
        self.process.watch(&self.nodes, self.sight, at_once);
        self.hosts
    }

    fn runs(&self, controller: Controller) -> bool {
        self.process.config.controllers.enabled(controller)
    }

    /// Adds a loop over the keys of `inputs`, whose client and events have these names; `make` is called for each lease term.
    fn add<L: ControlLoop>(
        &mut self,
        controller: Controller,
        (client, component): (&'static str, &'static str),
        inputs: LoopInputs<L::Key, L::State>,
        make: impl Fn(LoopContext<L::Key>) -> L + Send + Sync + 'static,
    ) {
        let parts = LoopParts {
            api: self.process.api(client, self.process.config.budget),
            provider: self.provider.clone(),
            nodes: Arc::clone(&self.nodes),
            events: self.events.recorder(component),
            history: self.process.history.clone(),
            doubts: self.sight.doubts(),
        };
        let host = control_loop::host(parts, inputs, make);
        self.hosts.push((controller, host));
    }

    /// cloud-node and cloud-node-lifecycle. The event handler that it returns counts answers to other loops for the rate
    /// limit of deletions. The queue of a loop that is off would only grow.
    fn nodes(&mut self) -> OnLookup {
        let (config, metrics) = (self.process.config, self.process.metrics.clone());
        let foreign = NotManaged::of(&self.nodes);
        let mut on_lookup: OnLookup = Arc::new(|_, _| {});
        if self.runs(Controller::CloudNodeLifecycle) {
            let inputs = lifecycle::subscribe(&self.nodes, &metrics.queues);
            on_lookup = lifecycle::on_lookup(&inputs);
            let (settings, not_managed) = (config.lifecycle.clone(), Arc::clone(&foreign));
            let make = move |context| {
                let (settings, counts) = (settings.clone(), metrics.lifecycle.clone());
                NodeLifecycle::new(context, settings, not_managed.clone(), counts)
            };
            let names = (NODES, lifecycle::NAME);
            self.add(Controller::CloudNodeLifecycle, names, inputs, make);
        }
        if self.runs(Controller::CloudNode) {
            let inputs = node::subscribe(&self.nodes, &metrics.queues);
            let (settings, handler) = (config.node.clone(), Arc::clone(&on_lookup));
            let make = move |context| {
                let (settings, counts) = (settings.clone(), metrics.node.clone());
                CloudNode::new(context, settings, foreign.clone(), handler.clone(), counts)
            };
            self.add(Controller::CloudNode, (NODES, node::NAME), inputs, make);
        }
        on_lookup
    }

    /// service-lb. The store of Services is empty before a provider serves load balancers.
    fn services(&mut self) {
        let (settings, metrics) = (self.process.config.service, self.process.metrics.clone());
        let (provider, services) = (self.provider.clone(), Arc::clone(&self.services));
        let inputs = service::subscribe(
            &services,
            &self.nodes,
            provider.clone(),
            settings.pace,
            &metrics.queues,
        );
        let (keys, store) = (inputs.keys.clone(), Arc::clone(&services));
        let make = move |context| {
            let (store, counts) = (Arc::clone(&store), metrics.service.clone());
            ServiceLb::new(context, store, settings, &inputs, counts)
        };
        let names = (service::COMPONENT, service::COMPONENT);
        self.add(Controller::ServiceLb, names, keys, make);
        let (follow, kept) = (provider.clone(), Arc::clone(&services));
        self.process.spawn("annotations of services", async move {
            let keep = |session: &Session| {
                if let Some(read) = session.annotations_of_services() {
                    kept.keep_annotations(&read);
                }
            };
            follow.each_session(keep).await;
        });
        let serves = |session: &Session| session.load_balancers.is_some();
        let is_served = async move { provider.offering(serves, || {}).await };
        self.process.watch(&services, self.sight, is_served);
    }

    /// node-ipam, if `--allocate-node-cidrs` is set, too (not I-1).
    fn ipam(&mut self, on_lookup: OnLookup) {
        let (config, metrics) = (self.process.config, self.process.metrics.clone());
        let Some(allocator) = config.ipam.clone() else {
            info!("Skipping {:?}: --allocate-node-cidrs is false", ipam::NAME);
            return;
        };
        let election = config.election.as_ref();
        let write_limit = election.map(|election| election.durations.write_limit());
        let inputs = ipam::subscribe(&self.nodes, &metrics.queues);
        let make = move |context| {
            let (allocator, handler) = (allocator.clone(), on_lookup.clone());
            NodeIpam::new(
                context,
                allocator,
                write_limit,
                handler,
                metrics.ipam.clone(),
            )
        };
        self.add(Controller::NodeIpam, (NODES, ipam::COMPONENT), inputs, make);
    }

    /// node-route, unless a flag says that there are no routes, or none says where.
    fn routes(&mut self) {
        let (config, metrics) = (self.process.config, self.process.metrics.clone());
        if !config.configure_cloud_routes {
            info!(
                "Skipping {:?}: --configure-cloud-routes is false",
                route::NAME
            );
            return;
        }
        let Some(settings) = config.route.clone() else {
            // The flag that asks for routes is set by default, so that a cloud without any is none.
            let provider = self.provider.clone();
            self.process.spawn("warning about routes", async move {
                let serves = |session: &Session| session.routes.is_some();
                provider.offering(serves, || {}).await;
                warn!("{WITHOUT_CLUSTER_CIDR}");
                std::future::pending::<()>().await;
            });
            return;
        };
        let inputs = route::subscribe(&self.nodes, &metrics.queues);
        let make = move |context| NodeRoute::new(context, settings.clone(), metrics.route.clone());
        let names = ("route-controller", route::COMPONENT);
        self.add(Controller::NodeRoute, names, inputs, make);
    }

    /// persistentvolume-labels. The store is empty before a provider serves volumes.
    fn volumes(&mut self) {
        let volumes = Arc::<Store<_>>::default();
        let inputs = volume::subscribe(&volumes, &self.process.metrics.queues);
        let store = Arc::clone(&volumes);
        let make = move |context| VolumeLabels::new(context, Arc::clone(&store));
        let names = ("pvl-controller", volume::COMPONENT);
        self.add(Controller::VolumeLabels, names, inputs, make);
        let provider = self.provider.clone();
        let serves = |session: &Session| session.volumes.is_some();
        let is_served = async move { provider.offering(serves, || {}).await };
        self.process.watch(&volumes, self.sight, is_served);
    }

    /// kubelet-serving-approving.
    fn certificates(&mut self) {
        let (csrs, metrics) = (Arc::<Store<_>>::default(), self.process.metrics.clone());
        let inputs = csr::subscribe(&csrs, &metrics.queues);
        let store = Arc::clone(&csrs);
        let make =
            move |context| KubeletServing::new(context, Arc::clone(&store), metrics.csr.clone());
        let names = ("kubelet-serving-approver", csr::COMPONENT);
        self.add(Controller::KubeletServing, names, inputs, make);
        let at_once = std::future::ready(());
        self.process.watch(&csrs, self.sight, at_once);
    }
}

/// Client of the loops over Nodes, as in upstream; node-ipam has it in upstream's kube-controller-manager.
const NODES: &str = "node-controller";

/// CLI-27.
fn log_disabled(controllers: &Controllers) {
    for controller in Controller::ALL {
        let (is_expected, name) = (controller.runs_only_if_named(), controller.name());
        match (controllers.enabled(controller), is_expected) {
            (true, _) => {}
            (false, true) => info!(controller = name, "controller is disabled"),
            (false, false) => warn!(controller = name, "controller is disabled"),
        }
    }
}
