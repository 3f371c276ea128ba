//! The identity of each part at the API server.

use tokio_util::sync::CancellationToken;

use super::{END_TIMEOUT, Fatal, supervise::Supervisor};
use crate::options::Config;
use outrigger_kube::{
    api::Api,
    client::{Budget, Clients},
    events::{EventMetrics, Events},
};

/// Makes the clients of the parts, named as upstream's (E-7).
pub(super) struct ApiAccess {
    clients: Clients,
    budget: Budget,
    /// `--use-service-account-credentials`.
    own_accounts: bool,
    event_metrics: EventMetrics,
}

/// A controller's own requests, and its own events.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) api: Api,
    pub(super) events: Events,
}

impl ApiAccess {
    pub(super) fn new(config: &Config, clients: Clients, event_metrics: EventMetrics) -> Self {
        Self {
            clients,
            budget: config.budget,
            own_accounts: config.service_account_credentials,
            event_metrics,
        }
    }

    /// The process's own rights, within the budget.
    pub(super) fn root(&self, name: &str) -> Api {
        Api::new(self.clients.build(name, self.budget))
    }

    /// The process's own rights without a budget, for what must not wait: a renewal of the lease.
    pub(super) fn unlimited(&self, name: &str) -> Api {
        Api::new(self.clients.build(name, Budget::UNLIMITED))
    }

    /// Events written with the process's own rights, by one of `parts` until `stop`.
    pub(super) fn root_events(
        &self,
        name: &str,
        parts: &mut Supervisor,
        stop: &CancellationToken,
    ) -> Events {
        self.events(&self.clients, name, parts, stop)
    }

    /// The identities of the controllers of the service account `name`, with the account's rights
    /// if the configuration asks for it (PROC-40), kept alive by `parts` until `stop`.
    pub(super) async fn controller(
        &self,
        name: &'static str,
        parts: &mut Supervisor,
        stop: &CancellationToken,
    ) -> Result<Identity, Fatal> {
        let mut clients = self.clients.clone();
        if self.own_accounts {
            let api = self.unlimited(super::COMPONENT);
            let of_account = clients.of_service_account(api, name).await;
            clients = of_account.map_err(|error| Fatal::Controllers(error.to_string()))?;
        }
        Ok(Identity {
            // Two clients, so that events take nothing of the controllers' budget.
            events: self.events(&clients, name, parts, stop),
            api: Api::new(clients.build(name, self.budget)),
        })
    }

    fn events(
        &self,
        clients: &Clients,
        name: &str,
        parts: &mut Supervisor,
        stop: &CancellationToken,
    ) -> Events {
        let api = Api::new(clients.build(name, self.budget));
        let (events, writer) = Events::new(api, &self.event_metrics);
        parts.spawn("event writer", writer.run(stop.clone(), END_TIMEOUT));
        events
    }
}
