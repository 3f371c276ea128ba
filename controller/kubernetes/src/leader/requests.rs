//! The elector's requests, each with a time limit on both sides (PROC-22).

use std::time::Duration;

use futures::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::{LeaderConfig, object::LeaseObject, suspend};
use crate::{api::Api, cluster::SameCluster, error::ApiError};

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    /// Reads before taking over from a holder that looks dead.
    Confirm,
    /// Makes the Lease, in our name.
    Create,
    /// Claims or renews it.
    Update,
    /// Frees it.
    Release,
}

impl Purpose {
    pub(super) const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Confirm)
    }
}

#[derive(Debug)]
pub(super) struct LeaseAnswer {
    pub(super) purpose: Purpose,
    pub(super) sent: Instant,
    /// How long the machine had been suspended then.
    pub(super) suspended: Duration,
    pub(super) result: Result<LeaseObject, ApiError>,
}

pub(super) type Request = BoxFuture<'static, LeaseAnswer>;

#[derive(Clone)]
pub(super) struct Requests {
    api: Api,
    collection: String,
    object: String,
    cluster: Option<SameCluster>,
}

impl Requests {
    pub(super) fn new(api: Api, config: &LeaderConfig) -> Self {
        let collection = config.collection();
        Self {
            api: api.limited(config.durations.request_timeout()),
            object: format!("{collection}/{}", config.name),
            collection,
            cluster: config.sight.cluster().cloned(),
        }
    }

    pub(super) fn read(&self, purpose: Purpose) -> Request {
        let Self { api, object, .. } = self.clone();
        send(purpose, async move { api.get(&object).await })
    }

    /// Makes the Lease, if the cluster is still the same: the API server may be another one's since the Lease was seen.
    pub(super) fn create(&self, lease: LeaseObject) -> Request {
        let this = self.clone();
        send(Purpose::Create, async move {
            this.confirm_cluster().await?;
            this.api.create(&this.collection, &lease).await
        })
    }

    /// Replaces the version that `lease` was made from; the UID in it is no other cluster's.
    pub(super) fn update(&self, purpose: Purpose, lease: LeaseObject) -> Request {
        let Self { api, object, .. } = self.clone();
        send(purpose, async move { api.update(&object, &lease).await })
    }

    /// Does what [`Self::update`] does for a replica that does not lead: the Lease that it saw may be another cluster's.
    pub(super) fn claim(&self, lease: LeaseObject) -> Request {
        let this = self.clone();
        send(Purpose::Update, async move {
            this.confirm_cluster().await?;
            this.api.update(&this.object, &lease).await
        })
    }

    async fn confirm_cluster(&self) -> Result<(), ApiError> {
        match &self.cluster {
            Some(cluster) => cluster.confirm_by(&self.api).await,
            None => Ok(()),
        }
    }
}

fn send(
    purpose: Purpose,
    exchange: impl Future<Output = Result<LeaseObject, ApiError>> + Send + 'static,
) -> Request {
    async move {
        LeaseAnswer {
            purpose,
            suspended: suspend::at_least(),
            sent: Instant::now(),
            result: exchange.await,
        }
    }
    .boxed()
}
