//! A run: one cloud, one API server, two Pods, and the turns that they take.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use futures::channel::mpsc::UnboundedSender;
use jiff::SignedDuration;
use outrigger_provider_mock::{
    Cloud, CloudConfig, ProviderOptions, ServedLoadBalancers, ServedRoutes, cloud::Clock,
    load_balancers::LoadBalancerRules,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    apiserver::{self, ApiServer, Delivery, FaultKind, Verb, Write},
    fault::{Declared, Fault, Kind, Pod, Wrong},
    host::{self, Host},
    people::People,
    process,
    promises::{Promises, complaints},
    socket::Socket,
};

/// A turn while something happens.
const SHORT: Duration = Duration::from_millis(5);
/// A turn while nothing happens.
const LONG: Duration = Duration::from_millis(400);
/// Until users have what they want, once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_mins(50);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// How long it stays so then. In the first half events and conditions may follow, in the second nothing is written.
const SILENCE: Duration = Duration::from_mins(20);

/// A late request is on its way for less than this.
const LATEST: Duration = Duration::from_secs(8);

const CONTROLLERS: [&str; 2] = ["a", "b"];
const PROVIDERS: [&str; 2] = ["provider-a", "provider-b"];

/// The processes of a replica.
struct PodState {
    socket: Socket,
    controller: Option<(Host, UnboundedSender<()>)>,
    provider: Option<Host>,
    /// The kubelet starts the controller again then.
    starts: Option<Duration>,
    skew: SignedDuration,
}

/// A run.
pub struct World {
    now: Duration,
    random: Rng,
    api: ApiServer,
    cloud: Cloud,
    /// Carries the people.
    outside: Host,
    people: People,
    pods: [PodState; 2],
    faults: Vec<(Fault, Phase)>,
    /// The faults of requests and watches, as the API server asks.
    network: Arc<Mutex<Network>>,
    options: ProviderOptions,
    promises: Promises,
    turns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Comes,
    Lasts,
    Over,
}

/// Faults between controllers and the API server.
#[derive(Default)]
struct Network {
    requests: Vec<(Pod, Wrong, f64, Rng)>,
    late: Vec<(Pod, Duration)>,
    cut: Vec<Pod>,
    latency: Rng,
    /// The newest of the API server.
    version: u64,
}

/// The result of a run.
pub struct Outcome {
    /// The simulated time.
    pub time: Duration,
    /// Turns of all hosts.
    pub turns: u64,
    /// The promise that was broken.
    pub broken: Option<String>,
}

fn options() -> ProviderOptions {
    ProviderOptions {
        load_balancers: Some(ServedLoadBalancers::default()),
        routes: Some(ServedRoutes {
            target: outrigger_provider_mock::ListedTarget::All,
            ..ServedRoutes::default()
        }),
        ..ProviderOptions::default()
    }
}

