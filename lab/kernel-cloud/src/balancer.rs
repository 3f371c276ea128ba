//! Load balancers in the kernel: read, changed in one transaction, and kept in sync with the health of their targets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use outrigger_provider_sdk::{Context, Error, Targets, v1::Service};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{MissedTickBehavior, interval};

use crate::health::{self, Endpoint};
use crate::hops;
use crate::kernel::{Failure, Lock, run};
use crate::load_balancer::{self, Family, Key, LoadBalancer, Protocol};
use crate::nft::{TABLE, Table, base, script};
use crate::pool::Pool;

/// The network namespace of this thread, and so of all threads of the process.
const HERE: &str = "/proc/thread-self/ns/net";

/// How load balancers are made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The addresses that they get.
    pub pool: Pool,
    /// Clients have an address of this host at the nodes, so that replies come back through it.
    pub masquerade: bool,
    /// Links that clients of internal load balancers come by, each a name or the beginning of names before `*`.
    pub internal_links: Vec<String>,
    /// Port of `/healthz` of the targets of Services with `externalTrafficPolicy: Cluster`; `None`: all are healthy.
    pub cluster_health_port: Option<u16>,
    /// Time between two looks at the health of all targets.
    pub health_interval: Duration,
    /// Names this start of the host, by 36 bytes at most.
    pub start_of_host: String,
}

/// The load balancers of this network namespace.
#[derive(Debug)]
pub struct Balancer {
    options: Options,
    turns: Mutex<()>,
}

type Locks<'a> = (MutexGuard<'a, ()>, Lock);

impl Balancer {
    /// Load balancers with these options.
    pub const fn new(options: Options) -> Self {
        Self {
            options,
            turns: Mutex::const_new(()),
        }
    }

    /// Its options.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Reads the table of the kernel.
    pub async fn read(&self) -> Result<Table, Failure> {
        let args = ["-j", "list", "table", "inet", TABLE];
        match run("nft", &args, "").await {
            Err(failure) if failure.says("No such file or directory") => Ok(Table::default()),
            Err(failure) => Err(failure),
            Ok(json) => Table::parse(&json).map_err(|error| Failure::Failed {
                command: format!("nft {}", args.join(" ")),
                text: error.to_string(),
            }),
        }
    }

    /// The locks under which the table may be changed, and the table.
    async fn locked(&self) -> Result<(Locks<'_>, Table), Failure> {
        // Calls of this process take turns; the lock of the namespace is for other processes.
        let turn = self.turns.lock().await;
        let locks = (turn, Lock::of(HERE).await?);
        Ok((locks, self.read().await?))
    }

    /// The load balancer that the Service asks for, with these targets, or with those that it has. It keeps its addresses,
    /// or else, after a start of the host, those of its status.
    ///
    /// # Errors
    ///
    /// The Service asks for something that is not served, or there is no address for it.
    pub fn desired(
        &self,
        ctx: &Context,
        table: &Table,
        service: &Service,
        targets: Option<&Targets>,
    ) -> Result<LoadBalancer, Error> {
        let key = &Key::of(ctx, service)?;
        let mut desired = LoadBalancer::asked_by(service, self.options.cluster_health_port)?;
        let none = LoadBalancer::default();
        let before = table.balancers.get(key).unwrap_or(&none);
        let families = load_balancer::families(service);
        let named = load_balancer::named_addresses(service)?;
        let pool = &self.options.pool;
        let taken = table.taken(key);
        let mut held: BTreeMap<_, _> = load_balancer::status_addresses(service)
            .filter(|address| pool.contains(*address) && !taken.contains(address))
            .map(|address| (Family::of(address), address))
            .collect();
        held.extend(&before.addresses);
        desired.addresses = pool.addresses(&families, &named, &held, &taken)?;
        desired.targets = match targets {
            Some(targets) => load_balancer::targets(targets, &families, &before.targets),
            None => before.targets.clone(),
        };
        if before.health != desired.health {
            for target in desired.targets.values_mut() {
                target.healthy = false;
            }
        }
        Ok(desired)
    }

