//! Deletes the load balancers and routes that a cluster which is gone has left in the cloud (`sweep`).
//!
//! ```text
//!  list: for the cluster ─► objects, then for a cluster that never was ─► none, or the provider cannot tell clusters apart
//!  run:  list ─► delete each, until its answer is final ─► list … until only final ones are listed
//! ```
//!
//! It is the one deletion that no edit of a Service asks for. Nothing is remembered: after a crash it is run again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use jiff::Timestamp;
use outrigger_api::v1::ListLoadBalancersRequest;
use outrigger_core::{
    cluster_uid::ClusterUid,
    error_class::{DELETION_WAIT, ErrorClass, Requeue},
    route::ObservedRoute,
    service::{ServiceView, Spec, TYPE_LOAD_BALANCER, answer::Disposition},
    string_map::StringMap,
    text,
};
use outrigger_provider_client::{Error, OwnedLoadBalancer, Owner, Provider};
use outrigger_runtime::queue::Backoff;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{info, warn};
use uuid::Uuid;

/// Back-off of a list or deletion that failed, and between lists that show again what was deleted.
const BACKOFF: Backoff =
    Backoff::new(Duration::from_secs(1), DELETION_WAIT.longest()).with_jitter();

/// An empty list is believed once another one is empty, so long after it: a list may be behind, or lack objects once.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// How long the provider may take until it serves.
const PATIENCE: Duration = Duration::from_mins(1);

/// A load balancer or route in the cloud that has the cluster's UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// A load balancer.
    LoadBalancer(OwnedLoadBalancer),
    /// A route.
    Route(ObservedRoute),
}

impl Leftover {
    /// The kind of object, for people and programs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::LoadBalancer(_) => "load-balancer",
            Self::Route(_) => "route",
        }
    }

    /// Id and name in the cloud, or destination of the route, fit for a terminal.
    pub fn name(&self) -> String {
        match self {
            Self::LoadBalancer(balancer) if balancer.name.is_empty() => balancer.id.to_string(),
            Self::LoadBalancer(balancer) => format!("{} ({})", balancer.id, balancer.name),
            Self::Route(route) => text::message(&route.raw().destination_cidr),
        }
    }

    /// The Service or the Node that it was made for, fit for a terminal.
    pub fn owner(&self) -> String {
        match self {
            Self::LoadBalancer(balancer) => match &balancer.service {
                Some(Owner {
                    namespace, name, ..
                }) if !name.is_empty() => {
                    format!("{namespace}/{name}")
                }
                Some(owner) => owner.uid.to_string(),
                None => String::new(),
            },
            Self::Route(route) => {
                let raw = route.raw();
                let targets = [&raw.node_name, &raw.provider_id, &raw.next_hop_ip];
                let target = targets.into_iter().find(|target| !target.is_empty());
                text::message(target.map_or("", |target| target))
            }
        }
    }

    /// The same for the same object in each list.
    fn key(&self) -> (&'static str, String) {
        let key = match self {
            // Deleted by the Service's UID: a second load balancer of one Service is in the next list.
            Self::LoadBalancer(balancer) => match &balancer.service {
                Some(owner) => owner.uid.to_string(),
                None => format!("id {}", balancer.id),
            },
            Self::Route(route) => {
                let raw = route.raw();
                let target = [&*raw.node_name, &raw.provider_id, &raw.next_hop_ip].join(" ");
                format!("{} {} {target}", route.destination(), raw.name)
            }
        };
        (self.kind(), key)
    }
}

/// The last answer about the deletion of a [`Leftover`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No part of it is left.
    Deleted,
    /// The provider keeps it on purpose, as with deletion protection.
    Retained,
    /// The provider says that it is another controller's.
    NotManaged,
    /// Not deleted: repeating brings the same, or the time was up.
    Failed(String),
}

impl Fate {
    /// The word for people and programs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Retained => "retained",
            Self::NotManaged => "not-managed",
            Self::Failed(_) => "failed",
        }
    }
}

