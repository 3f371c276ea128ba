//! The Lease at the API server: its JSON, requests with a time limit on both sides (PROC-22), and a watch of its versions.

use std::collections::BTreeMap;

use futures::{StreamExt, stream, stream::BoxStream};
use outrigger_core::lease::{Durations, LeaseRecord};
use outrigger_runtime::{log_repeated, telemetry::Repeats};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::LeaderConfig;
use crate::{
    api::Api,
    cluster::SameCluster,
    decode::{Item, ObjectEvent},
    error::ApiError,
};

/// Fields that the election does not know are carried along, since a PUT replaces the whole object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeaseObject {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: LeaseRecord,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Metadata {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource_version: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl LeaseObject {
    /// A Lease that does not exist yet.
    pub(super) fn new(config: &LeaderConfig) -> Self {
        let entry = |key: &str, value: &str| (key.to_owned(), json!(value));
        let LeaderConfig {
            namespace, name, ..
        } = config;
        Self {
            metadata: Metadata {
                rest: Map::from_iter([entry("namespace", namespace), entry("name", name)]),
                ..Metadata::default()
            },
            spec: LeaseRecord::default(),
            rest: Map::from_iter([
                entry("apiVersion", "coordination.k8s.io/v1"),
                entry("kind", "Lease"),
            ]),
        }
    }
}

/// The Lease as it is after a request; none if there is none.
pub(super) type LeaseAnswer = Result<Option<LeaseObject>, ApiError>;

#[derive(Clone)]
pub(super) struct LeaseApi {
    api: Api,
    name: String,
    collection: String,
    durations: Durations,
    cluster: Option<SameCluster>,
}

impl LeaseApi {
    pub(super) fn new(api: Api, config: &LeaderConfig) -> Self {
        let namespace = &config.namespace;
        Self {
            api: api.limited(config.durations.request_timeout()),
            name: config.name.clone(),
            collection: format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
            durations: config.durations,
            cluster: config.sight.cluster().cloned(),
        }
    }

    /// Reads the Lease where there is no `lease` to write, makes it if it has no version yet, and else replaces the version
    /// that it was made from.
    ///
    /// The API server may be another cluster's since the Lease was seen: that is asked before it is made, and before a replica
    /// `claims` it. The UID in that of a leader is its own.
    pub(super) async fn send(&self, lease: Option<LeaseObject>, claims: bool) -> LeaseAnswer {
        let path = format!("{}/{}", self.collection, self.name);
        let Some(lease) = lease else {
            return match self.api.get(&path).await {
                Err(error) if error.is_not_found() => Ok(None),
                answer => answer.map(Some),
            };
        };
        let is_new = lease.metadata.resource_version.is_empty();
        if (claims || is_new)
            && let Some(cluster) = &self.cluster
        {
            cluster.confirm().await?;
        }
        let written = if is_new {
            self.api.create(&self.collection, &lease).await
        } else {
            self.api.update(&path, &lease).await
        };
        written.map(Some)
    }

    /// Versions of the Lease as a watch shows them, without end: a released lease is taken immediately, and a stolen one is
    /// noticed immediately. A watch that fails or ends begins again after a retry period, with the version by then.
    pub(super) fn versions(&self, api: Api) -> BoxStream<'static, String> {
        let watch = LeaseWatch {
            api,
            lease: self.clone(),
            events: None,
            failures: Repeats::default(),
        };
        stream::unfold(watch, |mut watch| async move {
            let version = watch.next_version().await;
            Some((version, watch))
        })
        .boxed()
    }
}

struct LeaseWatch {
    api: Api,
    lease: LeaseApi,
    events: Option<BoxStream<'static, Result<ObjectEvent<LeaseObject>, ApiError>>>,
    failures: Repeats,
}

impl LeaseWatch {
    async fn next_version(&mut self) -> String {
        loop {
            match self.next_event().await {
                Ok(Some(ObjectEvent::Applied(item) | ObjectEvent::Deleted(item))) => {
                    return match item {
                        Item::Decoded(lease) => lease.metadata.resource_version,
                        Item::Undecodable(lease) => lease.resource_version,
                    };
                }
                Ok(Some(ObjectEvent::Bookmark(_))) => continue,
                Ok(None) => {}
                Err(error) => log_repeated!(
                    warn, self.failures, &error.cause(), lease = self.lease.name, %error,
                    "lease cannot be watched; polling it"
                ),
            }
            self.events = None;
            sleep(self.lease.durations.retry(fastrand::f64())).await;
        }
    }

    /// The next event of the watch, which begins if there is none; none if it has ended.
    async fn next_event(&mut self) -> Result<Option<ObjectEvent<LeaseObject>>, ApiError> {
        let events = match &mut self.events {
            Some(events) => events,
            none => {
                let LeaseApi {
                    name,
                    collection,
                    durations,
                    ..
                } = &self.lease;
                let (selector, limit) = (("metadata.name", &**name), durations.request_timeout());
                // No version: the first event shows the Lease as it is.
                let watch = self.api.watch(collection, Some(selector), "", limit);
                none.insert(watch.await?.boxed())
            }
        };
        events.next().await.transpose()
    }
}