    /// Makes the load balancer what `change` makes of the table, and returns it; `None`: it is removed. Targets that no
    /// connection goes to yet are asked for their health before, so that `change` may be called more than once.
    ///
    /// # Cancellation
    ///
    /// The transaction is done or not. A connection of UDP whose target is gone may then stay until it ends by itself.
    pub async fn change(
        &self,
        key: &Key,
        change: impl Fn(&Table) -> Result<Option<LoadBalancer>, Error>,
    ) -> Result<Option<LoadBalancer>, Error> {
        let (mut probed, mut answers) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let (lock, table) = self.locked().await?;
            let mut after = change(&table)?;
            let unknown: BTreeSet<_> = after
                .iter()
                .flat_map(|after| {
                    endpoints(after).filter(|(address, _)| !after.is_healthy(*address))
                })
                .filter(|endpoint| !probed.contains(endpoint))
                .collect();
            if unknown.is_empty() {
                if let Some(after) = &mut after {
                    for (address, target) in &mut after.targets {
                        let endpoint = after.health.clone().map(|check| (*address, check));
                        target.healthy |= endpoint.is_none_or(|one| answers.contains(&one));
                    }
                }
                self.write(&table, key, after.as_ref()).await?;
                return Ok(after);
            }
            // A target that does not answer keeps no other load balancer waiting.
            drop(lock);
            answers.extend(health::healthy(unknown.iter().cloned()).await);
            probed.extend(unknown);
        }
    }

    /// To be called under the lock.
    async fn write(
        &self,
        table: &Table,
        key: &Key,
        after: Option<&LoadBalancer>,
    ) -> Result<(), Failure> {
        let before = table.balancers.get(key);
        if before == after && table.has_rules_of(key, self.options.masquerade) {
            return Ok(());
        }
        let addresses = after.iter().flat_map(|after| after.targets.keys().copied());
        let hops = table.hops_for(addresses);
        if hops != table.hops {
            // The way of a packet is there before it gets the mark.
            hops::sync(&hops).await?;
        }
        // A removal leaves the parts of all as they are, so that a cleanup needs no options.
        let base = after.map_or_else(String::new, |_| self.base());
        transact(&(base + &script(table, key, after, &hops))).await?;
        if let Some(before) = before {
            forget(before, after, &hops).await?;
        }
        Ok(())
    }

    /// Lays the parts that all load balancers share, as the options say. To be called before the first change.
    ///
    /// # Errors
    ///
    /// A program or a right is missing, or nftables is too old.
    pub async fn prepare(&self) -> Result<(), Failure> {
        let (_lock, table) = self.locked().await?;
        hops::sync(&table.hops).await?;
        transact(&self.base()).await
    }

    fn base(&self) -> String {
        let made = &self.options;
        base(&made.pool, made.masquerade, &made.internal_links)
    }

    /// Looks at the health of all targets again and again, and at the ways to them. Never returns.
    ///
    /// `report` is called with each round that ends otherwise than the one before.
    pub async fn watch(&self, mut report: impl FnMut(Result<(), &str>)) {
        let mut ticks = interval(self.options.health_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Ok(());
        loop {
            ticks.tick().await;
            let ended = self.round().await.map_err(|failure| failure.to_string());
            if ended != last {
                report(ended.as_ref().copied().map_err(String::as_str));
                last = ended;
            }
        }
    }

    /// One round of [`watch`](Self::watch). A target is out when it has not answered twice.
    pub async fn round(&self) -> Result<(), Failure> {
        let (lock, table) = self.locked().await?;
        if table.hops.is_empty() {
            return Ok(());
        }
        hops::sync(&table.hops).await?;
        drop(lock);
        let endpoints: BTreeSet<_> = table.balancers.values().flat_map(endpoints).collect();
        let mut answers = health::healthy(endpoints.iter().cloned()).await;
        let silent: Vec<_> = endpoints.difference(&answers).cloned().collect();
        answers.extend(health::healthy(silent).await);
        let judge = |mut balancer: LoadBalancer| {
            for (address, target) in &mut balancer.targets {
                // A target that came meanwhile was asked when it came.
                let endpoint = balancer.health.clone().map(|check| (*address, check));
                if let Some(endpoint) = endpoint.filter(|one| endpoints.contains(one)) {
                    target.healthy = answers.contains(&endpoint);
                }
            }
            balancer
        };
        for (key, before) in &table.balancers {
            let is_whole = table.has_rules_of(key, self.options.masquerade);
            if is_whole && judge(before.clone()) == *before {
                continue;
            }
            let (_lock, table) = self.locked().await?;
            let Some(after) = table.balancers.get(key).cloned().map(judge) else {
                continue;
            };
            let targets = after.targets.values().filter(|target| target.healthy);
            let targets: Vec<_> = targets.map(|target| &*target.node).collect();
            tracing::info!(
                service = after.name,
                targets = targets.join(" "),
                "load balancer mended"
            );
            self.write(&table, key, Some(&after)).await?;
        }
        if idle_hops(&table).next().is_some() {
            self.drop_idle_hops().await?;
        }
        Ok(())
    }

    /// Removes next hops that no load balancer has as a target any more, and no connection either.
    async fn drop_idle_hops(&self) -> Result<(), Failure> {
        let (_lock, table) = self.locked().await?;
        let mut hops = table.hops.clone();
        for (address, mark) in idle_hops(&table) {
            let family = Family::of(*address);
            let mark = mark.to_string();
            delete_connections(family, &["-p", "udp", "-m", &mark]).await?;
            if !has_connections(&mark, family).await? {
                hops.remove(address);
            }
        }
        if hops == table.hops {
            return Ok(());
        }
        let gone = table
            .hops
            .iter()
            .filter(|(address, _)| !hops.contains_key(address));
        let lines: Vec<_> = gone
            .map(|(address, mark)| {
                let set = if address.is_ipv4() { "hops4" } else { "hops6" };
                format!("delete element inet {TABLE} {set} {{ {mark:#x} }}\n")
            })
            .collect();
        transact(&lines.concat()).await?;
        hops::sync(&hops).await
    }

    /// Removes all load balancers of a cluster, and of the table what no other cluster needs.
    pub async fn clean_up(&self, cluster: &str) -> Result<usize, Error> {
        let keys: Vec<_> = self.read().await?.balancers.into_keys().collect();
        let keys: Vec<_> = keys
            .into_iter()
            .filter(|key| key.cluster == cluster)
            .collect();
        for key in &keys {
            self.change(key, |_| Ok(None)).await?;
        }
        let (_lock, table) = self.locked().await?;
        if table.balancers.is_empty() {
            hops::sync(&BTreeMap::new()).await?;
            let lines = format!("add table inet {TABLE}\ndelete table inet {TABLE}\n");
            transact(&lines).await?;
        }
        Ok(keys.len())
    }
}