/// Result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// All that was listed, each with its last answer.
    pub objects: Vec<(Leftover, Fate)>,
    /// Why the last list is not known to have nothing but what `objects` says is left.
    pub unfinished: Option<String>,
}

impl Swept {
    /// Returns true if the cloud has nothing of the cluster any more.
    pub fn is_clean(&self) -> bool {
        let is_deleted = |(_, fate): &(Leftover, Fate)| *fate == Fate::Deleted;
        self.unfinished.is_none() && self.objects.iter().all(is_deleted)
    }
}

/// The provider cannot be used for a sweep; nothing was deleted by its last list.
#[derive(Debug, thiserror::Error)]
pub enum CannotSweep {
    /// There is no list to delete by.
    #[error(
        "the provider {0} cannot list load balancers (it does not declare LoadBalancersCapability.list), so that \
         those of a cluster that is gone are found with the cloud's own tools only: look for their tag or name"
    )]
    NoList(Box<str>),
    /// It serves neither.
    #[error("the provider {0} serves neither load balancers nor routes: there is nothing to sweep")]
    Nothing(Box<str>),
    /// It lists the same whatever the cluster.
    #[error(
        "the provider does not tell clusters apart: asked for the {what} of a cluster that never was, it lists \
         {listed}; nothing is deleted by such lists"
    )]
    EveryCluster {
        /// `load balancers`, `routes`.
        what: &'static str,
        /// How many it listed.
        listed: usize,
    },
    /// A list failed until the time was up.
    #[error("{0}")]
    Failed(String),
}

/// A provider that lists what a cluster has.
#[derive(Clone)]
pub struct Sweep {
    provider: Provider,
    cluster_uid: Box<str>,
    has_balancers: bool,
    has_routes: bool,
}

impl Sweep {
    /// Waits for the provider, and checks that it can list.
    ///
    /// # Errors
    /// See [`CannotSweep`].
    pub async fn begin(
        provider: Provider,
        cluster_uid: &str,
        deadline: Instant,
    ) -> Result<Self, CannotSweep> {
        let patience = deadline.min(Instant::now() + PATIENCE);
        let connected = timeout_at(patience, provider.wait_until_serving()).await;
        let session = connected.map_err(|_elapsed| CannotSweep::Failed(state(&provider)))?;
        let name = || session.name.clone();
        let this = Self {
            has_balancers: session.load_balancers.is_some(),
            has_routes: session.routes.is_some(),
            cluster_uid: cluster_uid.into(),
            provider,
        };
        if !this.has_balancers && !this.has_routes {
            return Err(CannotSweep::Nothing(name()));
        }
        if this.has_balancers && !session.declares::<ListLoadBalancersRequest>() {
            return Err(CannotSweep::NoList(name()));
        }
        Ok(this)
    }

    /// All load balancers and routes of the cluster, each once. A list that is empty is asked for twice.
    ///
    /// # Errors
    /// The last failure before `deadline`; a provider that lists something for a UID that no cluster has, too. That is asked
    /// after each list with objects: another process of the provider may have come.
    pub async fn list(&self, deadline: Instant) -> Result<Vec<Leftover>, CannotSweep> {
        let uid = &*self.cluster_uid;
        let mut listed = self.list_of(uid, deadline).await?;
        if listed.is_empty() {
            sleep_until(deadline.min(Instant::now() + SETTLED_AFTER)).await;
            listed = self.list_of(uid, deadline).await?;
        }
        if listed.is_empty() {
            return Ok(listed);
        }
        let unused_uid = Uuid::new_v4().to_string();
        let of_none = self.list_of(&unused_uid, deadline).await?;
        for (what, kind) in [("load balancers", "load-balancer"), ("routes", "route")] {
            let listed = of_none.iter().filter(|it| it.kind() == kind).count();
            if listed > 0 {
                return Err(CannotSweep::EveryCluster { what, listed });
            }
        }
        self.provider.set_cluster_uid(ClusterUid::Known(uid.into()));
        let mut shown = BTreeSet::new();
        listed.retain(|it| shown.insert((it.kind(), it.name(), it.owner())));
        Ok(listed)
    }

