//! Two replicas and a provider that get another version one at a time, and the former one again.
//!
//! `OUTRIGGER_OLDER_CONTROLLER` and `OUTRIGGER_OLDER_MOCK` name the programs of the version that is there first.
//! `-- --nocapture` shows the calls and writes.

use std::{collections::BTreeMap, fs, time::Duration};

use std::sync::atomic::{AtomicUsize, Ordering};

use kube::api::DeleteParams;
use outrigger_testbed::nodes::Machine;
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::sleep};
use tokio_util::sync::CancellationToken;

use super::Version;
use crate::{
    cluster::{Cluster, services::load_balancer},
    controller::Controller,
    look::{services::annotation_of, uid, written},
    mock::Mock,
    replica::LEASE,
    stage::{Backstage, Setup, tell_if_panicking},
    wait::{holds, until},
};

/// Services that are not edited.
const STEADY: usize = 10;

/// Between two edits.
const PACE: Duration = Duration::from_millis(150);

/// Calls that change the cloud.
const CHANGES: [&str; 3] = [
    "EnsureLoadBalancer",
    "UpdateLoadBalancerNodes",
    "DeleteLoadBalancer",
];

/// Two replicas beside one provider.
struct Pods<'a> {
    cluster: &'a Backstage,
    mock: Mock,
    replicas: Vec<Controller>,
    flags: Vec<String>,
    /// Replicas that were started so far.
    started: usize,
}

/// The cluster without provider and controller.
async fn cluster() -> Backstage {
    Setup::without_provider()
        .flags(&[
            "--leader-elect=true",
            "--leader-elect-lease-duration=4s",
            "--leader-elect-renew-deadline=3s",
            "--leader-elect-retry-period=500ms",
            "--load-balancer-update-idle=100ms",
            "--load-balancer-update-ceiling=1s",
            "--node-status-update-frequency=2s",
        ])
        .machines(Machine::numbered("n-", 2))
        .prepare()
        .await
}

impl<'a> Pods<'a> {
    /// With the Services `steady-0` and so on, which are served.
    async fn settled(cluster: &'a Backstage, version: &Version) -> Self {
        let file = |flag: &str| format!("{flag}={}", cluster.dir().join(&flag[2..]).display());
        let flags = vec![
            file("--state"),
            "--state-interval=10ms".to_owned(),
            "--state-sync".to_owned(),
            file("--journal"),
            "--synthesize-instances".to_owned(),
        ];
        let mut pods = Self {
            cluster,
            mock: Mock::new(cluster.dir()),
            replicas: Vec::new(),
            flags,
            started: 0,
        };
        pods.mock.start_program(&version.mock, &pods.flags).await;
        for _ in 0..2 {
            let replica = pods.start(version).await;
            pods.replicas.push(replica);
        }
        for n in 0..2 {
            pods.cluster.synced(&format!("n-{n:05}")).await;
        }
        for n in 0..STEADY {
            let service = load_balancer(&format!("steady-{n}"));
            pods.cluster.create_service(service).await;
        }
        for n in 0..STEADY {
            let is_settled = |record: &str| !record.ends_with('/');
            let name = format!("steady-{n}");
            pods.cluster
                .service_that(&name, "is settled", |service| {
                    annotation_of(service, "outrigger.dev/last-applied").is_some_and(is_settled)
                })
                .await;
            let service = pods.cluster.served(&name).await;
            pods.cluster.event(&service, "EnsuredLoadBalancer").await;
        }
        pods.targets_in_step().await;
        pods.cluster.proxy.take_requests();
        pods
    }

    /// Starts a replica, and waits until it could lead or does.
    async fn start(&mut self, version: &Version) -> Controller {
        let log = format!("replica-{}.log", self.started);
        self.started += 1;
        let mut replica = self.cluster.controller_of(&version.controller, &log);
        replica.says(&["provider ready"]).await;
        until("a replica leads", async || {
            let lease = self.cluster.leases().get_opt(LEASE).await.unwrap();
            let holder = lease.and_then(|lease| lease.spec?.holder_identity);
            holds(
                holder.as_deref().is_some_and(|name| !name.is_empty()),
                || format!("{holder:?}"),
            )
        })
        .await;
        replica
    }

