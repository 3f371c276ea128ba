//! Services come and get their load balancers.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::Client;

use super::{
    LABEL, PREFIX,
    narrator::{self, Narrator},
};
use crate::{
    Result,
    nodes::Load,
    services::{Created, Exposure, balanced, is_served},
};

/// The plan.
pub(super) struct Exposing {
    pub(super) client: Client,
    pub(super) count: usize,
    pub(super) timeout: Duration,
}

impl Exposing {
    /// Makes the Services and returns when each has an address at which it is served.
    pub(super) async fn watch(self, narrator: &Narrator) -> Result<Created<Service>> {
        let count = self.count;
        if count > 0 {
            narrator.begin(&format!("making {}", narrator::count_of(count, "Service")));
        }
        let exposure = Exposure {
            namespace: "default",
            services: (1..=count)
                .map(|number| balanced(&format!("{PREFIX}web-{number}"), (LABEL, "")))
                .collect(),
            selector: LABEL,
            is_ready: is_served,
            load: Load::default(),
            timeout: self.timeout,
        };
        let services = narrator::count_of(count, "Service");
        let progress = |ready| narrator.progress(ready, count, &services, "reachable");
        exposure.run(&self.client, progress).await
    }
}