    async fn list_of(&self, uid: &str, deadline: Instant) -> Result<Vec<Leftover>, CannotSweep> {
        self.provider.set_cluster_uid(ClusterUid::Known(uid.into()));
        self.listed(deadline).await.map_err(CannotSweep::Failed)
    }

    async fn listed(&self, deadline: Instant) -> Result<Vec<Leftover>, String> {
        let mut listed = Vec::new();
        if self.has_balancers {
            let balancers = self.repeat(deadline, async || {
                let list = self.provider.load_balancers().list().await;
                list.map(Answer::Final)
            });
            listed.extend(balancers.await?.into_iter().map(Leftover::LoadBalancer));
        }
        if self.has_routes {
            let routes = self.repeat(deadline, async || {
                self.provider.routes().list().await.map(Answer::Final)
            });
            listed.extend(routes.await?.into_iter().map(Leftover::Route));
        }
        Ok(listed)
    }

    /// Deletes what is listed, until nothing else is listed than what the provider keeps, until `deadline`, or until `stop`
    /// says why. Load balancers are deleted as many together as the provider takes, routes in batches. Dropping the future
    /// leaves the rest for another sweep.
    pub async fn run(&self, deadline: Instant, stop: impl Future<Output = String>) -> Swept {
        let mut fates = BTreeMap::new();
        let unfinished = tokio::select! {
            biased;
            why = stop => Some(why),
            unfinished = self.delete_listed(deadline, &mut fates) => unfinished,
        };
        Swept {
            objects: fates.into_values().collect(),
            unfinished,
        }
    }

