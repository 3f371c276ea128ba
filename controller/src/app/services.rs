//! The store of Services, and the loop over it.

use std::sync::Arc;

use outrigger_core::{node::NodeView, service::ServiceView};
use tokio_util::sync::CancellationToken;

use super::{Ground, access::Identity, loops::Loops, supervise::Supervisor};
use crate::{
    kube::{resync, store::Store, watch},
    options::{config, controllers::Controller},
    service::{self, ServiceLb, Settings},
};

/// What listens to the stores, before they are filled. Nothing, where the loop is switched off.
pub(super) struct Intake(Option<(Store<ServiceView>, service::Intake)>);

impl Intake {
    pub(super) fn new(ground: &Ground<'_>, nodes: &mut Store<NodeView>) -> Self {
        let config = ground.config;
        if !config.controllers.enabled(Controller::ServiceLb) {
            return Self(None);
        }
        let mut services = Store::default();
        let intake = service::Intake::new(
            &mut services,
            nodes,
            ground.provider.clone(),
            config.service.pace,
            &ground.metrics.queues,
        );
        Self(Some((services, intake)))
    }

    /// Adds the loop, which writes as `identity`; `parts` keep its store in step until `process` ends.
    /// Services are of no interest before there is a provider that serves load balancers.
    pub(super) fn add(
        self,
        loops: &mut Loops,
        ground: &Ground<'_>,
        nodes: Arc<Store<NodeView>>,
        identity: &Identity,
        parts: &mut Supervisor,
        process: &CancellationToken,
    ) {
        let Some((services, intake)) = self.0 else {
            return;
        };
        let services = Arc::new(services);
        let store = Arc::clone(&services);
        ground.pages.dump("stores/services", move || {
            format!("objects={} synced={}\n", store.len(), store.is_synced())
        });

        let health = ground.watched(watch::SERVICES);
        let watching = watch::run(
            ground.informers.clone(),
            watch::SERVICES,
            Arc::clone(&services),
            health,
            ground.metrics.watch.clone(),
            process.clone(),
        );
        let (provider, stop) = (ground.provider.clone(), process.clone());
        parts.spawn("watch of services", async move {
            let served = provider.serving_load_balancers(|| {});
            if stop.run_until_cancelled(served).await.is_some() {
                watching.await;
            }
        });
        let period = ground.config.api.min_resync_period;
        let looking_again = resync::run(Arc::clone(&services), period, process.clone());
        parts.spawn("resync of services", looking_again);

        let made_of = service::Parts {
            api: identity.api.clone(),
            services,
            nodes,
            provider: ground.provider.clone(),
            events: identity.events.recorder(service::COMPONENT),
            settings: settings(&ground.config.service),
            metrics: ground.metrics.service.clone(),
        };
        loops.add(Controller::ServiceLb, move |term| {
            let (parts, intake) = (made_of.clone(), intake.clone());
            ServiceLb::new(parts, intake, term.fence, term.lease).run(term.work)
        });
    }
}

fn settings(flags: &config::Service) -> Settings {
    Settings {
        workers: flags.workers,
        pace: flags.pace,
        allowance: flags.allowance,
        drift_period: flags.drift_period,
    }
}
