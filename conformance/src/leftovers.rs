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
pub(crate) struct Leftovers(Mutex<Objects>);

/// The objects themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// Services by their UID. One stays here until its Delete has ended.
    services: BTreeMap<String, Service>,
    /// Destinations of routes. One stays here until no list shows it.
    routes: BTreeSet<IpNet>,
}

impl Leftovers {
    /// A load balancer of this Service may be made from now on.
    pub(crate) fn expect(&self, service: Service) {
        let mut objects = self.0.lock();
        objects.services.insert(service.uid.clone(), service);
    }

    /// A route with this destination may be made from now on.
    pub(crate) fn expect_route(&self, destination: IpNet) {
        self.0.lock().routes.insert(destination);
    }

    /// All that may be there.
    pub(crate) fn objects(&self) -> Objects {
        self.0.lock().clone()
    }

    /// These are there, since a case that changes nothing has made no other.
    pub(crate) fn set(&self, objects: Objects) {
        *self.0.lock() = objects;
    }

    pub(crate) fn is_empty(&self) -> bool {
        let objects = self.0.lock();
        objects.services.is_empty() && objects.routes.is_empty()
    }

    /// All, for people.
    pub(crate) fn names(&self) -> Vec<String> {
        let objects = self.0.lock();
        let name = |one: &Service| format!("load balancer of Service {} ({})", one.name, one.uid);
        let routes = objects.routes.iter().map(|one| format!("route to {one}"));
        objects.services.values().map(name).chain(routes).collect()
    }

    fn forget(&self, service: &Service) {
        self.0.lock().services.remove(&service.uid);
    }

    fn forget_routes(&self) {
        self.0.lock().routes.clear();
    }
}

impl Subject {
    /// Deletes everything that is left over. The first error ends nothing; it is returned at the end.
    pub(crate) async fn clean_up(&self) -> Verdict {
        let client = self.connect().await?;
        let mut verdict = Ok(());
        for service in self.leftovers().objects().services.into_values() {
            let deleted = self.remove(&client, &service).await;
            verdict = verdict.and(deleted);
        }
        verdict.and(self.remove_routes(&client).await)
    }

    /// Deletes, as they are listed, the routes that cases have made, until a list has none of them.
    async fn remove_routes(&self, client: &Client) -> Verdict {
        let expected = self.leftovers().objects().routes;
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
        self.leftovers().forget_routes();
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
