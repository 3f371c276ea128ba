//! Two replicas and a provider that get another version one at a time, and the former one again.
//!
//! `OUTRIGGER_OLDER_CONTROLLER` and `OUTRIGGER_OLDER_MOCK` name the programs of the version that is there first.
//! `-- --nocapture` shows the calls and writes.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::Service;
use outrigger_testbed::nodes::Machine;
use serde_json::Value;

use crate::{
    cluster::services::load_balancer,
    controller::{Controller, program},
    look::{services::annotation_of, written},
    mock::{self, Mock},
    replica::LEASE,
    stage::{Backstage, Setup, tell_if_panicking},
    wait::{holds, until},
};

const STEADY: usize = 10;

/// Calls that change the cloud.
const CHANGES: [&str; 3] = [
    "EnsureLoadBalancer",
    "UpdateLoadBalancerNodes",
    "DeleteLoadBalancer",
];

/// The programs of one version.
struct Version {
    controller: PathBuf,
    mock: PathBuf,
}

impl Version {
    /// The programs that are built with the tests.
    async fn present() -> Self {
        Self {
            controller: program(),
            mock: mock::binary().await.to_owned(),
        }
    }

    /// The programs that the environment names; the present program stands in for one that it does not name.
    async fn other() -> Self {
        let present = Self::present().await;
        let named = |variable: &str| env::var_os(variable).map(PathBuf::from);
        let other = Self {
            controller: named("OUTRIGGER_OLDER_CONTROLLER").unwrap_or(present.controller),
            mock: named("OUTRIGGER_OLDER_MOCK").unwrap_or(present.mock),
        };
        for program in [&other.controller, &other.mock] {
            assert!(Path::is_file(program), "{} is no file", program.display());
        }
        other
    }
}

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
            let name = format!("steady-{n}");
            let is_settled = |service: &Service| {
                let record = annotation_of(service, "outrigger.dev/last-applied");
                record.is_some_and(|record| !record.ends_with('/'))
            };
            pods.cluster
                .service_that(&name, "is settled", is_settled)
                .await;
            let service = pods.cluster.served(&name).await;
            pods.cluster.event(&service, "EnsuredLoadBalancer").await;
        }
        pods.cluster.targets_are_remembered().await;
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

    /// How many calls that change the cloud have begun.
    fn calls(&self) -> usize {
        let text = fs::read_to_string(self.cluster.dir().join("journal")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let is_change = |line: &Value| {
            let method = line["event"]["callBegan"]["method"].as_str();
            method.is_some_and(|method| CHANGES.contains(&method))
        };
        lines.filter(is_change).count()
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
    println!("{before} calls before, none after; no write");
}
