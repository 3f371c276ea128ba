//! A run: one cloud, one API server, two Pods, and the turns that they take.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fastrand::Rng;
use futures::channel::mpsc::UnboundedSender;
use jiff::SignedDuration;
use outrigger_provider_mock::{
    Cloud, CloudConfig, ListedTarget, ProviderOptions, ServedLoadBalancers, ServedRoutes,
    ServedVolumes, cloud::Clock, load_balancers::LoadBalancerRules,
};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::{
    apiserver::{ApiServer, Write},
    fault::{Begin, Declared, Fault, Kind, OCCASIONS, Occasion, Occasions, Once, Pod, Wrong},
    host::{self, Host},
    network::{CONTROLLERS, LATEST, Network},
    people::People,
    process,
    promises::Promises,
    socket::Socket,
    story::{ACTS, Story},
    volumes::DRIVER,
};

/// How often the promises are looked at while nothing changes.
const OFTEN: Duration = Duration::from_secs(1);
/// A turn while something happens.
const SHORT: Duration = Duration::from_millis(5);
/// A turn while nothing happens.
const LONG: Duration = Duration::from_millis(400);
/// Until users have what they want, once nothing goes wrong any more. A provider may have asked for a pause of an hour.
const PATIENCE: Duration = Duration::from_mins(70);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// How long what waits for its time may still follow then.
const GRACE: Duration = Duration::from_mins(8);
/// How long nothing is asked for after that.
const SILENCE: Duration = Duration::from_mins(4);
/// After which the kubelet starts a process again.
const RESTART: Duration = Duration::from_secs(2);

/// A store has caught up so long after a list that showed the past.
const CATCH_UP: Duration = Duration::from_secs(10);

/// No provider is stopped for longer than this: another leader is not there before it goes on.
const STOPPED: Duration = Duration::from_secs(30);

const PROVIDERS: [&str; 2] = ["provider-a", "provider-b"];

/// The processes of a replica.
struct PodState {
    socket: Socket,
    controller: Option<(Host, UnboundedSender<()>)>,
    provider: Option<Host>,
    /// The kubelet starts the controller then.
    starts: Option<Duration>,
    /// The kubelet starts the provider then.
    provider_starts: Option<Duration>,
    /// The stores of the controller may show the past until then.
    is_behind_until: Duration,
}

