//! A provider in the process of the test, whose cloud is a file: right, or with one defect that only a change shows.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use outrigger_provider_sdk::{
    Answer, Context, Deleted, Endpoint, Ensured, Error, Ingress, LoadBalancer, LoadBalancers,
    LoadBalancersCapability, Observed, OwnedLoadBalancer, Provider, ProviderInfo, Server, Service,
    ServiceName, Targets, Updated,
};
use tempfile::TempDir;
use tokio::{net::UnixStream, task::JoinSet};

use crate::{
    inputs::{Inputs, Machine},
    run::Settings,
};

/// A mistake after a change. Each answer about a new Service is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// A port that is removed is served on, which no lookup says.
    KeepsRemovedPorts,
    /// The firewall rule of a port that was removed is left by the deletion.
    LeavesRulesOfRemovedPorts,
    /// A lookup says another address once the source ranges have changed.
    OldAddressIsSaid,
    /// A Service that was deleted and made again has the ports of before.
    ReturnsWithOldPorts,
    /// An update without targets changes nothing.
    ForgetsTargets,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Balancer {
    name: String,
    ports: BTreeSet<String>,
    served: BTreeSet<String>,
    sources: Vec<String>,
    targets: Vec<String>,
    sources_changed: bool,
}

#[derive(Debug, Default)]
struct Cloud {
    balancers: BTreeMap<String, Balancer>,
    rules: BTreeSet<String>,
    /// Ports by the name of a Service that was deleted.
    remembered: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Clone)]
struct Balancers {
    cloud: Arc<Mutex<Cloud>>,
    file: PathBuf,
    defect: Option<Defect>,
}

struct Cluster;

impl Provider for Cluster {
    fn info(&self) -> ProviderInfo {
        ProviderInfo::new("explored", "1")
    }
}

/// The provider, its inputs, and its end when it is dropped.
pub(super) struct Faulty {
    endpoint: Endpoint,
    inputs: Inputs,
    _folder: TempDir,
    _server: JoinSet<()>,
}

impl Faulty {
    pub(super) async fn start(defect: Option<Defect>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::unix(folder.path().join("provider.sock")).unwrap();
        let balancers = Balancers {
            cloud: Arc::default(),
            file: folder.path().join("cloud"),
            defect,
        };
        balancers.with(|_| ());
        let mut inputs = Inputs::default();
        inputs.instances.existing = ["worker-1", "worker-2"]
            .map(|name| Machine {
                node_name: name.to_owned(),
                ..Machine::default()
            })
            .to_vec();
        inputs.commands.cloud_state = ["cat", balancers.file.to_str().unwrap()]
            .map(str::to_owned)
            .to_vec();
        // These take the most time, and each defect shows without them.
        inputs.explore.without = ["cut", "deadline", "drop", "wait", "twice"]
            .map(str::to_owned)
            .to_vec();
        let server = Server::new(Cluster).load_balancers(balancers);
        let mut serving = JoinSet::new();
        let at = endpoint.clone();
        serving.spawn(async move {
            let served = server.serve_until(&at, std::future::pending());
            served.await.unwrap();
        });
        while UnixStream::connect(endpoint.path()).await.is_err() {
            tokio::task::yield_now().await;
        }
        Self {
            endpoint,
            inputs,
            _folder: folder,
            _server: serving,
        }
    }

    pub(super) fn settings(&self) -> Settings {
        Settings::plain(
            self.endpoint.clone(),
            self.inputs.clone(),
            "test".to_owned(),
        )
    }
}

impl Balancers {
    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// One call to the cloud.
    fn with<T>(&self, work: impl FnOnce(&mut Cloud) -> T) -> T {
        let mut cloud = self.cloud.lock().unwrap();
        let result = work(&mut cloud);
        let balancers = cloud.balancers.iter();
        let balancers = balancers.map(|(uid, one)| {
            format!("{uid} {:?} {:?} {:?}", one.served, one.sources, one.targets)
        });
        let lines: Vec<_> = balancers.chain(cloud.rules.iter().cloned()).collect();
        fs::write(&self.file, lines.join("\n")).unwrap();
        result
    }
}

