//! Lists what a provider has for a cluster, and deletes it (`sweep`). An operator says that the cluster is gone.
//!
//! ```text
//!  list: for the cluster ─► objects, then for a cluster that never was ─► none, or the provider cannot tell clusters apart
//!  run:  list ─► delete each, until its answer is final ─► list … until only final ones are listed
//! ```
//!
//! The command calls [`Sweep::begin`], shows the operator [`Sweep::list`], and only then [`Sweep::run`]. It is the one
//! deletion that no edit of a Service asks for; it has no queue, no store and no lease. Nothing is remembered: after a
//! crash it is run again.

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
    text,
};
use outrigger_provider::{Error, OwnedLoadBalancer, Owner, Provider};
use outrigger_runtime::backoff::Backoff;
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};
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
                Some(owner) if !owner.uid.is_empty() => owner.uid.to_string(),
                _ => format!("id {} {}", balancer.id, balancer.name),
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

/// The fate of a [`Leftover`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its deletion has not begun.
    Listed,
    /// Its deletion has begun, and was last answered so.
    Begun(String),
    /// No part of it is left.
    Deleted,
    /// Not deleted, and repeating brings the same.
    Kept(String),
}

impl Fate {
    /// The word for people and programs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Begun(_) => "begun",
            Self::Deleted => "deleted",
            Self::Kept(_) => "kept",
        }
    }

    /// Why it is left.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Begun(why) | Self::Kept(why) => Some(why),
            Self::Listed | Self::Deleted => None,
        }
    }
}

/// Result of a list or of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// All that was listed.
    pub objects: Vec<(Leftover, Fate)>,
    /// Why the last list is not known to have nothing but what `objects` says is left.
    pub unfinished: Option<String>,
}

impl Swept {
    /// Nothing of `objects` was deleted.
    pub fn listed(objects: Vec<Leftover>) -> Self {
        let objects = objects.into_iter();
        Self {
            objects: objects.map(|object| (object, Fate::Listed)).collect(),
            unfinished: None,
        }
    }

    /// Returns true if the cloud has nothing of the cluster any more.
    pub fn is_clean(&self) -> bool {
        let is_deleted = |(_, fate): &(Leftover, Fate)| *fate == Fate::Deleted;
        self.unfinished.is_none() && self.objects.iter().all(is_deleted)
    }
}