/// A run.
pub struct World {
    seed: u64,
    now: Duration,
    rounds: usize,
    round: usize,
    round_began: Duration,
    turn: Duration,
    random: Rng,
    api: ApiServer,
    cloud: Cloud,
    /// Carries the people.
    outside: Host,
    people: People,
    pods: [PodState; 2],
    faults: Vec<(Fault, Phase)>,
    /// Requests of an earlier term may arrive until then.
    late_until: Duration,
    /// The faults of requests and watches, as the API server asks.
    network: Arc<Mutex<Network>>,
    /// Calls to the cloud before this round.
    calls_before: BTreeMap<String, u64>,
    promises: Promises,
    /// The changes of the cloud since the last look at the promises.
    changes: watch::Receiver<u64>,
    looked_at: Duration,
    turns: u64,
    story: Option<&'static Story>,
    /// The occasions before the acts of the story, and those until all is as users want it.
    occasions: [Occasions; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Comes,
    LastsUntil(Duration),
    Over,
}

/// The result of a run.
pub struct Outcome {
    /// The simulated time.
    pub time: Duration,
    /// Turns of all hosts.
    pub turns: u64,
    /// The promise that was broken.
    pub broken: Option<String>,
    /// The occasions before the acts of a story, and those until all was as users want it.
    pub occasions: [Occasions; 2],
}

/// Why a run ends early.
enum End {
    Broken(String),
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for End {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Routes are listed without the name of their Node: with it, one that a Node leaves behind while no process leads looks
/// like that of the next Node of its name (docs/evidence.md).
fn options(seed: u64) -> ProviderOptions {
    ProviderOptions {
        load_balancers: Some(ServedLoadBalancers::default()),
        routes: Some(ServedRoutes {
            target: if seed.is_multiple_of(2) {
                ListedTarget::ProviderId
            } else {
                ListedTarget::NextHop
            },
            ..ServedRoutes::default()
        }),
        volumes: Some(ServedVolumes {
            csi_drivers: vec![DRIVER.to_owned()],
            in_tree: false,
        }),
        ..ProviderOptions::default()
    }
}

impl World {
    /// A run of `seed`, with these faults, in which people act in so many rounds.
    ///
    /// # Errors
    /// If the processes cannot be started.
    pub fn new(seed: u64, rounds: usize, faults: Vec<Fault>) -> anyhow::Result<Self> {
        let outside = Host::start("-", Duration::ZERO, std::future::pending())?;
        let origin = outside.visit(Instant::now);
        let cloud = Cloud::new(CloudConfig {
            seed,
            latency: Duration::from_millis(40),
            load_balancers: LoadBalancerRules {
                provisioning: Duration::from_secs(3),
                deprovisioning: Duration::from_secs(2),
                ..LoadBalancerRules::default()
            },
            clock: Clock::Tokio {
                started: host::EPOCH,
                origin,
            },
            ..CloudConfig::new()?
        });
        let api = outside.visit(|| ApiServer::new(seed, host::true_time));
        let network = Network::before(&api, seed);
        let people = People::new(seed, &api, &cloud);
        let changes = cloud.changes();
        let pod = || PodState {
            socket: Socket::default(),
            controller: None,
            provider: None,
            starts: Some(Duration::ZERO),
            provider_starts: Some(Duration::ZERO),
            is_behind_until: Duration::ZERO,
        };
        Ok(Self {
            seed,
            now: Duration::ZERO,
            rounds,
            round: 0,
            round_began: Duration::ZERO,
            turn: SHORT,
            random: Rng::with_seed(seed),
            api,
            cloud,
            outside,
            people,
            pods: [pod(), pod()],
            faults: faults
                .into_iter()
                .map(|fault| (fault, Phase::Comes))
                .collect(),
            late_until: Duration::ZERO,
            network,
            calls_before: BTreeMap::new(),
            promises: Promises::default(),
            changes,
            looked_at: Duration::ZERO,
            turns: 0,
            story: None,
            occasions: Default::default(),
        })
    }

    /// A run of a story, with one fault or none.
    ///
    /// # Errors
    /// If the processes cannot be started.
    pub fn of_story(story: &'static Story, fault: Option<Fault>) -> anyhow::Result<Self> {
        let once = fault.as_ref().and_then(Fault::once);
        let declared = story.declares.map(|declared| Fault {
            round: 0,
            begins: Begin::After(ACTS),
            lasts: Duration::from_secs(30),
            kind: Kind::Upgrade(declared),
        });
        let faults = fault.into_iter().chain(declared).collect();
        let mut world = Self::new(1, 1, faults)?;
        world.network.lock().happens_once(once);
        world.story = Some(story);
        Ok(world)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub fn run(mut self) -> anyhow::Result<Outcome> {
        let broken = match self.run_rounds() {
            Ok(()) => None,
            Err(End::Broken(broken)) => Some(format!("round {}: {broken}", self.round)),
            Err(End::Failed(error)) => return Err(error),
        };
        Ok(Outcome {
            time: self.now,
            turns: self.turns,
            broken,
            occasions: self.occasions,
        })
    }

    /// In each round people act and faults happen; then what users want is reached, nothing more is asked for, and
    /// another leader finds nothing to do.
    fn run_rounds(&mut self) -> Result<(), End> {
        for round in 0..self.rounds {
            self.begin_round(round);
            while self.people.next().is_some() || self.is_faulty() {
                self.step()?;
            }
            self.settle()?;
            self.occasions[1] = self.occasions();
            self.run_for(GRACE)?;
            self.stay_silent("nothing changes")?;
            for pod in &mut self.pods {
                pod.controller = None;
                pod.starts = Some(self.now + RESTART);
            }
            self.outside
                .visit(|| tracing::info!("both controllers are killed while nothing happens"));
            self.stay_silent("another leader only takes over")?;
            self.promises.settled();
        }
        let people = &mut self.people;
        self.outside.visit(|| people.leave());
        self.settle()
    }

    fn begin_round(&mut self, round: usize) {
        self.outside.visit(|| tracing::info!(round, "a round"));
        (self.round, self.round_began) = (round, self.now);
        let (people, now, story) = (&mut self.people, self.now, self.story);
        self.outside.visit(|| match story {
            Some(story) => people.follow(story),
            None => people.begin_round(round, now),
        });
        self.network.lock().begin_round();
        self.calls_before = self.calls();
    }

    /// Nothing that waits for an occasion which did not come in this round happens any more.
    fn forget_occasions(&mut self) {
        self.people.forget();
        for (fault, phase) in &mut self.faults {
            if fault.round == self.round && *phase == Phase::Comes {
                *phase = Phase::Over;
            }
        }
    }

    /// True if a fault is to come in this round at its time, or lasts.
    fn is_faulty(&self) -> bool {
        self.faults.iter().any(|(fault, phase)| match phase {
            Phase::Comes => fault.round == self.round && fault.begins.time().is_some(),
            Phase::LastsUntil(_) => true,
            Phase::Over => false,
        })
    }

    /// Runs until all is as users want it.
    fn settle(&mut self) -> Result<(), End> {
        let mut end = self.now + PATIENCE;
        loop {
            self.run_for(LOOK)?;
            if self.people.next().is_some() || self.is_faulty() {
                // The occasion of one has come late.
                end = self.now + PATIENCE;
                continue;
            }
            let complaints = self.complaints();
            if complaints.is_empty() {
                self.outside
                    .visit(|| tracing::info!("all is as users want it"));
                self.forget_occasions();
                return Ok(());
            }
            if self.now > end {
                return Err(End::Broken(format!(
                    "not reached: {}",
                    complaints.join("; ")
                )));
            }
        }
    }

    /// Runs for some time in which all stays as users want it, and nothing is asked for.
    fn stay_silent(&mut self, when: &str) -> Result<(), End> {
        let before = self.promises.activity(&self.cloud);
        self.run_for(SILENCE)?;
        let complaints = self.complaints();
        if !complaints.is_empty() {
            let complaints = complaints.join("; ");
            return Err(End::Broken(format!(
                "reached, but not for long: {complaints}"
            )));
        }
        let after = self.promises.activity(&self.cloud);
        if after != before {
            return Err(End::Broken(format!(
                "{when}, but {before:?} becomes {after:?}"
            )));
        }
        Ok(())
    }

    fn complaints(&self) -> Vec<String> {
        let look = || self.promises.complaints(&self.api, &self.cloud);
        self.outside.visit(look)
    }

    fn run_for(&mut self, time: Duration) -> Result<(), End> {
        let end = self.now + time;
        while self.now < end {
            self.step()?;
        }
        Ok(())
    }

    /// Takes the next turn.
    fn step(&mut self) -> Result<(), End> {
        let occasions = self.occasions();
        if self.now < ACTS {
            self.occasions[0].clone_from(&occasions);
        }
        self.begin_and_end_faults(&occasions);
        self.start_processes()?;
        let people = &mut self.people;
        let now = self.now;
        self.outside.visit(|| people.act(now, &occasions));
        let mut next = self.now + self.turn;
        let starts = self
            .pods
            .iter()
            .flat_map(|pod| [pod.starts, pod.provider_starts]);
        let times = starts.chain([self.people.next(), self.next_fault()]);
        for time in times.flatten() {
            next = next.min(time.max(self.now + Duration::from_millis(1)));
        }
        let before = self.written();
        self.take_turns(next);
        let is_busy = self.look().map_err(End::Broken)?;
        let version = self.api.version();
        self.network.lock().observe(version, self.leader());
        self.turn = if is_busy || self.written() != before {
            SHORT
        } else {
            (self.turn * 3).min(LONG)
        };
        Ok(())
    }

    /// How often something was written to a socket.
    fn written(&self) -> u64 {
        self.pods.iter().map(|pod| pod.socket.writes()).sum()
    }

    /// How often there was each occasion in this round.
    fn occasions(&self) -> Occasions {
        let mut occasions = self.network.lock().occasions().clone();
        let all = self.calls();
        for (occasion, _) in OCCASIONS {
            if let Occasion::Call(operation) = occasion {
                let calls = |of: &BTreeMap<String, u64>| of.get(operation).copied().unwrap_or(0);
                occasions.insert(occasion, (calls(&all) - calls(&self.calls_before)) as u32);
            }
        }
        occasions
    }

    /// All calls to the cloud.
    fn calls(&self) -> BTreeMap<String, u64> {
        let counts = self.cloud.counters().cloud.into_iter();
        counts
            .map(|(operation, counts)| (operation, counts.served))
            .collect()
    }

    /// Gives each process its turn, in any order.
    fn take_turns(&mut self, next: Duration) {
        let mut order = [0, 1, 2, 3];
        self.random.shuffle(&mut order);
        for number in order {
            let pod = &mut self.pods[number / 2];
            let host = if number % 2 == 0 {
                pod.controller.as_mut().map(|(host, _)| host)
            } else {
                pod.provider.as_mut()
            };
            if let Some(host) = host {
                host.run_until(next);
                self.turns += 1;
            }
        }
        self.now = next;
        self.outside.run_until(next);
        for (number, pod) in self.pods.iter_mut().enumerate() {
            let ended = pod.controller.as_mut().and_then(|(host, _)| host.ended());
            if let Some(reason) = ended {
                let name = CONTROLLERS[number];
                self.outside
                    .visit(|| tracing::info!(host = name, reason, "a controller has ended"));
                pod.controller = None;
                pod.starts = Some(self.now + RESTART);
            }
            if let Some(reason) = pod.provider.as_mut().and_then(Host::ended) {
                let name = PROVIDERS[number];
                self.outside
                    .visit(|| tracing::error!(host = name, reason, "a provider has ended"));
                pod.provider = None;
                pod.provider_starts = Some(self.now + RESTART);
            }
        }
    }

    /// Looks at the promises, if something may have changed. Returns true if something but Leases was written.
    fn look(&mut self) -> Result<bool, String> {
        let writes = self.api.take_writes();
        let has_changed = self.changes.has_changed().unwrap_or(true);
        if writes.is_empty() && !has_changed && self.now < self.looked_at + OFTEN {
            return Ok(false);
        }
        self.changes.mark_unchanged();
        self.looked_at = self.now;
        let late = self.now < self.late_until;
        let (promises, cloud) = (&mut self.promises, &self.cloud);
        self.outside.visit(|| {
            for Write { request, code, .. } in &writes {
                // Renewals are most of all.
                if request.resource != "leases" {
                    tracing::info!(client = request.client, verb = ?request.verb, path = request.path, code, "written");
                }
            }
            promises.look(&writes, late, cloud)
        })?;
        Ok(writes
            .iter()
            .any(|write| write.request.resource != "leases"))
    }

    // ---- processes --------------------------------------------------------------------------

    fn start_processes(&mut self) -> anyhow::Result<()> {
        for number in 0..self.pods.len() {
            let is_due = |at: &mut Duration| *at <= self.now;
            let pod = &mut self.pods[number];
            let socket = pod.socket.clone();
            let starts = pod.starts.take_if(is_due).is_some();
            let provider_starts = pod.provider_starts.take_if(is_due).is_some();
            if starts {
                let name = CONTROLLERS[number];
                let (mut host, signal) = process::controller(name, self.now, &self.api, &socket)?;
                host.set_skew(self.skew(number));
                self.pods[number].controller = Some((host, signal));
            }
            if provider_starts {
                let (name, options) = (PROVIDERS[number], self.options());
                let started = process::provider(name, self.now, &self.cloud, options, &socket)?;
                self.pods[number].provider = Some(started);
            }
        }
        Ok(())
    }

    // ---- faults -----------------------------------------------------------------------------

    /// The faults that last.
    fn lasting(&self) -> impl Iterator<Item = &Kind> {
        let faults = self.faults.iter();
        let lasting = faults.filter(|(_, phase)| matches!(phase, Phase::LastsUntil(_)));
        lasting.map(|(fault, _)| &fault.kind)
    }

    /// Declarations of providers that start now.
    fn options(&self) -> ProviderOptions {
        let mut options = options(self.seed);
        for kind in self.lasting() {
            if let Kind::Upgrade(declared) = kind {
                declare(&mut options, *declared);
            }
        }
        options
    }

    /// The error of the clock of a Pod's machine.
    fn skew(&self, number: Pod) -> SignedDuration {
        let seconds = self.lasting().map(|kind| match kind {
            Kind::Clock(pod, seconds) if *pod == number => *seconds,
            _ => 0,
        });
        SignedDuration::from_secs(seconds.sum())
    }

    fn next_fault(&self) -> Option<Duration> {
        let times = self.faults.iter().filter_map(|(fault, phase)| match phase {
            Phase::Comes if fault.round == self.round => {
                fault.begins.time().map(|time| self.round_began + time)
            }
            Phase::LastsUntil(end) => Some(*end),
            Phase::Comes | Phase::Over => None,
        });
        times.min()
    }

    fn begin_and_end_faults(&mut self, occasions: &Occasions) {
        let in_round = self.now.saturating_sub(self.round_began);
        let leader = self.leader();
        for number in 0..self.faults.len() {
            let (fault, phase) = &mut self.faults[number];
            let begins = match *phase {
                Phase::Comes if fault.round == self.round => match fault.begins {
                    Begin::After(time) if self.round_began + time > self.now => continue,
                    Begin::After(_) => true,
                    Begin::With(occasion, nth, after) => {
                        if occasions.get(&occasion).is_none_or(|count| *count < nth) {
                            continue;
                        }
                        // Its time is known now.
                        fault.begins = Begin::After(in_round + after);
                        fault.kind = match leader {
                            Some(leader) => fault.kind.clone().of(leader),
                            None => fault.kind.clone(),
                        };
                        if !after.is_zero() {
                            continue;
                        }
                        true
                    }
                },
                Phase::LastsUntil(end) if end <= self.now => false,
                _ => continue,
            };
            let end = self.now + fault.lasts;
            *phase = if begins {
                Phase::LastsUntil(end)
            } else {
                Phase::Over
            };
            let fault = fault.clone();
            let outside = &self.outside;
            outside.visit(|| tracing::info!(begins, %fault, "fault"));
            self.change(&fault.kind, begins, end);
        }
    }

    /// The Pod that holds the Lease.
    fn leader(&self) -> Option<Pod> {
        let leader = self.promises.leader();
        CONTROLLERS.iter().position(|name| Some(*name) == leader)
    }

    fn change(&mut self, kind: &Kind, begins: bool, end: Duration) {
        match kind {
            // See docs/evidence.md: what it did by a list from the past would stay.
            Kind::Kill(pod) | Kind::Terminate(pod) | Kind::Freeze(pod)
                if self.now < self.pods[*pod].is_behind_until => {}
            Kind::Kill(pod) if begins => {
                let pod = &mut self.pods[*pod];
                pod.controller = None;
                pod.starts = pod.starts.max(Some(end));
            }
            Kind::Terminate(pod) if begins => {
                if let Some((_, signal)) = &self.pods[*pod].controller {
                    let _ = signal.unbounded_send(());
                }
            }
            Kind::Freeze(pod) if begins => {
                if let Some((host, _)) = &mut self.pods[*pod].controller {
                    host.freeze(end);
                }
            }
            Kind::KillProvider(pod) if begins => {
                let pod = &mut self.pods[*pod];
                pod.provider = None;
                pod.provider_starts = pod.provider_starts.max(Some(end));
            }
            Kind::FreezeProvider(pod) if begins => {
                if let Some(host) = &mut self.pods[*pod].provider {
                    host.freeze(end.min(self.now + STOPPED));
                }
            }
            Kind::Upgrade(_) => {
                for pod in &mut self.pods {
                    pod.provider = None;
                    pod.provider_starts.get_or_insert(self.now);
                }
            }
            Kind::Clock(pod, _) => {
                let skew = self.skew(*pod);
                if let Some((host, _)) = &mut self.pods[*pod].controller {
                    host.set_skew(skew);
                }
            }
            Kind::Relist(_) => {
                if !begins {
                    self.api.compact();
                }
                self.change_network();
            }
            Kind::Once(Once::Write(Wrong::Late)) => {
                self.late_until = self.late_until.max(end + LATEST);
            }
            Kind::Requests(pod, wrong, _) => {
                match wrong {
                    Wrong::Late => self.late_until = self.late_until.max(end + LATEST),
                    Wrong::Behind(_) if begins => {
                        let until = &mut self.pods[*pod].is_behind_until;
                        *until = (*until).max(end + CATCH_UP);
                    }
                    _ => {}
                }
                self.change_network();
            }
            Kind::LateEvents(_) | Kind::CutWatches(_) => self.change_network(),
            Kind::Cloud(_) | Kind::SlowCloud(_) => {
                let (cloud, lasting) = (&self.cloud, self.lasting());
                self.outside.visit(|| {
                    cloud.clear_faults();
                    let mut latency = Duration::from_millis(40);
                    for kind in lasting {
                        match kind {
                            Kind::Cloud(effect) => cloud.inject(effect.as_ref().clone()),
                            Kind::SlowCloud(slow) => latency = *slow,
                            _ => {}
                        }
                    }
                    cloud.set_latency(latency, None);
                });
            }
            _ => {}
        }
    }

    /// Brings the faults of the network up to date.
    fn change_network(&mut self) {
        let faults = self.faults.iter().enumerate();
        let faults = faults.filter_map(|(number, (fault, phase))| match phase {
            Phase::LastsUntil(end) => Some((number as u64, &fault.kind, *end)),
            _ => None,
        });
        self.network.lock().change(faults, self.now);
    }
}

fn declare(options: &mut ProviderOptions, declared: Declared) {
    match declared {
        Declared::NoLoadBalancers => options.load_balancers = None,
        Declared::NoRoutes => options.routes = None,
        Declared::OtherRevision => {
            if let Some(served) = &mut options.load_balancers {
                "other".clone_into(&mut served.configuration_revision);
            }
        }
        Declared::NoNodeSets => options.without_node_sets = true,
    }
}
