//! One run of a scenario, with one fault or none.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Method;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{Api, api::ListParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep},
};

use super::{
    Fault, Rig, Scenario,
    state::{Observer, State, difference},
};
use crate::{
    Error, Result,
    calls::CallWay,
    faults::{self, Cut, FaultProxy, Injected, Outcome, Recorded, Rule},
    process::{Process, Scratch, log_end},
    script::{Cloud, LEASE, clean},
    wire,
};

/// How long nothing may happen at the end, and how long nothing has happened where a step has led to its state.
const QUIET: Duration = Duration::from_secs(3);

/// Time for a state to be reached after a fault.
const DEADLINE: Duration = Duration::from_secs(45);

const TICK: Duration = Duration::from_millis(50);

/// How long a watch lasts after an event was omitted, and how long it lags after a list from the past.
const LAG: Duration = Duration::from_secs(2);

/// The collections whose lists are from the past, and whose events are omitted.
const COLLECTIONS: [&str; 3] = ["/nodes", "/services", "/persistentvolumes"];

/// Calls after which the cloud, or what the provider keeps, is another.
const CHANGES: [&str; 6] = [
    "SyncNodeSet",
    "EnsureLoadBalancer",
    "UpdateLoadBalancerNodes",
    "DeleteLoadBalancer",
    "BatchCreateRoutes",
    "BatchDeleteRoutes",
];

/// Everything at short intervals; all loops.
const FLAGS: [&str; 13] = [
    "--secure-port=0",
    "--controllers=*,persistentvolume-labels",
    "--allocate-node-cidrs",
    "--cluster-cidr=10.244.0.0/16",
    "--node-monitor-period=500ms",
    "--node-status-update-frequency=1s",
    "--route-reconciliation-period=1s",
    "--node-deletion-window=2s",
    "--load-balancer-update-idle=300ms",
    "--leader-elect-retry-period=1s",
    "--maintenance-condition",
    "--maintenance-taint-before=1h",
    "-v=4",
];

const MOCK_FLAGS: [&str; 4] = [
    // A Node is never too young to be deleted.
    "--visibility-delay=0s",
    "--synthesize-instances",
    "--routes",
    "--csi-driver=csi.example.org",
];

/// A fault, and the place of it in a run, counted from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) fault: Fault,
    pub(super) number: usize,
}

/// How a run has gone.
pub(super) struct Played {
    /// True if the fault has happened: a run may have no such place.
    pub(super) has_happened: bool,
    /// The states after each step, or the way in which it went otherwise than without a fault.
    pub(super) states: Result<Vec<State>>,
    /// The folder of its logs and states, if they stay.
    pub(super) folder: Option<PathBuf>,
}

/// A run. Dropped in the order of the fields: the controller misses none of the others.
struct Run<'a> {
    rig: &'a Rig,
    place: Option<Place>,
    controller: Arc<Mutex<Option<Process>>>,
    /// Kills the controller while an answer is kept.
    killer: JoinSet<()>,
    proxy: Arc<FaultProxy>,
    calls: Arc<CallWay>,
    cloud: Cloud,
    args: Vec<String>,
    log: PathBuf,
    /// Writes to objects and calls that change the cloud, so far.
    changes: Arc<AtomicUsize>,
    omission: Option<Omission>,
    has_happened: bool,
    observer: Observer,
    /// Removes the files.
    scratch: Scratch,
}

struct Omission {
    rule: Injected,
    /// When the watches expire, once it has happened.
    expiry: Option<Instant>,
    has_expired: bool,
}

impl Rig {
    /// Plays a scenario with a fault, or with none; `expected` are the states without one. Removes all objects afterwards.
    pub(super) async fn play(
        &self,
        scenario: &Scenario,
        place: Option<Place>,
        expected: &[State],
    ) -> Result<Played> {
        let mut run = Run::start(self, place).await?;
        let states = run.play(scenario, expected).await;
        run.kill().await?;
        clean(&self.client).await?;
        Ok(Played {
            has_happened: run.has_happened,
            states,
            folder: self.keep.then(|| run.scratch.path().to_owned()),
        })
    }
}

