//! Each loop with the stores, the rights and the settings that it needs.

use std::sync::Arc;

use outrigger_core::route::WITHOUT_CLUSTER_CIDR;
use tracing::{info, warn};

use super::{Fatal, wiring::Wiring};
use crate::options::controllers::{Controller, Controllers};
use outrigger_kube::store::Store;
use outrigger_loops::{
    csr::{self, KubeletServing},
    ipam::{self, NodeIpam},
    lifecycle::{self, NodeLifecycle, OnLookup},
    node::{self, CloudNode},
    not_managed::NotManaged,
    route::{self, NodeRoute},
    service::{self, ServiceLb},
    volume::{self, VolumeLabels},
};
use outrigger_provider::Session;

/// Account of the loops over Nodes, as in upstream; node-ipam has it in upstream's kube-controller-manager.
const NODES: &str = "node-controller";
/// Account of node-route.
const ROUTES: &str = "route-controller";
/// Account of persistentvolume-labels, as that of upstream's former controller.
const VOLUMES: &str = "pvl-controller";
/// Account of kubelet-serving-approving. Not kube-controller-manager's `certificate-controller`, which would get a right
/// more.
const CERTIFICATES: &str = "kubelet-serving-approver";

/// Adds the loops that the flags ask for. The store of Nodes is last: every loop has subscribed to it then.
pub(super) async fn add(wiring: &mut Wiring<'_>) -> Result<(), Fatal> {
    log_disabled(&wiring.process.config.controllers);
    let on_lookup = nodes(wiring).await?;
    services(wiring).await?;
    ipam(wiring, on_lookup).await?;
    routes(wiring).await?;
    volumes(wiring).await?;
    certificates(wiring).await?;
    let nodes = Arc::clone(&wiring.nodes);
    let (follow, kept) = (wiring.provider.clone(), Arc::clone(&nodes));
    wiring.spawn("annotations of nodes", async move {
        let keep = |session: &Session| kept.keep_annotations(&session.annotations_of_nodes());
        follow.each_session(keep).await;
    });
    wiring.watch(&nodes, std::future::ready(()));
    Ok(())
}

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

/// cloud-node and cloud-node-lifecycle. The event handler that it returns counts answers to other loops for the rate limit
/// of deletions.
async fn nodes(wiring: &mut Wiring<'_>) -> Result<OnLookup, Fatal> {
    let (config, metrics) = (wiring.process.config, &wiring.process.metrics);
    let not_managed = Arc::new(NotManaged::default());
    let to_check = lifecycle::subscribe(&wiring.nodes, &metrics.queues);
    let to_initialize = node::subscribe(&wiring.nodes, Arc::clone(&not_managed), &metrics.queues);
    let on_lookup = lifecycle::on_lookup(&to_check);

    let parts = (
        config.node.clone(),
        Arc::clone(&not_managed),
        Arc::clone(&on_lookup),
        metrics.node.clone(),
    );
    let make = |context, (settings, not_managed, on_lookup, counts)| {
        CloudNode::new(context, settings, not_managed, on_lookup, counts)
    };
    let controller = Controller::CloudNode;
    let added = wiring.add(controller, NODES, node::NAME, to_initialize, parts, make);
    added.await?;

    let parts = (
        config.lifecycle.clone(),
        not_managed,
        metrics.lifecycle.clone(),
    );
    let make = |context, (settings, not_managed, counts)| {
        NodeLifecycle::new(context, settings, not_managed, counts)
    };
    let controller = Controller::CloudNodeLifecycle;
    let added = wiring.add(controller, NODES, lifecycle::NAME, to_check, parts, make);
    added.await?;
    Ok(on_lookup)
}

/// service-lb. The store of Services is empty before a provider serves load balancers.
async fn services(wiring: &mut Wiring<'_>) -> Result<(), Fatal> {
    let config = wiring.process.config;
    if !config.controllers.enabled(Controller::ServiceLb) {
        return Ok(());
    }
    let (provider, metrics) = (wiring.provider.clone(), &wiring.process.metrics);
    let settings = config.service;
    let services = Arc::clone(&wiring.services);
    let inputs = service::subscribe(
        &services,
        &wiring.nodes,
        provider.clone(),
        settings.pace,
        &metrics.queues,
    );
    let keys = inputs.keys.clone();
    let parts = (
        Arc::clone(&services),
        settings,
        inputs,
        metrics.service.clone(),
    );
    let make = |context, (services, settings, inputs, counts)| {
        ServiceLb::new(context, services, settings, &inputs, counts)
    };
    let (controller, account) = (Controller::ServiceLb, service::COMPONENT);
    let added = wiring.add(controller, account, account, keys, parts, make);
    added.await?;
    let (follow, kept) = (provider.clone(), Arc::clone(&services));
    wiring.spawn("annotations of services", async move {
        let keep = |session: &Session| {
            if let Some(read) = session.annotations_of_services() {
                kept.keep_annotations(&read);
            }
        };
        follow.each_session(keep).await;
    });
    let serves = |session: &Session| session.load_balancers.is_some();
    let is_served = async move { provider.offering(serves, || {}).await };
    wiring.watch(&services, is_served);
    Ok(())
}