    /// Returns why it ended before the list had nothing else; none if it had.
    async fn delete_listed(
        &self,
        deadline: Instant,
        fates: &mut BTreeMap<(&'static str, String), (Leftover, Fate)>,
    ) -> Option<String> {
        for round in 0.. {
            if Instant::now() >= deadline {
                break;
            }
            let listed = match self.list(deadline).await {
                Ok(listed) => listed,
                Err(error) => return Some(error.to_string()),
            };
            let mut due: BTreeMap<_, _> = listed.into_iter().map(|it| (it.key(), it)).collect();
            due.retain(|key, _| {
                let fate = fates.get(key).map(|(_, fate)| fate);
                fate.is_none_or(|fate| *fate == Fate::Deleted)
            });
            if due.is_empty() {
                return None;
            }
            let deletions = due.into_iter().map(|(key, object)| async {
                let fate = self.delete(&object, deadline).await;
                log(&object, &fate);
                (key, (object, fate))
            });
            let mut deletions: FuturesUnordered<_> = deletions.collect();
            while let Some((key, deleted)) = deletions.next().await {
                fates.insert(key, deleted);
            }
            if round > 0 {
                // The cloud's list is behind its answers, or shows ever more.
                let wait = BACKOFF.delay(round - 1, DELETION_WAIT.longest(), fastrand::f64());
                sleep_until(deadline.min(Instant::now() + wait)).await;
            }
        }
        Some("the time was up".to_owned())
    }

    /// Deletes one, and repeats that until the answer is final.
    async fn delete(&self, object: &Leftover, deadline: Instant) -> Fate {
        let deleted = match object {
            Leftover::LoadBalancer(OwnedLoadBalancer { service: None, .. }) => Err(
                "the provider does not say which Service it was made for, and deletes by that"
                    .to_owned(),
            ),
            Leftover::LoadBalancer(OwnedLoadBalancer {
                service: Some(owner),
                ..
            }) => {
                let service = service_of(owner);
                let deleting = self.repeat(deadline, async || {
                    let balancers = self.provider.load_balancers();
                    let slot = balancers.slot(false).await;
                    let answer = balancers.delete(slot, &service).await?;
                    Ok(match answer.disposition {
                        Disposition::Retained => Answer::Final(Fate::Retained),
                        Disposition::NotManaged => Answer::Final(Fate::NotManaged),
                        Disposition::InProgress => Answer::InProgress(answer.retry_after),
                        // No other one answers a deletion.
                        _ => Answer::Final(Fate::Deleted),
                    })
                });
                deleting.await
            }
            Leftover::Route(route) => {
                let deleting = self.repeat(deadline, async || {
                    let answer = self.provider.routes().delete(route.clone(), || true).await;
                    answer.result.map(|_| Answer::Final(Fate::Deleted))
                });
                deleting.await
            }
        };
        deleted.unwrap_or_else(Fate::Failed)
    }

    /// Repeats `call` until its answer is final.
    ///
    /// # Errors
    /// An error that repeating brings again, or the last one before `deadline`, as a sentence.
    async fn repeat<T>(
        &self,
        deadline: Instant,
        call: impl AsyncFn() -> Result<Answer<T>, Error>,
    ) -> Result<T, String> {
        let mut failures = 0;
        let mut last = None;
        while let Ok(answered) = timeout_at(deadline, call()).await {
            let wait = match answered {
                Ok(Answer::Final(answer)) => return Ok(answer),
                Ok(Answer::InProgress(wait)) => {
                    failures = 0;
                    last = Some("in progress at the end of the time".to_owned());
                    wait
                }
                Err(error) => {
                    let class = error.class();
                    let wait = match class.requeue() {
                        _ if class == ErrorClass::Unimplemented => return Err(error.to_string()),
                        Requeue::OnChange | Requeue::Stop => return Err(error.to_string()),
                        Requeue::After(wait) => DELETION_WAIT.clamp(wait),
                        Requeue::BackOff | Requeue::SlowBackOff => {
                            let longest = DELETION_WAIT.longest();
                            BACKOFF.delay(failures, longest, fastrand::f64())
                        }
                    };
                    if failures == 0 {
                        warn!(class = class.as_str(), %error, "call failed, and is repeated");
                    }
                    failures += 1;
                    last = Some(error.to_string());
                    wait
                }
            };
            sleep_until(deadline.min(Instant::now() + wait)).await;
            if Instant::now() >= deadline {
                break;
            }
        }
        Err(last.unwrap_or_else(|| state(&self.provider)))
    }
}

/// A call's answer that is no error.
enum Answer<T> {
    Final(T),
    /// To be asked for again after this time.
    InProgress(Duration),
}

/// Why there was no answer in time, for people.
fn state(provider: &Provider) -> String {
    let state = provider.state();
    let state = state.borrow();
    format!("no answer in time; the provider is {}", *state)
}

fn log(object: &Leftover, fate: &Fate) {
    let (kind, object, owner) = (object.kind(), object.name(), object.owner());
    match fate {
        Fate::Deleted => info!(kind, object, owner, "deleted"),
        Fate::Retained => warn!(kind, object, owner, "kept by the provider on purpose"),
        Fate::NotManaged => warn!(kind, object, owner, "not managed by the provider"),
        Fate::Failed(error) => warn!(kind, object, owner, %error, "not deleted"),
    }
}

/// The Service of a deletion, which providers find the load balancer of by its UID.
fn service_of(owner: &Owner) -> ServiceView {
    let Owner {
        namespace,
        name,
        uid,
    } = owner;
    ServiceView {
        key: Arc::from(format!("{namespace}/{name}")),
        uid: uid.clone(),
        resource_version: Box::default(),
        deleted: Some(Timestamp::now()),
        labels: StringMap::default(),
        annotations: StringMap::default(),
        finalizers: Box::default(),
        spec: Spec {
            kind: TYPE_LOAD_BALANCER.into(),
            ..Spec::default()
        },
        ingress: Box::default(),
        conditions: Box::default(),
        shed: None,
    }
}

#[cfg(test)]
mod tests;