impl<'a> Run<'a> {
    /// Starts all processes, and waits until the controller leads.
    async fn start(rig: &'a Rig, place: Option<Place>) -> Result<Self> {
        let scratch = Scratch::new(rig.keep)?;
        let dir = scratch.path();
        let flags = MOCK_FLAGS.map(str::to_owned);
        let cloud = Cloud::start(&rig.programs.mock, dir, &flags).await?;
        let proxy = Arc::new(FaultProxy::start(&rig.plane).await?);
        let at = |fault| place.filter(|place| place.fault == fault);

        let changes = Arc::new(AtomicUsize::new(0));
        let holds_at = at(Fault::Kill).map_or(0, |place| place.number);
        let is_held =
            move |changes: &AtomicUsize| changes.fetch_add(1, Ordering::AcqRel) + 1 == holds_at;
        let (of_writes, of_calls) = (Arc::clone(&changes), Arc::clone(&changes));
        let write = Rule::new(faults::Fault::HoldAnswer).writes();
        let write = write.when(|request| COLLECTIONS.iter().any(|one| request.path.contains(one)));
        proxy.inject(write.when(move |_| is_held(&of_writes)));
        let socket = dir.join("calls.sock");
        let calls = CallWay::start(&socket, cloud.socket(), move |path| {
            CHANGES.iter().any(|method| path.ends_with(method)) && is_held(&of_calls)
        })?;
        let omission = at(Fault::Omit).map(|place| Omission {
            rule: proxy.inject(
                Rule::new(faults::Fault::OmitEvent)
                    .when(|request| COLLECTIONS.iter().any(|one| request.path.ends_with(one)))
                    .skip(place.number - 1)
                    .times(1),
            ),
            expiry: None,
            has_expired: false,
        });

        let mut args = FLAGS.map(str::to_owned).to_vec();
        args.push(format!("--kubeconfig={}", proxy.kubeconfig().display()));
        args.push(format!("--provider-endpoint=unix://{}", socket.display()));
        let mut run = Self {
            rig,
            place,
            controller: Arc::default(),
            killer: JoinSet::new(),
            proxy,
            calls: Arc::new(calls),
            cloud,
            args,
            log: dir.join("controller.log"),
            changes,
            omission,
            has_happened: false,
            observer: Observer::default(),
            scratch,
        };
        run.start_controller().await?;
        if at(Fault::Kill).is_some() {
            run.kill_when_held();
        }
        Ok(run)
    }

    fn kill_when_held(&mut self) {
        let (calls, proxy) = (Arc::clone(&self.calls), Arc::clone(&self.proxy));
        let controller = Arc::clone(&self.controller);
        self.killer.spawn(async move {
            let is_held = |one: &Recorded| one.outcome == Outcome::Held;
            let write = proxy.wait_for(Duration::MAX, |requests| requests.iter().any(is_held));
            tokio::select! {
                () = calls.held() => {}
                _ = write => {}
            }
            let controller = controller.lock().take();
            let _ = spawn_blocking(move || drop(controller)).await;
        });
    }

    async fn kill(&self) -> Result<()> {
        let controller = self.controller.lock().take();
        let ended = spawn_blocking(move || drop(controller)).await;
        ended.map_err(|error| Error::io("kill the controller")(error.into()))
    }

    /// Starts the controller, and waits until it leads. A Lease of one that was killed is released, as it would be in the end.
    async fn start_controller(&mut self) -> Result<()> {
        if self.holder().await?.is_some() {
            let released = json!({"spec": {"holderIdentity": ""}});
            wire::patch(&self.rig.client, LEASE, &released, "the Lease").await?;
        }
        let program = &self.rig.programs.controller;
        let log = self.log.clone();
        let started = Process::start("cloud-controller-manager", program, &self.args, log)?;
        *self.controller.lock() = Some(started);
        let end = Instant::now() + DEADLINE;
        while self.holder().await?.is_none_or(|holder| holder.is_empty()) {
            if Instant::now() > end {
                return Err(self.unfulfilled("the controller leads", "it does not"));
            }
            sleep(TICK).await;
        }
        Ok(())
    }

    async fn holder(&self) -> Result<Option<String>> {
        let leases = Api::<Lease>::namespaced(self.rig.client.clone(), "kube-system");
        let lease = leases.get_opt("cloud-controller-manager").await;
        let lease = lease.map_err(Error::kube("cannot read the Lease"))?;
        Ok(lease.and_then(|lease| lease.spec?.holder_identity))
    }

    async fn play(&mut self, scenario: &Scenario, expected: &[State]) -> Result<Vec<State>> {
        let mut states = Vec::new();
        for (index, act) in scenario.steps.iter().enumerate() {
            let past = self.past_after(index);
            let before = match past {
                Some(_) => Some(self.version().await?),
                None => None,
            };
            act.carry_out(&self.rig.client, &self.cloud).await?;
            let step = format!("step {} leads to its state", index + 1);
            let mut state = self.reach(&step, expected.get(index)).await?;
            if let (Some(collection), Some(version)) = (past, before) {
                self.restart_in_the_past(collection, version).await?;
                state = self.reach(&step, expected.get(index)).await?;
            }
            if self.rig.keep {
                let path = self.log.with_file_name(format!("state-{}", index + 1));
                let written = std::fs::write(&path, state.join("\n"));
                written.map_err(Error::io(format!("write {}", path.display())))?;
            }
            states.push(state);
        }
        let state = self.settle().await?;
        match expected.last() {
            Some(expected) if *expected != state => {
                let step = "the last state stays";
                Err(self.unfulfilled(step, &difference(expected, &state)))
            }
            _ => Ok(states),
        }
    }

