//! Everything that the run may have made in the cloud, and its removal.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use outrigger_api::v1::Service;
use parking_lot::Mutex;

use crate::{
    client::Client,
    inputs::limit,
    subject::{Subject, destination},
    verdict::{Stop, Verdict, failed},
};

/// Objects that may be in the cloud still.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// Services by their UID. One stays here until its Delete has ended.
    services: Mutex<BTreeMap<String, Service>>,
    /// Destinations of routes. One stays here until no list shows it.
    routes: Mutex<BTreeSet<IpNet>>,
}

impl Leftovers {
    /// A load balancer of this Service may be made from now on.
    pub(crate) fn expect(&self, service: Service) {
        self.services.lock().insert(service.uid.clone(), service);
    }

    /// A route with this destination may be made from now on.
    pub(crate) fn expect_route(&self, destination: IpNet) {
        self.routes.lock().insert(destination);
    }

    /// Nothing was made, since the case changes nothing.
    pub(crate) fn clear(&self) {
        self.services.lock().clear();
        self.routes.lock().clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.services.lock().is_empty() && self.routes.lock().is_empty()
    }

    /// All, for people.
    pub(crate) fn names(&self) -> Vec<String> {
        let services = self.services.lock();
        let name = |one: &Service| format!("load balancer of Service {} ({})", one.name, one.uid);
        let routes = self.routes.lock();
        let routes = routes.iter().map(|one| format!("route to {one}"));
        services.values().map(name).chain(routes).collect()
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
        verdict.and(self.remove_routes(&client).await)
    }

    /// Deletes, as they are listed, the routes that cases have made, until a list has none of them.
    async fn remove_routes(&self, client: &Client) -> Verdict {
        let expected = self.leftovers().routes.lock().clone();
        if expected.is_empty() {
            return Ok(());
        }
        let within = limit(self.inputs().limits.gone);
        let text = |stop: Stop| format!("{stop:?}");
        let look = async || {
            let listed = self.list_routes(client).await.map_err(text)?;
            let ours = listed.into_iter();
            let ours = ours.filter(|one| destination(one).is_some_and(|to| expected.contains(&to)));
            let ours: Vec<_> = ours.collect();
            if ours.is_empty() {
                return Ok(());
            }
            self.delete_routes(client, &ours).await.map_err(text)?;
            Err(format!("{} routes", ours.len()))
        };
        self.wait_for("a list has no route of the case", within, look)
            .await?;
        self.leftovers().routes.lock().clear();
        Ok(())
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
