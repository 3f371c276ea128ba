//! The fake cloud: its content, the cost of a call to it, and the calls so far.
//!
//! Rooms for the resources stand beside: [`instances`](crate::instances),
//! [`load_balancers`](crate::load_balancers), [`routes`](crate::routes) and [`volumes`](crate::volumes); this one has the parts that they share.

mod calls;
mod clock;
mod cost;
mod counters;
mod description;
mod load_balancers;
mod routes;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

pub use clock::Clock;
pub use cost::{Cost, Quota, RateLimited, part};
pub use counters::{CloudCounts, Counts};
pub use description::Description;
pub use load_balancers::Deletion;

use crate::faults::Faults;
use crate::instances::{
    BadText, Instance, InstanceId, InstanceSpec, Inventory, LookupRequest, LookupResult,
    Maintenance, NodeName, Placement, PodCidrRange, Power, ProviderName, Refused, Rules,
    is_visible,
};
use crate::journal::Journal;
use crate::load_balancers::{LoadBalancerInventory, LoadBalancerRefused, LoadBalancerRules};
use crate::routes::{RouteRefused, RouteTable};
use crate::volumes::Volume;
use cost::Meter;
use counters::Counters;

/// How a cloud behaves. [`latency`](Self::latency), [`jitter`](Self::jitter) and
/// [`quota`](Self::quota) can be changed while it runs, the rest is fixed.
#[derive(Debug, Clone)]
pub struct CloudConfig {
    /// Name of the provider and scheme of its provider IDs.
    pub provider_name: ProviderName,
    /// Default place of instances.
    pub placement: Placement,
    /// Makes an instance for each node that is asked about.
    pub synthesize: bool,
    /// Ranges from which each new instance gets a block for its Pods, one range of each IP family.
    pub pod_cidrs: Vec<PodCidrRange>,
    /// Most instances that one call to the cloud answers.
    pub page_size: NonZeroUsize,
    /// Which lookup is the cheapest, and so what a lookup of many nodes costs.
    pub preference: Preference,
    /// How long one call takes.
    pub latency: Duration,
    /// By which part of it that varies, 0 to 1.
    pub jitter: f64,
    /// How many calls are accepted.
    pub quota: Option<Quota>,
    /// How long a new instance is missing from answers; absent: not at all.
    pub visibility_delay: Option<Duration>,
    /// How load balancers are made.
    pub load_balancers: LoadBalancerRules,
    /// Most routes that there is room for.
    pub max_routes: Option<usize>,
    /// A change of a load balancer or a route is answered once a [`Keeper`](crate::state::Keeper) has written it
    /// down; there must be one.
    pub durable: bool,
    /// Seed of all randomness.
    pub seed: u64,
    /// Where the time comes from.
    pub clock: Clock,
}

impl CloudConfig {
    /// An instant, unlimited cloud in the region `mock-1` that knows only the instances created in it.
    pub fn new() -> Result<Self, BadText> {
        Ok(Self {
            provider_name: "mock".parse()?,
            placement: Placement::new("mock-1".parse()?, Vec::new(), "mock.medium".parse()?)?,
            synthesize: false,
            pod_cidrs: Vec::new(),
            page_size: NonZeroUsize::new(200).unwrap_or(NonZeroUsize::MIN),
            preference: Preference::Batch,
            latency: Duration::ZERO,
            jitter: 0.0,
            quota: None,
            visibility_delay: None,
            load_balancers: LoadBalancerRules::default(),
            max_routes: None,
            durable: false,
            seed: 0,
            clock: Clock::Wall,
        })
    }
}

/// Which lookup a cloud does best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Preference {
    /// One call to the cloud per node
    Each,
    /// One call to the cloud per page of nodes
    Batch,
    /// Like batch, and listing everything is cheaper still
    List,
}