    /// The state that a step leads to: the expected one, or the one in which nothing happens any more.
    async fn reach(&mut self, step: &str, expected: Option<&State>) -> Result<State> {
        let Some(expected) = expected else {
            return self.settle().await;
        };
        let end = Instant::now() + DEADLINE;
        loop {
            self.attend_to_fault().await?;
            let state = self.observe().await?;
            if state == *expected {
                return Ok(state);
            }
            if Instant::now() > end {
                return Err(self.unfulfilled(step, &difference(expected, &state)));
            }
            sleep(TICK).await;
        }
    }

    /// Returns once nothing has happened for a while.
    async fn settle(&mut self) -> Result<State> {
        let end = Instant::now() + DEADLINE;
        let (mut since, mut before) = (Instant::now(), 0);
        while since.elapsed() < QUIET {
            let is_under_way = self.attend_to_fault().await?;
            let changes = self.changes.load(Ordering::Acquire);
            if changes != before || is_under_way {
                (since, before) = (Instant::now(), changes);
            }
            if Instant::now() > end {
                let observed = format!("{changes} writes and calls so far");
                return Err(self.unfulfilled("nothing happens any more", &observed));
            }
            sleep(TICK).await;
        }
        self.observe().await
    }

    async fn observe(&mut self) -> Result<State> {
        self.observer.observe(&self.rig.client, &self.cloud).await
    }

    /// Does what follows on the fault. Returns whether something is under way.
    async fn attend_to_fault(&mut self) -> Result<bool> {
        if let Some(omission) = &mut self.omission {
            if omission.rule.hits() == 0 || omission.has_expired {
                return Ok(false);
            }
            self.has_happened = true;
            let expiry = *omission.expiry.get_or_insert(Instant::now() + LAG);
            if Instant::now() >= expiry {
                omission.has_expired = true;
                for collection in COLLECTIONS {
                    self.proxy.cut_watches(collection, Cut::Expired);
                }
            }
            return Ok(true);
        }
        if self.controller.lock().is_none() {
            self.has_happened = true;
            self.start_controller().await?;
            return Ok(true);
        }
        let mut controller = self.controller.lock();
        controller.iter_mut().try_for_each(Process::check)?;
        Ok(false)
    }

    /// The collection whose list is from the past after this step.
    fn past_after(&self, index: usize) -> Option<&'static str> {
        let place = self.place.filter(|place| place.fault == Fault::Past)?;
        let number = place.number - 1;
        (number / COLLECTIONS.len() == index).then(|| COLLECTIONS[number % COLLECTIONS.len()])
    }

    /// The version of the cluster.
    async fn version(&self) -> Result<String> {
        let nodes = Api::<Node>::all(self.rig.client.clone());
        let nodes = nodes.list_metadata(&ListParams::default().limit(1)).await;
        let nodes = nodes.map_err(Error::kube("cannot list Nodes"))?;
        Ok(nodes.metadata.resource_version.unwrap_or_default())
    }

    /// Kills the controller and starts it again, with a list as of `version`, which its watch makes good later. The list comes in
    /// pages: an API server streams no objects of the past.
    async fn restart_in_the_past(
        &mut self,
        collection: &'static str,
        version: String,
    ) -> Result<()> {
        self.kill().await?;
        let pages = Rule::new(faults::Fault::streams_no_objects()).streams();
        self.proxy.inject(pages.path_ends(collection).times(1));
        let list = Rule::new(faults::Fault::Past(version)).method(Method::GET);
        let list = list
            .when(|request| !request.is_watch())
            .path_ends(collection);
        let list = self.proxy.inject(list.times(1));
        let watch = Rule::new(faults::Fault::Delay(LAG)).watches();
        let watch = self.proxy.inject(watch.path_ends(collection).times(1));
        self.start_controller().await?;
        let is_lagging = |_: &[Recorded]| list.hits() == 1 && watch.hits() == 1;
        if self.proxy.wait_for(DEADLINE, is_lagging).await.is_none() {
            let observed = format!("no list and watch of {collection}");
            return Err(self.unfulfilled("the controller lists again", &observed));
        }
        self.has_happened = true;
        // The state is right before the watch shows anything, too.
        sleep(LAG * 2).await;
        Ok(())
    }

    fn unfulfilled(&self, step: &str, observed: &str) -> Error {
        Error::Unfulfilled {
            step: step.to_owned(),
            timeout: DEADLINE,
            observed: format!("\n{observed}"),
            controller: log_end(&self.log),
            provider: self.cloud.mock.log_end(),
        }
    }
}
