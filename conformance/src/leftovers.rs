//! Everything that the run may have made in the cloud.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use outrigger_api::v1::Service;
use parking_lot::Mutex;

/// Objects that may be in the cloud still.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(Mutex<Objects>);

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

    pub(crate) fn forget(&self, service: &Service) {
        self.0.lock().services.remove(&service.uid);
    }

    pub(crate) fn forget_routes(&self) {
        self.0.lock().routes.clear();
    }
}