    /// Replaces the replicas one by one.
    async fn roll(&mut self, version: &Version) {
        for _ in 0..2 {
            let mut former = self.replicas.remove(0);
            former.terminate().await;
            let next = self.start(version).await;
            self.replicas.push(next);
        }
        for replica in &mut self.replicas {
            replica.pid();
        }
    }

    async fn replace_provider(&mut self, version: &Version) {
        self.mock.terminate().await;
        self.mock.start_program(&version.mock, &self.flags).await;
    }

    /// Waits until the leader has looked at each Node twice from now on.
    async fn swept(&self) {
        let lookups = self.mock.asked().await;
        self.mock.was_asked(lookups + 4).await;
    }

    /// Waits until the load balancer of each Service with such a name sends to each Node.
    async fn sends_to_all(&self, prefix: &str) {
        until("each load balancer sends to each Node", async || {
            let nodes = self.cluster.named("").await.len();
            let all = self.mock.load_balancers().await;
            let mut those = all.iter().filter(|one| {
                one.service
                    .as_ref()
                    .is_some_and(|tag| tag.name.starts_with(prefix))
            });
            let behind = those.find(|one| one.targets.len() != nodes);
            holds(behind.is_none(), || format!("{nodes} Nodes, {behind:?}"))
        })
        .await;
    }

    /// The same, once the Lease says so.
    async fn targets_in_step(&self) {
        self.sends_to_all("").await;
        self.cluster.targets_are_remembered().await;
    }

    /// How many calls of each method were about each Service, by UID and method.
    fn calls(&self) -> BTreeMap<(String, String), usize> {
        let text = fs::read_to_string(self.cluster.dir().join("journal")).unwrap();
        let mut calls = BTreeMap::new();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let began = &line["event"]["callBegan"];
            let method = began["method"].as_str().unwrap_or_default();
            if !CHANGES.contains(&method) {
                continue;
            }
            for service in began["services"].as_array().into_iter().flatten() {
                let uid = service["uid"].as_str().unwrap().to_owned();
                *calls.entry((uid, method.to_owned())).or_default() += 1;
            }
        }
        calls
    }

    /// Writes so far, except those of the Lease and its events.
    fn writes(&self) -> Vec<String> {
        let requests = self.cluster.proxy.requests();
        let writes = requests.iter().filter(|request| request.is_write());
        let mut writes: Vec<_> = writes.map(written).collect();
        writes.retain(|write| !write.contains("/leases") && !write.ends_with(LEASE));
        writes
    }
}

impl Drop for Pods<'_> {
    fn drop(&mut self) {
        tell_if_panicking(self.cluster.dir(), &self.cluster.proxy);
        if std::thread::panicking() {
            for n in 0..self.started {
                let log = self.cluster.dir().join(format!("replica-{n}.log"));
                let log = fs::read_to_string(log).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(40)..].join("\n");
                eprintln!("---- the end of replica {n} ----\n{end}");
            }
        }
    }
}

#[tokio::test]
async fn another_version_of_each_part_and_back_makes_no_call_and_no_write() {
    let (other, present) = (Version::other().await, Version::present().await);
    let cluster = cluster().await;
    let mut pods = Pods::settled(&cluster, &other).await;
    let before = pods.calls();
    pods.roll(&present).await;
    pods.replace_provider(&present).await;
    pods.swept().await;
    pods.replace_provider(&other).await;
    pods.roll(&other).await;
    pods.swept().await;
    assert_eq!(pods.calls(), before);
    assert_eq!(pods.writes(), [""; 0]);
    println!("{} calls before, none after; no write", before.len());
}

/// Services and Nodes that come, change and go.
#[derive(Default)]
struct Load {
    rounds: AtomicUsize,
    /// No Node comes or goes while it is held.
    nodes_stay: Mutex<()>,
    over: CancellationToken,
}

