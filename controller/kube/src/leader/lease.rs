//! The Lease at the API server: its JSON, requests with a time limit on both sides (PROC-22), and a watch of its versions.
//!
//! Only the elector calls it. Fields that the election does not know are sent back as they were read.

use std::{collections::BTreeMap, future::ready, sync::Arc};

use futures::{
    StreamExt, TryFutureExt,
    stream::{self, BoxStream},
};
use outrigger_core::lease::LeaseRecord;
use outrigger_runtime::{log_repeated, telemetry::Repeats};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::LeaderConfig;
use crate::{
    api::Api,
    cluster::{lease_path, leases},
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
    config: Arc<LeaderConfig>,
}

impl LeaseApi {
    pub(super) fn new(api: Api, config: &Arc<LeaderConfig>) -> Self {
        Self {
            api: api.limited(config.durations.request_timeout()),
            config: Arc::clone(config),
        }
    }

    /// Reads the Lease where there is no `lease` to write, makes it if it has no version yet, and else replaces the version
    /// that it was made from.
    ///
    /// The API server may be another cluster's since the Lease was seen: that is asked before it is made, and before a replica
    /// `claims` it. The UID in that of a leader is its own.
    pub(super) async fn send(&self, lease: Option<LeaseObject>, claims: bool) -> LeaseAnswer {
        let path = lease_path(&self.config.namespace, &self.config.name);
        let Some(lease) = lease else {
            return match self.api.get(&path).await {
                Err(error) if error.is_not_found() => Ok(None),
                answer => answer.map(Some),
            };
        };
        let is_new = lease.metadata.resource_version.is_empty();
        if (claims || is_new)
            && let Some(cluster) = self.config.sight.cluster()
        {
            cluster.confirm().await?;
        }
        let written = if is_new {
            let collection = leases(&self.config.namespace);
            self.api.create(&collection, &lease).await
        } else {
            self.api.update(&path, &lease).await
        };
        written.map(Some)
    }

    /// Versions of the Lease as a watch shows them, without end: a released lease is taken immediately, and a stolen one is
    /// noticed immediately. A watch that fails or ends begins again after a retry period, with the version by then.
    pub(super) fn versions(&self, api: Api) -> BoxStream<'static, String> {
        let (config, failures) = (Arc::clone(&self.config), Arc::new(Repeats::default()));
        let watches = stream::repeat_with(move || {
            let (api, config, failures) = (api.clone(), Arc::clone(&config), Arc::clone(&failures));
            let (name, durations) = (config.name.clone(), config.durations);
            let events = async move {
                let selector = Some(("metadata.name", &*config.name));
                let (collection, limit) = (leases(&config.namespace), durations.request_timeout());
                // No version: the first event shows the Lease as it is.
                api.watch(&collection, selector, "", limit).await
            };
            let versions = events.try_flatten_stream().filter_map(move |event| {
                let version = version(event).unwrap_or_else(|error| {
                    log_repeated!(
                        warn, failures, &error.cause(), lease = name, %error,
                        "lease cannot be watched; polling it"
                    );
                    None
                });
                ready(version)
            });
            let pause = async move {
                sleep(durations.retry(fastrand::f64())).await;
                None
            };
            versions.chain(stream::once(pause).filter_map(ready))
        });
        watches.flatten().boxed()
    }
}

/// The version of the Lease in `event`; none in a bookmark.
fn version(event: Result<ObjectEvent<LeaseObject>, ApiError>) -> Result<Option<String>, ApiError> {
    Ok(match event? {
        ObjectEvent::Applied(item) | ObjectEvent::Deleted(item) => Some(match item {
            Item::Decoded(lease) => lease.metadata.resource_version,
            Item::Undecodable(lease) => lease.resource_version,
        }),
        ObjectEvent::Bookmark(_) => None,
    })
}