fn desired(service: &Service, targets: Vec<String>) -> Balancer {
    let ports = service.ports.iter();
    let ports = ports.map(|one| format!("{}/{}:{}", one.protocol, one.port, one.node_port));
    let ports: BTreeSet<_> = ports.collect();
    Balancer {
        name: service.name.clone(),
        served: ports.clone(),
        ports,
        sources: service.load_balancer_source_ranges.clone(),
        targets,
        sources_changed: false,
    }
}

fn names(targets: &Targets) -> Vec<String> {
    targets.iter().map(|node| node.name.clone()).collect()
}

fn described(uid: &str, last: u8) -> LoadBalancer {
    let ip = [198, 18, 0, last].into();
    LoadBalancer::new(uid).with_ingress([Ingress::ip(ip)])
}

impl LoadBalancers for Balancers {
    fn capability(&self) -> LoadBalancersCapability {
        LoadBalancersCapability::default().with_list(true)
    }

    async fn get_load_balancer(
        &self,
        _: &Context,
        service: &Service,
        targets: Option<&Targets>,
    ) -> Result<Answer<Observed>, Error> {
        Ok(self.with(|cloud| {
            let Some(one) = cloud.balancers.get(&service.uid) else {
                return Observed::Absent.into();
            };
            let targets = targets.map_or_else(|| one.targets.clone(), names);
            let desired = desired(service, targets);
            let same = (&desired.ports, &desired.sources, &desired.targets)
                == (&one.ports, &one.sources, &one.targets);
            let is_other = self.has(Defect::OldAddressIsSaid) && one.sources_changed;
            let said = described(&service.uid, if is_other { 2 } else { 1 });
            if same {
                Observed::Ready(said).into()
            } else {
                Answer::from(Observed::Differs(said)).because("Other", "it is another one")
            }
        }))
    }

    async fn ensure_load_balancer(
        &self,
        _: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Ensured>, Error> {
        let mut desired = desired(service, names(targets));
        self.with(|cloud| {
            let before = cloud.balancers.get(&service.uid);
            let old = cloud.remembered.get(&service.name);
            if let Some(old) =
                old.filter(|_| before.is_none() && self.has(Defect::ReturnsWithOldPorts))
            {
                desired.ports.clone_from(old);
            }
            let before = before.cloned().unwrap_or_default();
            if self.has(Defect::KeepsRemovedPorts) {
                desired.served.extend(before.served);
            }
            desired.sources_changed = before.sources != desired.sources && !before.ports.is_empty();
            let rule = |port: &String| format!("rule {} {port}", service.uid);
            if !self.has(Defect::LeavesRulesOfRemovedPorts) {
                for port in &before.ports {
                    cloud.rules.remove(&rule(port));
                }
            }
            cloud.rules.extend(desired.ports.iter().map(rule));
            cloud.balancers.insert(service.uid.clone(), desired);
        });
        Ok(Ensured::Ready(described(&service.uid, 1)).into())
    }

    async fn update_load_balancer_nodes(
        &self,
        _: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Updated>, Error> {
        let targets = names(targets);
        Ok(self.with(|cloud| {
            let Some(one) = cloud.balancers.get_mut(&service.uid) else {
                return Updated::Absent.into();
            };
            if !(targets.is_empty() && self.has(Defect::ForgetsTargets)) {
                one.targets = targets;
            }
            Updated::ready(None).into()
        }))
    }

    async fn delete_load_balancer(
        &self,
        _: &Context,
        service: &Service,
    ) -> Result<Answer<Deleted>, Error> {
        self.with(|cloud| {
            if let Some(one) = cloud.balancers.remove(&service.uid) {
                for port in &one.ports {
                    cloud.rules.remove(&format!("rule {} {port}", service.uid));
                }
                cloud.remembered.insert(one.name, one.ports);
            }
        });
        Ok(Deleted::Absent.into())
    }

    async fn list_load_balancers(
        &self,
        _: &Context,
        all: &mut outrigger_provider_sdk::LoadBalancerSink,
    ) -> Result<(), Error> {
        let uids: Vec<_> = self.with(|cloud| cloud.balancers.keys().cloned().collect());
        for uid in uids {
            let name = ServiceName::new("", "", &uid);
            let owned = OwnedLoadBalancer::new(described(&uid, 1)).with_service(Some(name));
            all.send(owned).await?;
        }
        Ok(())
    }
}
