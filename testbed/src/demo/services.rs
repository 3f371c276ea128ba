//! Services come and get their load balancers.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::Client;

use super::{
    LABEL, Run,
    narrator::{self, Narrator},
};
use crate::{
    Result,
    nodes::Load,
    services::{Created, Exposure, balanced, is_served},
};

/// Where the demo's Services are.
pub(super) const NAMESPACE: &str = "default";

/// The plan.
pub(super) struct Exposing {
    pub(super) client: Client,
    /// Each with the label of `selector`.
    pub(super) services: Vec<Service>,
    pub(super) selector: String,
    pub(super) timeout: Duration,
}

impl Run {
    pub(super) fn services(&self, count: usize) -> Vec<Service> {
        let names = (1..=count).map(|number| format!("{}web-{number}", self.prefix));
        names
            .map(|name| balanced(&name, (LABEL, &self.id)))
            .collect()
    }
}

impl Exposing {
    /// Makes the Services and returns when each has an address at which it is served.
    pub(super) async fn watch(self, narrator: &Narrator) -> Result<Created<Service>> {
        let count = self.services.len();
        if count > 0 {
            narrator.begin(&format!("making {}", narrator::count_of(count, "Service")));
        }
        let exposure = Exposure {
            namespace: NAMESPACE,
            services: self.services,
            selector: &self.selector,
            is_ready: is_served,
            load: Load::default(),
            timeout: self.timeout,
        };
        let services = narrator::count_of(count, "Service");
        let progress = |ready| narrator.progress(ready, count, &services, "reachable");
        exposure.run(&self.client, progress).await
    }
}