/// node-ipam, if `--controllers` names it and `--allocate-node-cidrs` is set (not I-1).
async fn ipam(wiring: &mut Wiring<'_>, on_lookup: OnLookup) -> Result<(), Fatal> {
    let (config, metrics) = (wiring.process.config, &wiring.process.metrics);
    if !config.controllers.enabled(Controller::NodeIpam) {
        return Ok(());
    }
    let Some(allocator) = config.ipam.clone() else {
        info!("Skipping {:?}: --allocate-node-cidrs is false", ipam::NAME);
        return Ok(());
    };
    let election = config.election.as_ref();
    let write_limit = election.map(|election| election.durations.write_limit());
    let inputs = ipam::subscribe(&wiring.nodes, &metrics.queues);
    let parts = (allocator, write_limit, on_lookup, metrics.ipam.clone());
    let make = |context, (allocator, write_limit, on_lookup, counts)| {
        NodeIpam::new(context, allocator, write_limit, on_lookup, counts)
    };
    let controller = Controller::NodeIpam;
    let added = wiring.add(controller, NODES, ipam::COMPONENT, inputs, parts, make);
    added.await
}

/// node-route, unless a flag says that there are no routes, or none says where.
async fn routes(wiring: &mut Wiring<'_>) -> Result<(), Fatal> {
    let (config, metrics) = (wiring.process.config, &wiring.process.metrics);
    if !config.controllers.enabled(Controller::NodeRoute) {
        return Ok(());
    }
    if !config.configure_cloud_routes {
        info!(
            "Skipping {:?}: --configure-cloud-routes is false",
            route::NAME
        );
        return Ok(());
    }
    let Some(settings) = config.route.clone() else {
        // The flag that asks for routes is set by default, so that a cloud without any is none.
        let provider = wiring.provider.clone();
        wiring.spawn("warning about routes", async move {
            let serves = |session: &Session| session.routes.is_some();
            provider.offering(serves, || {}).await;
            warn!("{WITHOUT_CLUSTER_CIDR}");
            std::future::pending::<()>().await;
        });
        return Ok(());
    };
    let inputs = route::subscribe(&wiring.nodes, &metrics.queues);
    let parts = (settings, metrics.route.clone());
    let make = |context, (settings, counts)| NodeRoute::new(context, settings, counts);
    let controller = Controller::NodeRoute;
    let added = wiring.add(controller, ROUTES, route::COMPONENT, inputs, parts, make);
    added.await
}

/// persistentvolume-labels, if `--controllers` names it. The store is empty before a provider serves volumes.
async fn volumes(wiring: &mut Wiring<'_>) -> Result<(), Fatal> {
    let (config, metrics) = (wiring.process.config, &wiring.process.metrics);
    if !config.controllers.enabled(Controller::VolumeLabels) {
        return Ok(());
    }
    let provider = wiring.provider.clone();
    let volumes = Arc::<Store<_>>::default();
    let inputs = volume::subscribe(&volumes, &metrics.queues);
    let parts = Arc::clone(&volumes);
    let make = VolumeLabels::new;
    let controller = Controller::VolumeLabels;
    let added = wiring.add(controller, VOLUMES, volume::COMPONENT, inputs, parts, make);
    added.await?;
    let serves = |session: &Session| session.volumes.is_some();
    let is_served = async move { provider.offering(serves, || {}).await };
    wiring.watch(&volumes, is_served);
    Ok(())
}

/// kubelet-serving-approving, if `--controllers` names it.
async fn certificates(wiring: &mut Wiring<'_>) -> Result<(), Fatal> {
    let (config, metrics) = (wiring.process.config, &wiring.process.metrics);
    if !config.controllers.enabled(Controller::KubeletServing) {
        return Ok(());
    }
    let csrs = Arc::<Store<_>>::default();
    let inputs = csr::subscribe(&csrs, &metrics.queues);
    let parts = (Arc::clone(&csrs), metrics.csr.clone());
    let make = |context, (csrs, counts)| KubeletServing::new(context, csrs, counts);
    let controller = Controller::KubeletServing;
    let added = wiring.add(
        controller,
        CERTIFICATES,
        csr::COMPONENT,
        inputs,
        parts,
        make,
    );
    added.await?;
    wiring.watch(&csrs, std::future::ready(()));
    Ok(())
}