/// Each object by its kind and name.
type Fates = BTreeMap<(&'static str, String), (Leftover, Fate)>;

/// A provider that lists what a cluster has.
pub struct Sweep {
    provider: Provider,
    cluster_uid: Box<str>,
    has_balancers: bool,
    has_routes: bool,
    fates: Mutex<Fates>,
}

impl Sweep {
    /// Waits for the provider, and checks that it can list.
    ///
    /// # Errors
    /// A sentence: the provider does not serve, or cannot list.
    pub async fn begin(provider: Provider, cluster_uid: &str) -> Result<Self, String> {
        let connected = timeout(PATIENCE, provider.wait_until_serving()).await;
        let session = connected.map_err(|_elapsed| {
            let state = provider.state();
            let state = state.borrow();
            format!("no answer in time; the provider is {}", *state)
        })?;
        let this = Self {
            has_balancers: session.load_balancers.is_some(),
            has_routes: session.routes.is_some(),
            cluster_uid: cluster_uid.into(),
            provider,
            fates: Mutex::default(),
        };
        let name = &session.name;
        if !this.has_balancers && !this.has_routes {
            return Err(format!(
                "the provider {name} serves neither load balancers nor routes: there is nothing to sweep"
            ));
        }
        if this.has_balancers && !session.declares::<ListLoadBalancersRequest>() {
            return Err(format!(
                "the provider {name} cannot list load balancers (it does not declare LoadBalancersCapability.list), \
                 so that those of a cluster that is gone are found with the cloud's own tools only: look for their \
                 tag or name"
            ));
        }
        Ok(this)
    }

    /// All load balancers and routes of the cluster, each once. A list that is empty is asked for twice.
    ///
    /// # Errors
    /// A sentence: the provider lists something for a UID that no cluster has, or refuses to list. That is asked
    /// after each list with objects: another process of the provider may have come.
    pub async fn list(&self) -> Result<Vec<Leftover>, String> {
        let uid = &*self.cluster_uid;
        let mut listed = self.list_of(uid).await?;
        if listed.is_empty() {
            sleep(SETTLED_AFTER).await;
            listed = self.list_of(uid).await?;
        }
        if listed.is_empty() {
            return Ok(listed);
        }
        let of_none = self.list_of(&Uuid::new_v4().to_string()).await?;
        if let Some(first) = of_none.first() {
            return Err(format!(
                "the provider does not tell clusters apart: asked for what a cluster has that never was, it lists {} \
                 objects, the first of them the {} {}; nothing is deleted by such lists",
                of_none.len(),
                first.kind(),
                first.name()
            ));
        }
        self.provider.set_cluster_uid(ClusterUid::Known(uid.into()));
        let mut shown = BTreeSet::new();
        listed.retain(|it| shown.insert((it.kind(), it.name(), it.owner())));
        Ok(listed)
    }

    async fn list_of(&self, uid: &str) -> Result<Vec<Leftover>, String> {
        self.provider.set_cluster_uid(ClusterUid::Known(uid.into()));
        let mut listed = Vec::new();
        if self.has_balancers {
            let balancers = self.repeat(None, async || {
                let list = self.provider.load_balancers().list().await;
                list.map(Answer::Final)
            });
            listed.extend(balancers.await?.into_iter().map(Leftover::LoadBalancer));
        }
        if self.has_routes {
            let routes = self.repeat(None, async || {
                self.provider.routes().list().await.map(Answer::Final)
            });
            listed.extend(routes.await?.into_iter().map(Leftover::Route));
        }
        Ok(listed)
    }

    /// Deletes what is listed, until nothing else is listed than what the provider keeps, or until `stop`
    /// says why. Load balancers are deleted as many together as the provider takes. Dropping the future
    /// leaves the rest for another sweep.
    pub async fn run(self, stop: impl Future<Output = String>) -> Swept {
        let unfinished = tokio::select! {
            biased;
            why = stop => Some(why),
            ended = self.delete_listed() => ended.err(),
        };
        Swept {
            objects: self.fates.into_inner().into_values().collect(),
            unfinished,
        }
    }

    async fn delete_listed(&self) -> Result<(), String> {
        for round in 0.. {
            let listed = self.list().await?.into_iter();
            let mut due: BTreeMap<_, _> = listed.map(|it| (it.key(), it)).collect();
            {
                let mut fates = self.fates.lock();
                due.retain(|key, object| {
                    let entry = fates.entry(key.clone());
                    let (_, fate) = entry.or_insert_with(|| (object.clone(), Fate::Listed));
                    matches!(fate, Fate::Listed | Fate::Deleted)
                });
            }
            if due.is_empty() {
                break;
            }
            let deletions = due.values().map(|object| async {
                let fate = self.delete(object).await.unwrap_or_else(Fate::Kept);
                let (kind, name, owner) = (object.kind(), object.name(), object.owner());
                let (state, error) = (fate.as_str(), fate.why());
                info!(
                    kind,
                    object = name,
                    owner,
                    fate = state,
                    error,
                    "deletion ended"
                );
                self.note(object, fate);
            });
            let mut deletions: FuturesUnordered<_> = deletions.collect();
            while deletions.next().await.is_some() {}
            if round > 0 {
                // The cloud's list is behind its answers, or shows ever more.
                let longest = DELETION_WAIT.longest();
                sleep(BACKOFF.delay(round - 1, longest, fastrand::f64())).await;
            }
        }
        Ok(())
    }

    fn note(&self, object: &Leftover, fate: Fate) {
        let noted = (object.clone(), fate);
        self.fates.lock().insert(object.key(), noted);
    }

    /// Deletes one, and repeats that until the answer is final.
    async fn delete(&self, object: &Leftover) -> Result<Fate, String> {
        match object {
            Leftover::LoadBalancer(balancer) => {
                let owner = balancer.service.as_ref();
                let owner = owner.filter(|owner| !owner.uid.is_empty()).ok_or(
                    "the provider does not say by its UID which Service it was made for, and deletes by that",
                )?;
                let service = service_of(owner);
                let kept = |why: &str| Answer::Final(Fate::Kept(why.to_owned()));
                let deleting = self.repeat(Some(object), async || {
                    let balancers = self.provider.load_balancers();
                    let answer = balancers.delete(balancers.slot().await, &service).await?;
                    Ok(match answer.disposition {
                        Disposition::Retained => {
                            kept("the provider keeps it on purpose, as with deletion protection")
                        }
                        Disposition::NotManaged => {
                            kept("the provider says that it is another controller's")
                        }
                        Disposition::InProgress => Answer::InProgress(answer.retry_after),
                        // No other one answers a deletion.
                        _ => Answer::Final(Fate::Deleted),
                    })
                });
                deleting.await
            }
            Leftover::Route(route) => {
                let deleting = self.repeat(Some(object), async || {
                    let answer = self.provider.routes().delete(route.clone(), || true).await;
                    answer.result.map(|_| Answer::Final(Fate::Deleted))
                });
                deleting.await
            }
        }
    }

    /// Repeats `call`, about this object if it is a deletion, until its answer is final.
    ///
    /// # Errors
    /// An error that repeating brings again, as a sentence.
    async fn repeat<T>(
        &self,
        object: Option<&Leftover>,
        call: impl AsyncFn() -> Result<Answer<T>, Error>,
    ) -> Result<T, String> {
        let begun = |last: &str| {
            if let Some(object) = object {
                self.note(object, Fate::Begun(last.to_owned()));
            }
        };
        let mut failures = 0;
        begun("no answer yet");
        loop {
            let (last, wait) = match call().await {
                Ok(Answer::Final(answer)) => return Ok(answer),
                Ok(Answer::InProgress(wait)) => {
                    failures = 0;
                    ("in progress".to_owned(), wait)
                }
                Err(error) => {
                    let class = error.class();
                    let wait = match class.requeue() {
                        _ if class == ErrorClass::Unimplemented => return Err(error.to_string()),
                        Requeue::OnChange => return Err(error.to_string()),
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
                    (error.to_string(), wait)
                }
            };
            begun(&last);
            sleep(wait).await;
        }
    }
}

/// A call's answer that is no error.
enum Answer<T> {
    Final(T),
    /// To be asked for again after this time.
    InProgress(Duration),
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
        deleted: Some(Timestamp::now()),
        spec: Spec {
            kind: TYPE_LOAD_BALANCER.into(),
            ..Spec::default()
        },
        ..ServiceView::default()
    }
}

#[cfg(test)]
mod tests;
