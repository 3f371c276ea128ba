//! Common inputs of all loops.

use super::metrics::Metrics;
use crate::{
    kube::{api::Api, watch},
    options::Config,
    provider::Provider,
    serving::{Checks, Pages, Scope},
};

/// Common inputs of all loops (upstream's `ControllerContext`).
pub(super) struct ControllerContext<'a> {
    pub(super) config: &'a Config,
    /// For watches.
    pub(super) informers: Api,
    pub(super) provider: &'a Provider,
    pub(super) metrics: &'a Metrics,
    /// Show the sizes of stores.
    pub(super) pages: &'a Pages,
    /// Served on `/readyz`.
    pub(super) checks: &'a Checks,
}

impl ControllerContext<'_> {
    /// The readiness check `watch-<resource>`.
    pub(super) fn watched(&self, resource: watch::Resource) -> watch::Health {
        let health = watch::Health::new(resource);
        let checked = health.clone();
        let name = format!("watch-{}", resource.name);
        self.checks
            .add(&name, Scope::Readiness, move || checked.check());
        health
    }
}