/// Why a call to the cloud failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// The rate limit.
    #[error(transparent)]
    RateLimited(#[from] RateLimited),
    /// A load balancer was refused.
    #[error(transparent)]
    LoadBalancer(#[from] LoadBalancerRefused),
    /// A route was refused.
    #[error(transparent)]
    Route(#[from] RouteRefused),
}

/// The content of a cloud, as of one moment.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Holdings {
    /// Its instances.
    pub instances: Inventory,
    /// Its load balancers.
    pub load_balancers: LoadBalancerInventory,
    /// Its routes.
    pub routes: RouteTable,
    /// Its volumes, by handle.
    pub volumes: BTreeMap<String, Volume>,
}

/// A cloud. Clones are the same cloud.
#[derive(Debug, Clone)]
pub struct Cloud(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: CloudConfig,
    holdings: Mutex<Holdings>,
    meter: Mutex<Meter>,
    faults: Faults,
    counters: Counters,
    journal: OnceLock<Journal>,
    /// Counts the changes of the inventories, for whoever writes them down.
    changes: watch::Sender<u64>,
    /// How many of them are written down.
    saved: watch::Sender<u64>,
}

impl Cloud {
    /// An empty cloud.
    pub fn new(config: CloudConfig) -> Self {
        Self::with_holdings(config, Holdings::default())
    }

    /// A cloud with this content from the start.
    pub fn with_holdings(config: CloudConfig, holdings: Holdings) -> Self {
        let mut random = fastrand::Rng::with_seed(config.seed);
        let meter = Meter::new(config.latency, config.jitter, config.quota, random.fork());
        Self(Arc::new(Shared {
            holdings: Mutex::new(holdings),
            meter: Mutex::new(meter),
            faults: Faults::new(random),
            counters: Counters::default(),
            journal: OnceLock::new(),
            changes: watch::Sender::new(0),
            saved: watch::Sender::new(0),
            config,
        }))
    }

    fn inventory(&self) -> MappedMutexGuard<'_, Inventory> {
        MutexGuard::map(self.0.holdings.lock(), |held| &mut held.instances)
    }

    /// Its settings, as of the start.
    pub fn config(&self) -> &CloudConfig {
        &self.0.config
    }

    /// The provider ID of an instance.
    pub fn provider_id(&self, id: &InstanceId) -> String {
        format!("{}://{id}", self.0.config.provider_name)
    }

    // ---- calls of a provider -------------------------------------------------------------

    /// One call to the cloud about at most a page of instances. The answers are true together.
    pub async fn look_up(
        &self,
        requests: &[LookupRequest],
    ) -> Result<Vec<LookupResult>, RateLimited> {
        self.pay("GetInstances").await?;
        let now = self.0.config.clock.now();
        let mut inventory = self.inventory();
        let count = inventory.iter().len();
        let rules = self.rules(now);
        let results = requests
            .iter()
            .map(|one| inventory.look_up_or_create(one, rules))
            .collect();
        let changed = inventory.iter().len() != count;
        drop(inventory);
        if changed {
            self.changed();
        }
        Ok(results)
    }

    /// One call to the cloud for the page after an id, and whether there are more.
    pub async fn instance_page(
        &self,
        after: Option<&InstanceId>,
    ) -> Result<(Vec<Arc<Instance>>, bool), RateLimited> {
        let page = |size| self.inventory().page(after, size);
        self.page("ListInstances", page).await
    }

    /// One call to the cloud for a page, and whether there are more objects.
    async fn page<T>(
        &self,
        operation: &str,
        first: impl FnOnce(usize) -> Vec<T>,
    ) -> Result<(Vec<T>, bool), RateLimited> {
        self.pay(operation).await?;
        let size = self.0.config.page_size.get();
        let mut page = first(size.saturating_add(1));
        let more = page.len() > size;
        page.truncate(size);
        Ok((page, more))
    }

    /// True if the cloud shows an instance of a page yet.
    pub fn shows(&self, instance: &Instance) -> bool {
        is_visible(instance, self.rules(self.0.config.clock.now()))
    }

    /// Takes a token, then waits as long as the cloud takes.
    async fn pay(&self, operation: &str) -> Result<(), RateLimited> {
        let price = self.0.meter.lock().price(Instant::now());
        self.0.counters.cloud_called(operation, price.is_ok());
        let latency = price?;
        // Timers have a grain of 1 ms; an instant cloud should not cost that.
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        Ok(())
    }

    fn rules(&self, now: jiff::Timestamp) -> Rules<'_> {
        let config = &self.0.config;
        Rules {
            synthesize: config.synthesize,
            placement: &config.placement,
            pod_cidrs: &config.pod_cidrs,
            visibility_delay: config.visibility_delay.unwrap_or_default(),
            now,
        }
    }

    // ---- actions of people -------------------------------------------------------------------

    /// Makes an instance. A name whose instance was deleted gets one with another id.
    pub fn create(&self, spec: InstanceSpec) -> Result<Arc<Instance>, Refused> {
        let now = self.0.config.clock.now();
        let mut inventory = self.inventory();
        let generation = inventory.next_generation(&spec.name);
        let config = &self.0.config;
        let built = spec.build(&config.placement, generation, now);
        let created = inventory.insert_with_blocks(built, &config.pod_cidrs);
        drop(inventory);
        if created.is_ok() {
            self.changed();
        }
        created
    }

    /// Makes those that it neither has nor had: what was stopped or deleted stays so.
    pub fn describe(&self, description: Description) -> Result<(), Refused> {
        for spec in description.instances {
            let exists = {
                let inventory = self.inventory();
                inventory.by_name(spec.name.as_str()).is_some() || inventory.was_deleted(&spec.name)
            };
            if !exists {
                self.create(spec)?;
            }
        }
        self.add_volumes(description.volumes);
        Ok(())
    }

    /// Sets the power state of an instance, found by name or id; none: there is no such instance.
    pub fn set_power(&self, name_or_id: &str, power: Power) -> Option<Arc<Instance>> {
        self.change_instance(name_or_id, |instance| instance.power = power)
    }

    /// Announces maintenance of an instance, found by name or id, or that there is none any more; none: there is no such
    /// instance.
    pub fn announce_maintenance(
        &self,
        name_or_id: &str,
        maintenance: Option<Maintenance>,
    ) -> Option<Arc<Instance>> {
        self.change_instance(name_or_id, |instance| instance.maintenance = maintenance)
    }

    fn change_instance(
        &self,
        name_or_id: &str,
        change: impl FnOnce(&mut Instance),
    ) -> Option<Arc<Instance>> {
        let mut inventory = self.inventory();
        let mut changed = Instance::clone(&*self.find_in(&inventory, name_or_id)?);
        change(&mut changed);
        let changed = inventory.replace(changed)?;
        drop(inventory);
        self.changed();
        Some(changed)
    }

    /// Deletes an instance, found by name or id, for good; none: there is no such instance.
    pub fn delete(&self, name_or_id: &str) -> Option<Arc<Instance>> {
        let mut inventory = self.inventory();
        let id = self.find_in(&inventory, name_or_id)?.id.clone();
        let deleted = inventory.remove(&id);
        drop(inventory);
        self.changed();
        deleted
    }

    /// The instance with this name, id or provider ID.
    pub fn find(&self, name_or_id: &str) -> Option<Arc<Instance>> {
        self.find_in(&self.inventory(), name_or_id)
    }

    fn find_in(&self, inventory: &Inventory, name_or_id: &str) -> Option<Arc<Instance>> {
        let scheme = self.0.config.provider_name.as_str();
        let id = name_or_id
            .strip_prefix(scheme)
            .and_then(|rest| rest.strip_prefix("://"));
        inventory
            .by_name(name_or_id)
            .or_else(|| inventory.by_id(id.unwrap_or(name_or_id)))
            .map(Arc::clone)
    }

    /// All instances, by id.
    pub fn instances(&self) -> Vec<Arc<Instance>> {
        self.inventory().iter().map(Arc::clone).collect()
    }

    /// Names whose last instance was deleted.
    pub fn deleted(&self) -> Vec<NodeName> {
        self.inventory().deleted().keys().cloned().collect()
    }

    /// The cost of a call now.
    pub fn cost(&self) -> Cost {
        self.0.meter.lock().cost(Instant::now())
    }

    /// Sets how long a call takes from now on; the jitter stays if none is given.
    pub fn set_latency(&self, latency: Duration, jitter: Option<f64>) {
        self.0.meter.lock().set_latency(latency, jitter);
    }

    /// Sets how many calls are taken from now on, starting with a full burst.
    pub fn set_quota(&self, quota: Option<Quota>) {
        self.0.meter.lock().set_quota(quota, Instant::now());
    }

    // ---- for the state file --------------------------------------------------------

    /// Counts the changes of what it holds.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Everything it holds. Cheap: the resources are shared.
    pub fn holdings(&self) -> Holdings {
        self.0.holdings.lock().clone()
    }

    /// So many changes are written down.
    pub(crate) fn saved(&self, changes: u64) {
        self.0
            .saved
            .send_modify(|saved| *saved = changes.max(*saved));
    }

    /// Waits until every change so far is written down, where that was asked for.
    async fn kept(&self) {
        if self.0.config.durable {
            let changes = *self.0.changes.borrow();
            let mut saved = self.0.saved.subscribe();
            // The sender lives as long as this cloud.
            let _ = saved.wait_for(|saved| *saved >= changes).await;
        }
    }

    fn changed(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }
}
