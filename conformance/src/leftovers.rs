//! Everything that the run may have made in the cloud, and its removal.

use std::collections::BTreeMap;

use outrigger_api::v1::Service;
use parking_lot::Mutex;

use crate::{
    client::Client,
    subject::Subject,
    verdict::{Verdict, failed},
};

/// Objects that may be in the cloud still.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// Services by their UID. One stays here until its Delete has ended.
    services: Mutex<BTreeMap<String, Service>>,
}

impl Leftovers {
    /// A load balancer of this Service may be made from now on.
    pub(crate) fn expect(&self, service: Service) {
        self.services.lock().insert(service.uid.clone(), service);
    }

    /// Nothing was made, since the case changes nothing.
    pub(crate) fn clear(&self) {
        self.services.lock().clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.services.lock().is_empty()
    }

    /// All, for people.
    pub(crate) fn names(&self) -> Vec<String> {
        let services = self.services.lock();
        let name = |one: &Service| format!("load balancer of Service {} ({})", one.name, one.uid);
        services.values().map(name).collect()
    }

    fn services(&self) -> Vec<Service> {
        self.services.lock().values().cloned().collect()
    }

    fn forget(&self, service: &Service) {
        self.services.lock().remove(&service.uid);
    }
}

impl Subject {
    /// Deletes everything that is left over. The first error ends nothing; it is returned at the end.
    pub(crate) async fn clean_up(&self) -> Verdict {
        let client = self.connect().await?;
        let mut verdict = Ok(());
        for service in self.leftovers().services() {
            let deleted = self.remove(&client, &service).await;
            verdict = verdict.and(deleted);
        }
        verdict
    }

    async fn remove(&self, client: &Client, service: &Service) -> Verdict {
        use outrigger_api::v1::LoadBalancerDisposition::Retained;
        let answer = self.delete(client, service).await?;
        if answer.disposition() == Retained {
            let kept = format!("the load balancer of {} is RETAINED", service.name);
            return Err(failed("a Service of the suite leaves nothing behind", kept));
        }
        self.leftovers().forget(service);
        Ok(())
    }
}