/// Makes the load: the ports of the Services that are left.
async fn edit(cluster: &Cluster, load: &Load) -> BTreeMap<String, i32> {
    let mut left = BTreeMap::new();
    let mut nodes = Vec::new();
    while !load.over.is_cancelled() {
        let n = load.rounds.load(Ordering::Relaxed);
        let name = format!("edited-{n}");
        cluster.create_service(load_balancer(&name)).await;
        left.insert(name, 80);
        sleep(PACE).await;
        if let Some((name, port)) = left.iter_mut().nth(n % 3) {
            *port += 1;
            let ports = json!([{"name": "http", "protocol": "TCP", "port": *port}]);
            cluster
                .change_service(name, json!({"spec": {"ports": ports}}))
                .await;
        }
        sleep(PACE).await;
        if n % 2 == 1 {
            let (name, _) = left.pop_first().unwrap();
            cluster.delete_service(&name).await;
        }
        if let Ok(_moving) = load.nodes_stay.try_lock() {
            if n.is_multiple_of(4) {
                let machine = Machine::new(format!("comes-{n}"));
                cluster.register(&machine).await;
                nodes.push(format!("comes-{n}"));
            }
            if n % 4 == 2 && nodes.len() > 1 {
                let parameters = DeleteParams::default();
                let name = nodes.remove(0);
                cluster.nodes().delete(&name, &parameters).await.unwrap();
            }
        }
        sleep(PACE).await;
        load.rounds.fetch_add(1, Ordering::Relaxed);
    }
    left
}

impl Load {
    /// Waits until some more came and went.
    async fn goes_on(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        until("the load goes on", async || {
            let now = self.rounds.load(Ordering::Relaxed);
            holds(now > before + 3, || format!("{now}"))
        })
        .await;
    }
}

#[tokio::test]
async fn another_version_under_load_costs_a_service_that_is_not_edited_nothing() {
    let (other, present) = (Version::other().await, Version::present().await);
    let cluster = cluster().await;
    let mut pods = Pods::settled(&cluster, &other).await;
    let before = pods.calls();
    let load = Load::default();
    let roll = async {
        load.goes_on().await;
        pods.roll(&present).await;
        load.goes_on().await;
        // An update that an ending provider refuses is rightly followed by an Ensure, so none may be due.
        for version in [&present, &other] {
            let stay = load.nodes_stay.lock().await;
            pods.sends_to_all("steady-").await;
            pods.replace_provider(version).await;
            drop(stay);
            load.goes_on().await;
        }
        pods.roll(&other).await;
        load.goes_on().await;
        load.over.cancel();
    };
    let (left, ()) = tokio::join!(edit(&cluster, &load), roll);

    for (name, port) in &left {
        let uid = uid(&pods.cluster.served(name).await).to_owned();
        until(&format!("{name} has its last port"), async || {
            let made = pods.mock.load_balancer(&uid).await;
            let ports = made.map(|made| made.ports).unwrap_or_default();
            holds(ports.len() == 1 && ports[0].port == *port, || {
                format!("{ports:?}")
            })
        })
        .await;
    }
    until("no load balancer is left over", async || {
        let owners = pods.mock.owners().await.len();
        holds(owners == left.len() + STEADY, || format!("{owners}"))
    })
    .await;
    pods.targets_in_step().await;

    let (after, writes) = (pods.calls(), pods.writes());
    for n in 0..STEADY {
        let name = format!("steady-{n}");
        let service = pods.cluster.service(&name).await;
        for method in ["EnsureLoadBalancer", "DeleteLoadBalancer"] {
            let key = (uid(&service).to_owned(), method.to_owned());
            assert_eq!(after.get(&key), before.get(&key), "{name} {method}");
        }
        let path = format!("/services/{name}");
        let written: Vec<_> = writes
            .iter()
            .filter(|write| write.ends_with(&path) || write.contains(&format!("{path}/")))
            .collect();
        assert!(written.is_empty(), "{written:?}");
    }
    let total: usize = after.values().sum();
    println!(
        "{} Services edited are left; {total} calls and {} writes, none beyond the load's own",
        left.len(),
        writes.len()
    );
}
