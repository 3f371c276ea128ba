//! Controller and provider are killed at random moments, by a fixed seed, while Nodes and Services come and go. In the end
//! everything is as users want it: nothing is lost, and nothing is there twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use fastrand::Rng;
use k8s_openapi::api::core::v1::Service;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use outrigger_provider_mock::journal::{Event, Line};
use outrigger_testbed::nodes::Machine;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    cluster::services::load_balancer,
    ipam, look,
    routes::agreed,
    stage::{Setup, Stage},
    wait::{holds, until},
};

const SEED: u64 = 1;

/// Acts of users, and kills among them.
const STEPS: usize = 100;

/// The objects that users want by now.
#[derive(Default)]
struct Desired {
    nodes: BTreeSet<String>,
    /// Port of each Service, by name.
    services: BTreeMap<String, i32>,
    /// UIDs of Services that users have deleted.
    released: BTreeSet<String>,
    made: usize,
}

impl Desired {
    /// Takes the next step.
    async fn step(&mut self, stage: &mut Stage, random: &mut Rng) {
        self.made += 1;
        match random.u8(..20) {
            0..3 => {
                stage.kill_controller().await;
                stage.start_controller();
            }
            3..5 => {
                stage.mock.kill().await;
                stage.restart_mock().await;
            }
            5..8 => {
                let name = format!("n-{}", self.made);
                stage.register(&Machine::new(&name)).await;
                self.nodes.insert(name);
            }
            8..10 => {
                if let Some(name) = random.choice(self.nodes.clone()) {
                    let (nodes, parameters) = (stage.nodes(), DeleteParams::default());
                    nodes.delete(&name, &parameters).await.unwrap();
                    self.nodes.remove(&name);
                }
            }
            10..14 => {
                let name = format!("s-{}", self.made);
                stage.create_service(load_balancer(&name)).await;
                self.services.insert(name, 80);
            }
            14..17 => {
                if let Some((name, port)) = random.choice(&mut self.services) {
                    *port += 1;
                    let ports = json!([{"name": "http", "protocol": "TCP", "port": *port}]);
                    let change = json!({"spec": {"ports": ports}});
                    stage.change_service(name, change).await;
                }
            }
            _ => {
                if let Some((name, _)) = random.choice(self.services.clone()) {
                    self.release(stage, &name).await;
                }
            }
        }
    }

    /// A user deletes a Service.
    async fn release(&mut self, stage: &Stage, name: &str) {
        let service = stage.service(name).await;
        self.released.insert(look::uid(&service).to_owned());
        self.services.remove(name);
        stage.delete_service(name).await;
    }

    /// Each Service has one load balancer with its port and all Nodes, and no other load balancer is there.
    async fn is_served(&self, stage: &Stage) -> Result<(), String> {
        let balancers = stage.mock.load_balancers().await;
        let services = stage.services().list(&ListParams::default()).await.unwrap();
        let is_wanted = |service: &Service| service.name_any() != "kubernetes";
        let services: Vec<_> = services.items.into_iter().filter(is_wanted).collect();
        let names: Vec<_> = services.iter().map(ResourceExt::name_any).collect();
        holds(names.iter().eq(self.services.keys()), || {
            format!("the Services are {names:?}")
        })?;
        holds(balancers.len() == services.len(), || {
            format!("{} load balancers", balancers.len())
        })?;
        for service in &services {
            let uid = look::uid(service);
            let is_its_own =
                |tag: &outrigger_provider_mock::load_balancers::ServiceTag| tag.uid == uid;
            let mut own = balancers.iter();
            let own = own.find(|one| one.service.as_ref().is_some_and(is_its_own));
            let own = own.ok_or_else(|| format!("{} has none", service.name_any()))?;
            let ports: Vec<_> = own.ports.iter().map(|port| port.port).collect();
            let targets = own.targets.iter().map(|target| target.node.to_string());
            let targets: BTreeSet<_> = targets.collect();
            let addresses = own.addresses.iter().map(|ip| format!("{ip} VIP"));
            let addresses: Vec<_> = addresses.collect();
            let published = look::services::addresses_of(service);
            let is_right = ports == [self.services[&service.name_any()]]
                && targets == self.nodes
                && published == addresses;
            holds(is_right, || {
                format!("{published:?}, {ports:?} and {targets:?} of {own:?}")
            })?;
        }
        Ok(())
    }

    /// All that users want is there, and no more.
    async fn is_reached(&self, stage: &Stage) {
        agreed(stage, self.nodes.len()).await;
        ipam::all_allocated(stage, self.nodes.len(), 1).await;
        let nodes = stage.named("").await;
        let nodes: BTreeSet<_> = nodes.iter().map(ResourceExt::name_any).collect();
        assert_eq!(nodes, self.nodes);
        for name in &self.nodes {
            stage.initialized(name).await;
        }
        until("each Service is served", async || {
            self.is_served(stage).await
        })
        .await;
    }

    /// Each load balancer was made once, and deleted only for a Service that a user has deleted.
    fn is_kept(&self, journal: &Path) {
        let mut made = BTreeSet::new();
        for line in fs::read_to_string(journal).unwrap().lines() {
            let line: Line = serde_json::from_str(line).unwrap();
            match line.event {
                Event::LoadBalancerCreated(one) => assert!(made.insert(one.uid.clone()), "{one:?}"),
                Event::LoadBalancerDeleted(one) => {
                    assert!(self.released.contains(&one.uid.clone().unwrap()), "{one:?}");
                }
                Event::CallBegan { .. } => {}
            }
        }
        assert!(made.len() > 10, "{} load balancers were made", made.len());
    }
}

#[tokio::test]
async fn kills_at_random_moments_lose_nothing_and_double_nothing() {
    let files = tempfile::tempdir().unwrap();
    let journal = files.path().join("journal");
    let mut stage = Setup::mock(&[
        "--synthesize-instances",
        "--routes",
        "--latency=20ms",
        "--jitter=0.5",
        "--state-sync",
        "--state-interval=5ms",
        &format!("--state={}", files.path().join("cloud.json").display()),
        &format!("--journal={}", journal.display()),
    ])
    .flags(&[
        "--allocate-node-cidrs",
        "--controllers=*,node-ipam",
        "--cluster-cidr=10.244.0.0/16",
        "--node-monitor-period=1s",
        "--route-reconciliation-period=10s",
    ])
    .start()
    .await;
    let (mut desired, mut random) = (Desired::default(), Rng::with_seed(SEED));
    for _ in 0..STEPS {
        desired.step(&mut stage, &mut random).await;
        sleep(Duration::from_millis(random.u64(..300))).await;
    }
    desired.is_reached(&stage).await;
    for name in desired.services.clone().into_keys() {
        desired.release(&stage, &name).await;
    }
    desired.is_reached(&stage).await;
    desired.is_kept(&journal);
}
