//! The loop over Services: service-lb.

use std::sync::Arc;

use super::{Fatal, wiring::Wiring};
use crate::options::controllers::Controller;
use outrigger_loops::{
    context::LoopContext,
    service::{self, ServiceLb},
};
use outrigger_provider_client::Session;

/// Adds the loop and starts the store of Services, unless the loop is switched off. The store is empty
/// before a provider serves load balancers.
pub(super) async fn add(wiring: &mut Wiring<'_>) -> Result<(), Fatal> {
    let config = wiring.context.config;
    if !config.controllers.enabled(Controller::ServiceLb) {
        return Ok(());
    }
    let (provider, metrics) = (wiring.context.provider, wiring.context.metrics);
    let services = Arc::clone(&wiring.services);
    let inputs = service::subscribe(
        &services,
        &wiring.nodes,
        provider.clone(),
        config.service.pace,
        &metrics.queues,
    );
    let (of_loop, store, settings, counts) = (
        inputs.clone(),
        Arc::clone(&services),
        config.service,
        metrics.service.clone(),
    );
    let service_lb = move |context: LoopContext<_>| {
        let services = Arc::clone(&store);
        ServiceLb::new(context, services, settings, &of_loop, counts.clone())
    };
    let controller = Controller::ServiceLb;
    let account = service::COMPONENT;
    let added = wiring.add(controller, account, account, inputs.keys, service_lb);
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
    let provider = provider.clone();
    let is_served = async move { provider.load_balancers().wait_until_serving(|| {}).await };
    wiring.watch(&services, is_served);
    Ok(())
}
