//! The cloud's operations on load balancers.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Cloud, CloudError, RateLimited};
use crate::journal::{Event, LoadBalancerName};
use crate::load_balancers::{
    LoadBalancer, LoadBalancerInventory, LoadBalancerRefused, LoadBalancerSpec, Target,
};

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// Nothing is left.
    Gone,
    /// It is gone at this time.
    Going(Timestamp),
    /// It is protected and stays.
    Protected,
}

impl Cloud {
    // ---- calls of a provider -------------------------------------------------------------

    /// One call to the cloud for the load balancer with these tags.
    pub async fn find_load_balancer(
        &self,
        cluster: &str,
        uid: &str,
    ) -> Result<Option<Arc<LoadBalancer>>, RateLimited> {
        self.pay("FindLoadBalancer").await?;
        Ok(self.locked(|inventory, _| inventory.find(cluster, uid).cloned()))
    }

    /// One call to the cloud that makes a load balancer with its tags, or finds it made.
    pub async fn create_load_balancer(
        &self,
        cluster: &str,
        spec: &LoadBalancerSpec,
        targets: Arc<[Target]>,
    ) -> Result<Arc<LoadBalancer>, CloudError> {
        self.pay("CreateLoadBalancer").await?;
        let rules = &self.config().load_balancers;
        self.change_load_balancers(|inventory, now| {
            let is_new = inventory.find(cluster, &spec.service.uid).is_none();
            let made = inventory.create(cluster, spec, targets, rules, now)?;
            if is_new {
                self.record(|| Event::LoadBalancerCreated(name_of(&made)));
            }
            Ok(made)
        })
        .await
    }

    /// One call to the cloud that changes all but the targets.
    pub async fn change_load_balancer(
        &self,
        id: &str,
        spec: &LoadBalancerSpec,
    ) -> Result<Arc<LoadBalancer>, CloudError> {
        self.pay("ModifyLoadBalancer").await?;
        let rules = &self.config().load_balancers;
        self.change_load_balancers(|inventory, _| inventory.change(id, spec, rules))
            .await
    }

    /// One call to the cloud that replaces the targets of the load balancer with these tags, as a cloud
    /// can that finds load balancers by a name made of them; none where there is none, or it is going.
    pub async fn set_targets(
        &self,
        cluster: &str,
        uid: &str,
        targets: Arc<[Target]>,
    ) -> Result<Option<Arc<LoadBalancer>>, CloudError> {
        self.pay("SetTargets").await?;
        self.change_load_balancers(|inventory, _| {
            let existing = inventory.find(cluster, uid);
            let living = existing.filter(|existing| existing.gone_at.is_none());
            let id = living.map(|living| living.id.clone());
            id.map(|id| inventory.set_targets(&id, targets)).transpose()
        })
        .await
    }

    /// One call to the cloud that deletes a load balancer.
    pub async fn delete_load_balancer(&self, id: &str) -> Result<Deletion, CloudError> {
        self.pay("DeleteLoadBalancer").await?;
        let takes = self.config().load_balancers.deprovisioning;
        self.change_load_balancers(|inventory, now| {
            let Some(load_balancer) = inventory.by_id(id).cloned() else {
                return Ok(Deletion::Gone);
            };
            if load_balancer.protected {
                return Ok(Deletion::Protected);
            }
            if load_balancer.gone_at.is_none() {
                self.record(|| Event::LoadBalancerDeleted(name_of(&load_balancer)));
            }
            if takes.is_zero() {
                inventory.remove(id);
                return Ok(Deletion::Gone);
            }
            let takes = SignedDuration::try_from(takes).unwrap_or_default();
            let gone_at = load_balancer.gone_at;
            let gone_at = gone_at.unwrap_or_else(|| now.checked_add(takes).unwrap_or(now));
            inventory.replace(LoadBalancer {
                gone_at: Some(gone_at),
                ..LoadBalancer::clone(&load_balancer)
            })?;
            Ok(Deletion::Going(gone_at))
        })
        .await
    }

    /// One call to the cloud for the page of a cluster's load balancers after an id, and whether
    /// there are more.
    pub async fn load_balancer_page(
        &self,
        cluster: &str,
        after: Option<&str>,
    ) -> Result<(Vec<Arc<LoadBalancer>>, bool), RateLimited> {
        let page = |size| self.locked(|inventory, _| inventory.page(cluster, after, size));
        self.page("ListLoadBalancers", page).await
    }

    // ---- actions of people -------------------------------------------------------------------

    /// All load balancers, by id.
    pub fn load_balancers(&self) -> Vec<Arc<LoadBalancer>> {
        self.locked(|inventory, _| inventory.iter().cloned().collect())
    }

    /// The load balancer with this id, Service UID or `namespace/name`.
    pub fn load_balancer(&self, target: &str) -> Option<Arc<LoadBalancer>> {
        self.locked(|inventory, _| {
            let is_meant = |one: &&Arc<LoadBalancer>| {
                one.service.as_ref().is_some_and(|tag| {
                    let name = target.split_once('/');
                    tag.uid == target || name == Some((tag.namespace.as_str(), tag.name.as_str()))
                })
            };
            let by_id = inventory.by_id(target);
            by_id.or_else(|| inventory.iter().find(is_meant)).cloned()
        })
    }

    /// Puts a load balancer into the cloud behind every provider's back.
    pub fn add_load_balancer(
        &self,
        load_balancer: LoadBalancer,
    ) -> Result<Arc<LoadBalancer>, LoadBalancerRefused> {
        let added = self.locked(|inventory, _| inventory.insert(load_balancer));
        self.changed();
        added
    }

    /// Changes one behind its provider's back.
    pub fn edit_load_balancer(
        &self,
        load_balancer: LoadBalancer,
    ) -> Result<Arc<LoadBalancer>, LoadBalancerRefused> {
        let edited = self.locked(|inventory, _| inventory.replace(load_balancer));
        self.changed();
        edited
    }

    /// Removes one at once, protected or not, behind its provider's back.
    pub fn remove_load_balancer(&self, id: &str) -> Option<Arc<LoadBalancer>> {
        let removed = self.locked(|inventory, _| inventory.remove(id));
        self.changed();
        removed
    }

    /// Works on the inventory as it is now.
    fn locked<T>(&self, work: impl FnOnce(&mut LoadBalancerInventory, Timestamp) -> T) -> T {
        let now = self.config().clock.now();
        let mut held = self.0.holdings.lock();
        let inventory = &mut held.load_balancers;
        let settled = inventory.settle(now);
        let done = work(inventory, now);
        drop(held);
        if settled {
            self.changed();
        }
        done
    }

    async fn change_load_balancers<T>(
        &self,
        change: impl FnOnce(&mut LoadBalancerInventory, Timestamp) -> Result<T, LoadBalancerRefused>,
    ) -> Result<T, CloudError> {
        let changed = self.locked(change)?;
        self.changed();
        self.kept().await;
        Ok(changed)
    }
}

fn name_of(load_balancer: &LoadBalancer) -> LoadBalancerName {
    LoadBalancerName {
        id: load_balancer.id.clone(),
        uid: load_balancer.service.as_ref().map(|tag| tag.uid.clone()),
    }
}
