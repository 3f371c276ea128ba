//! Everything that the run may have made in the cloud, and its deletion.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use outrigger_api::v1::Service;
use parking_lot::Mutex;

use crate::{
    inputs::limit,
    subject::{Subject, destination},
    verdict::{Verdict, failed},
};

/// Objects that may be in the cloud still.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    objects: Mutex<Objects>,
    /// All Services of the run by their UIDs, deleted or not.
    services: Mutex<BTreeMap<String, Service>>,
}

/// The objects themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// Services by their UID. One stays here until its Delete has ended.
    pub(crate) services: BTreeMap<String, Service>,
    /// Destinations of routes. One stays here until no list shows it.
    pub(crate) routes: BTreeSet<IpNet>,
}

impl Leftovers {
    /// A load balancer of this Service may be made from now on.
    pub(crate) fn expect(&self, service: Service) {
        let mut all = self.services.lock();
        all.insert(service.uid.clone(), service.clone());
        let mut objects = self.objects.lock();
        objects.services.insert(service.uid.clone(), service);
    }

    /// The Services of the run among these UIDs: their load balancers are there still. Each by its name.
    pub(crate) fn expect_again(&self, uids: impl Iterator<Item = String>) -> Vec<String> {
        let all = self.services.lock();
        let left = uids.filter_map(|uid| all.get(&uid).cloned());
        let mut objects = self.objects.lock();
        let expect = |service: Service| {
            let name = name(&service);
            objects.services.insert(service.uid.clone(), service);
            name
        };
        left.map(expect).collect()
    }

    /// A route with this destination may be made from now on.
    pub(crate) fn expect_route(&self, destination: IpNet) {
        self.objects.lock().routes.insert(destination);
    }

    /// All that may be there.
    pub(crate) fn objects(&self) -> Objects {
        self.objects.lock().clone()
    }

    /// These are there, since a case that changes nothing has made no other.
    pub(crate) fn set(&self, objects: Objects) {
        *self.objects.lock() = objects;
    }

    pub(crate) fn is_empty(&self) -> bool {
        let objects = self.objects.lock();
        objects.services.is_empty() && objects.routes.is_empty()
    }

    /// All, for people.
    pub(crate) fn names(&self) -> Vec<String> {
        let objects = self.objects.lock();
        let routes = objects.routes.iter().map(|one| format!("route to {one}"));
        objects.services.values().map(name).chain(routes).collect()
    }

    pub(crate) fn forget(&self, service: &Service) {
        self.objects.lock().services.remove(&service.uid);
    }

    pub(crate) fn forget_routes(&self) {
        self.objects.lock().routes.clear();
    }
}

fn name(service: &Service) -> String {
    format!(
        "load balancer of Service {} ({})",
        service.name, service.uid
    )
}

impl Subject {
    /// Deletes everything that is left over. The first error ends nothing; it is returned at the end.
    pub(crate) async fn clean_up(&self) -> Verdict {
        let mut verdict = Ok(());
        for service in self.leftovers().objects().services.into_values() {
            let deleted = self.remove(&service).await;
            verdict = verdict.and(deleted);
        }
        verdict.and(self.remove_routes().await)
    }

    /// Deletes, as they are listed, the routes that cases have made, until a list has none of them.
    async fn remove_routes(&self) -> Verdict {
        let expected = self.leftovers().objects().routes;
        if expected.is_empty() {
            return Ok(());
        }
        let within = limit(self.inputs().limits.gone);
        let look = async || {
            let listed = self.list_routes().await?;
            let ours = listed.into_iter();
            let ours = ours.filter(|one| destination(one).is_some_and(|to| expected.contains(&to)));
            let ours: Vec<_> = ours.collect();
            if ours.is_empty() {
                return Ok(());
            }
            self.delete_routes(&ours).await?;
            Err(failed(
                "no route of the case",
                format!("{} routes", ours.len()),
            ))
        };
        self.wait_for("a list has no route of the case", within, look)
            .await?;
        self.leftovers().forget_routes();
        Ok(())
    }

    async fn remove(&self, service: &Service) -> Verdict {
        use outrigger_api::v1::LoadBalancerDisposition::Retained;
        let answer = self.delete(service).await?;
        if answer.disposition() == Retained {
            let kept = format!("the load balancer of {} is RETAINED", service.name);
            return Err(failed("a Service of the suite leaves nothing behind", kept));
        }
        self.leftovers().forget(service);
        Ok(())
    }
}