/// Makes all of these changes of nftables, or none.
async fn transact(script: &str) -> Result<(), Failure> {
    run("nft", &["-f", "-"], script).await.map(drop)
}

/// Next hops that no load balancer has as a target.
fn idle_hops(table: &Table) -> impl Iterator<Item = (&IpAddr, &u32)> {
    let is_target = |address: &IpAddr| {
        table
            .balancers
            .values()
            .any(|one| one.targets.contains_key(address))
    };
    table
        .hops
        .iter()
        .filter(move |(address, _)| !is_target(address))
}

/// The targets, each with its health check.
fn endpoints(balancer: &LoadBalancer) -> impl Iterator<Item = Endpoint> {
    let check = balancer.health.as_ref();
    let targets = balancer.targets.keys();
    targets.filter_map(move |address| Some((*address, check?.clone())))
}

/// Makes the kernel forget connections that can have no answer: all of an address that is free again, and of UDP those to a
/// target that has gone, since a client that goes on sending would never get another. A connection of TCP ends by itself.
async fn forget(
    before: &LoadBalancer,
    after: Option<&LoadBalancer>,
    hops: &BTreeMap<IpAddr, u32>,
) -> Result<(), Failure> {
    for (family, address) in &before.addresses {
        let address = address.to_string();
        let of_address = ["-d", &address];
        if after.is_none_or(|after| after.addresses.get(family) != before.addresses.get(family)) {
            delete_connections(*family, &of_address).await?;
            continue;
        }
        let has_udp = before
            .ports
            .iter()
            .any(|(protocol, _)| *protocol == Protocol::Udp);
        let gone = before.targets.keys().filter(|target| {
            Family::of(**target) == *family
                && before.is_healthy(**target)
                && after.is_some_and(|after| !after.is_healthy(**target))
        });
        for target in gone.filter(|_| has_udp) {
            let mark = hops.get(target).copied().unwrap_or_default().to_string();
            let of_target = ["-d", &address, "-p", "udp", "-m", &mark];
            delete_connections(*family, &of_target).await?;
        }
    }
    Ok(())
}

/// Deletes connections; that there is none is no failure.
async fn delete_connections(family: Family, args: &[&str]) -> Result<(), Failure> {
    let family = family.protocol();
    let args = [&["-D", "-f", &family], args].concat();
    match run("conntrack", &args, "").await {
        Err(failure) if !failure.says("0 flow entries") => Err(failure),
        _ => Ok(()),
    }
}

async fn has_connections(mark: &str, family: Family) -> Result<bool, Failure> {
    let family = family.protocol();
    let listed = run("conntrack", &["-L", "-f", &family, "-m", mark], "").await?;
    Ok(!listed.trim().is_empty())
}