impl World {
    /// A run of `seed`, with these faults, in which people act for `hours`.
    ///
    /// # Errors
    /// If the processes cannot be started.
    pub fn new(seed: u64, hours: f64, faults: Vec<Fault>) -> anyhow::Result<Self> {
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
        let network = Arc::new(Mutex::new(Network {
            latency: Rng::with_seed(seed ^ 0x1a7e),
            ..Network::default()
        }));
        let people = People::new(seed, hours, &api, &cloud);
        let pod = || PodState {
            socket: Socket::default(),
            controller: None,
            provider: None,
            starts: Some(Duration::ZERO),
            skew: SignedDuration::ZERO,
        };
        let mut world = Self {
            now: Duration::ZERO,
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
            network,
            options: options(),
            promises: Promises::default(),
            turns: 0,
        };
        world.connect_network();
        world.start_providers()?;
        Ok(world)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub fn run(mut self) -> anyhow::Result<Outcome> {
        let broken = self.run_to_end()?.err();
        Ok(Outcome {
            time: self.now,
            turns: self.turns,
            broken,
        })
    }

    fn run_to_end(&mut self) -> anyhow::Result<Result<(), String>> {
        let mut last_version = 0;
        let mut turn = SHORT;
        // Until when all must be well, once nothing is left to come.
        let mut settles: Option<Duration> = None;
        let mut silent: Option<(Duration, u64)> = None;
        let mut left = false;
        let mut look = Duration::ZERO;
        loop {
            self.begin_and_end_faults()?;
            self.start_controllers()?;
            let people = &mut self.people;
            let now = self.now;
            self.outside.visit(|| people.act(now));
            let mut next = self.now + turn;
            let times = [
                self.people.next(),
                self.next_fault(),
                self.pods[0].starts,
                self.pods[1].starts,
            ];
            for time in times.into_iter().flatten() {
                next = next.min(time.max(self.now + Duration::from_millis(1)));
            }
            let written = self.pods.iter().map(|pod| pod.socket.writes()).sum::<u64>();
            self.take_turns(next);
            if let Err(broken) = self.look() {
                return Ok(Err(broken));
            }
            let version = self.api.version();
            let happens = version != last_version
                || self.pods.iter().map(|pod| pod.socket.writes()).sum::<u64>() != written;
            last_version = version;
            self.network.lock().version = version;
            turn = if happens { SHORT } else { (turn * 2).min(LONG) };

            if self.people.next().is_some()
                || self.faults.iter().any(|(_, phase)| *phase != Phase::Over)
            {
                continue;
            }
            let end = *settles.get_or_insert(self.now + PATIENCE);
            if self.now < look {
                continue;
            }
            look = self.now + LOOK;
            let complaints = self.outside.visit(|| complaints(&self.api, &self.cloud));
            if !complaints.is_empty() {
                if let Some((since, _)) = silent {
                    return Ok(Err(format!(
                        "reached after {since:?}, but not for long: {}",
                        complaints.join("; ")
                    )));
                }
                if self.now > end {
                    return Ok(Err(format!("not reached: {}", complaints.join("; "))));
                }
                continue;
            }
            if left {
                return Ok(Ok(()));
            }
            let (since, writes) = *silent.get_or_insert_with(|| {
                self.outside
                    .visit(|| tracing::info!("all is as users want it"));
                (self.now, 0)
            });
            if self.now < since + SILENCE / 2 {
                silent = Some((since, self.promises.writes));
            } else if self.promises.writes != writes {
                return Ok(Err(format!(
                    "{} writes though nothing changes",
                    self.promises.writes - writes
                )));
            } else if self.now > since + SILENCE {
                let people = &mut self.people;
                self.outside.visit(|| people.leave());
                (left, silent, settles) = (true, None, Some(self.now + PATIENCE));
            }
        }
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
                pod.starts = Some(self.now + Duration::from_secs(2));
            }
            if let Some(reason) = pod.provider.as_mut().and_then(Host::ended) {
                let name = PROVIDERS[number];
                self.outside
                    .visit(|| tracing::error!(host = name, reason, "a provider has ended"));
                pod.provider = None;
            }
        }
    }

    fn look(&mut self) -> Result<(), String> {
        let writes = self.api.take_writes();
        let is_late = |(fault, _): &(Fault, Phase)| {
            let end = fault.at + fault.lasts + LATEST;
            matches!(fault.kind, Kind::Requests(_, Wrong::Late, _))
                && (fault.at..end).contains(&self.now)
        };
        let late = self.faults.iter().any(is_late);
        let (promises, cloud) = (&mut self.promises, &self.cloud);
        self.outside.visit(|| {
            for Write { request, code, .. } in &writes {
                // Renewals are most of all.
                if request.resource != "leases" {
                    tracing::info!(client = request.client, verb = ?request.verb, path = request.path, code, "written");
                }
            }
            promises.look(&writes, late, cloud)
        })
    }

    // ---- processes --------------------------------------------------------------------------

    fn start_controllers(&mut self) -> anyhow::Result<()> {
        for (number, pod) in self.pods.iter_mut().enumerate() {
            if pod.starts.is_none_or(|at| at > self.now) {
                continue;
            }
            pod.starts = None;
            let name = CONTROLLERS[number];
            let (mut host, signal) = process::controller(name, self.now, &self.api, &pod.socket)?;
            host.set_skew(pod.skew);
            pod.controller = Some((host, signal));
        }
        Ok(())
    }

    fn start_providers(&mut self) -> anyhow::Result<()> {
        for (number, pod) in self.pods.iter_mut().enumerate() {
            if pod.provider.is_none() {
                let started = process::provider(
                    PROVIDERS[number],
                    self.now,
                    &self.cloud,
                    self.options.clone(),
                    &pod.socket,
                );
                pod.provider = Some(started?);
            }
        }
        Ok(())
    }

    // ---- faults -----------------------------------------------------------------------------

    fn next_fault(&self) -> Option<Duration> {
        let times = self.faults.iter().filter_map(|(fault, phase)| match phase {
            Phase::Comes => Some(fault.at),
            Phase::Lasts => Some(fault.at + fault.lasts),
            Phase::Over => None,
        });
        times.min()
    }

    fn begin_and_end_faults(&mut self) -> anyhow::Result<()> {
        for number in 0..self.faults.len() {
            let (fault, phase) = &mut self.faults[number];
            let begins = match phase {
                Phase::Comes if fault.at <= self.now => {
                    *phase = Phase::Lasts;
                    true
                }
                Phase::Lasts if fault.at + fault.lasts <= self.now => {
                    *phase = Phase::Over;
                    false
                }
                _ => continue,
            };
            let fault = fault.clone();
            let outside = &self.outside;
            outside.visit(|| tracing::info!(begins, %fault, "fault"));
            self.change(&fault, begins)?;
        }
        Ok(())
    }

    fn change(&mut self, fault: &Fault, begins: bool) -> anyhow::Result<()> {
        let end = fault.at + fault.lasts;
        match &fault.kind {
            Kind::Kill(pod) if begins => {
                self.pods[*pod].controller = None;
                self.pods[*pod].starts = Some(end);
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
            Kind::KillProvider(pod) if begins => self.pods[*pod].provider = None,
            Kind::KillProvider(_) => self.start_providers()?,
            Kind::FreezeProvider(pod) if begins => {
                if let Some(host) = &mut self.pods[*pod].provider {
                    host.freeze(end);
                }
            }
            Kind::Upgrade(declared) => {
                self.options = options();
                if begins {
                    declare(&mut self.options, *declared);
                }
                for pod in &mut self.pods {
                    pod.provider = None;
                }
                self.start_providers()?;
            }
            Kind::Clock(pod, seconds) => {
                let skew = SignedDuration::from_secs(if begins { *seconds } else { 0 });
                self.pods[*pod].skew = skew;
                if let Some((host, _)) = &mut self.pods[*pod].controller {
                    host.set_skew(skew);
                }
            }
            Kind::Compaction if begins => self.api.compact(),
            Kind::Requests(..) | Kind::LateEvents(_) | Kind::CutWatches(_) => self.change_network(),
            Kind::Cloud(_) | Kind::SlowCloud(_) => {
                let (cloud, faults) = (&self.cloud, &self.faults);
                self.outside.visit(|| {
                    cloud.clear_faults();
                    let mut latency = Duration::from_millis(40);
                    for (fault, phase) in faults {
                        match &fault.kind {
                            _ if *phase != Phase::Lasts => {}
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
        Ok(())
    }

    /// Brings the faults of the network up to date.
    fn change_network(&mut self) {
        let mut network = self.network.lock();
        network.requests.clear();
        network.late.clear();
        network.cut.clear();
        for (number, (fault, phase)) in self.faults.iter().enumerate() {
            if *phase != Phase::Lasts {
                continue;
            }
            match fault.kind {
                Kind::Requests(pod, wrong, chance) => {
                    if matches!(wrong, Wrong::Behind(_)) {
                        network.cut.push(pod);
                    }
                    let random = Rng::with_seed(number as u64 ^ self.now.as_millis() as u64);
                    network.requests.push((pod, wrong, chance, random));
                }
                Kind::LateEvents(pod) => network.late.push((pod, fault.at + fault.lasts)),
                Kind::CutWatches(pod) => network.cut.push(pod),
                _ => {}
            }
        }
    }

    /// Asks the network about each request and each event.
    fn connect_network(&self) {
        let (requests, events) = (Arc::clone(&self.network), Arc::clone(&self.network));
        self.api
            .set_faults(move |request| requests.lock().on_request(request));
        self.api
            .set_watch_faults(move |request, _| events.lock().on_event(request));
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

impl Network {
    fn on_request(&mut self, request: &apiserver::Request) -> apiserver::Fault {
        let mut fault = apiserver::Fault {
            before: Duration::ZERO,
            after: Duration::from_millis(self.latency.u64(1..8)),
            kind: FaultKind::None,
        };
        for (pod, wrong, chance, random) in &mut self.requests {
            if request.client != CONTROLLERS[*pod] || random.f64() >= *chance {
                continue;
            }
            fault.kind = match wrong {
                Wrong::LostRequest => FaultKind::RequestLost,
                Wrong::LostAnswer => FaultKind::AnswerLost,
                Wrong::Refused(code) => FaultKind::Refused(*code),
                Wrong::Late => {
                    fault.before = Duration::from_millis(random.u64(50..LATEST.as_millis() as u64));
                    continue;
                }
                Wrong::Behind(versions) => match request.verb {
                    Verb::List => FaultKind::Past(self.version.saturating_sub(*versions)),
                    Verb::Watch => FaultKind::Refused(410),
                    _ => continue,
                },
            };
        }
        fault
    }

    fn on_event(&mut self, request: &apiserver::Request) -> Delivery {
        let is_its = |pod: Pod| request.client == CONTROLLERS[pod];
        if self.cut.iter().any(|pod| is_its(*pod)) {
            return Delivery::Cut;
        }
        match self.late.iter().find(|(pod, _)| is_its(*pod)) {
            Some((_, end)) => Delivery::At(Instant::now() + end.saturating_sub(host::elapsed())),
            None => Delivery::Now,
        }
    }
}
