//! A provider in the process of the test, whose cloud is a file: right, or with one defect.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use outrigger_provider_sdk::{
    Answer, Context, Endpoint, Error, LoadBalancerSink, LoadBalancers, OfService as _, Provider,
    ProviderInfo, Server, Targets, answer,
    v1::{self, Service},
};
use tempfile::TempDir;
use tokio::{net::UnixStream, task::JoinSet};

use crate::{
    inputs::{Inputs, Machine},
    run::Settings,
};

/// A mistake that no answer shows, or a habit that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// The firewall rule of a port that was removed is left by the deletion.
    LeavesRulesOfRemovedPorts,
    /// A deletion leaves one firewall rule.
    LeavesARule,
    /// The list has an address more than the answers about the Service: no mistake.
    ListsAnAddressMore,
    /// Every fifth call is to be repeated, for one reason or another: no mistake.
    Hesitates,
}

#[derive(Clone, Debug, PartialEq)]
struct Balancer {
    ports: BTreeSet<String>,
    sources: Vec<String>,
    targets: Vec<String>,
}

#[derive(Debug, Default)]
struct Cloud {
    balancers: BTreeMap<String, Balancer>,
    rules: BTreeSet<String>,
    calls: usize,
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
        inputs.limits.late = jiff::SignedDuration::ZERO;
        inputs.commands.cloud_state = ["cat", balancers.file.to_str().unwrap()]
            .map(str::to_owned)
            .to_vec();
        // These take the most time, and each defect shows without them.
        inputs.explore.without = ["cut", "deadline", "twice"].map(str::to_owned).to_vec();
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
        let balancers = balancers.map(|(uid, one)| format!("{uid} {one:?}"));
        let lines: Vec<_> = balancers.chain(cloud.rules.iter().cloned()).collect();
        fs::write(&self.file, lines.join("\n")).unwrap();
        result
    }

    /// Refuses every fifth call for the moment.
    fn hesitate(&self) -> Result<(), Error> {
        let calls = self.with(|cloud| {
            cloud.calls += 1;
            cloud.calls
        });
        if !self.has(Defect::Hesitates) || !calls.is_multiple_of(5) {
            return Ok(());
        }
        let wait = Duration::from_millis(1);
        Err(match calls / 5 % 3 {
            0 => Error::rate_limited(wait),
            1 => Error::operation_in_progress("another call runs").with_retry_after(wait),
            _ => Error::conflict("it has changed"),
        })
    }
}

fn desired(service: &Service, targets: Vec<String>) -> Balancer {
    let ports = service.ports.iter();
    let ports = ports.map(|one| format!("{}/{}:{}", one.protocol, one.port, one.node_port));
    Balancer {
        ports: ports.collect(),
        sources: service.load_balancer_source_ranges.clone(),
        targets,
    }
}

fn names(targets: &Targets) -> Vec<String> {
    targets.iter().map(|node| node.name.clone()).collect()
}

fn point(ip: &str) -> v1::LoadBalancerIngress {
    v1::LoadBalancerIngress {
        ip: ip.to_owned(),
        ..v1::LoadBalancerIngress::default()
    }
}

fn ready() -> Answer {
    answer::ready([point("198.18.0.1")])
}

impl LoadBalancers for Balancers {
    fn capability(&self) -> v1::LoadBalancersCapability {
        v1::LoadBalancersCapability {
            list: true,
            ..v1::LoadBalancersCapability::default()
        }
    }

    async fn get_load_balancer(
        &self,
        _: &Context,
        request: &v1::GetLoadBalancerRequest,
        targets: Option<&Targets>,
    ) -> Result<Answer, Error> {
        let service = request.service();
        self.hesitate()?;
        Ok(self.with(|cloud| match cloud.balancers.get(&service.uid) {
            None => answer::absent(),
            Some(one) => {
                let targets = targets.map_or_else(|| one.targets.clone(), names);
                if desired(service, targets) == *one {
                    ready()
                } else {
                    answer::differs("it is another one")
                }
            }
        }))
    }

    async fn ensure_load_balancer(
        &self,
        _: &Context,
        request: &v1::EnsureLoadBalancerRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        let service = request.service();
        self.hesitate()?;
        let desired = desired(service, names(targets));
        let calls = self.with(|cloud| {
            let rule = |port: &String| format!("rule {} {port}", service.uid);
            let before = cloud.balancers.get(&service.uid);
            if let Some(before) = before.filter(|_| !self.has(Defect::LeavesRulesOfRemovedPorts)) {
                for port in &before.ports {
                    cloud.rules.remove(&rule(port));
                }
            }
            cloud.rules.extend(desired.ports.iter().map(rule));
            cloud.balancers.insert(service.uid.clone(), desired);
            cloud.calls
        });
        if self.has(Defect::Hesitates) && calls.is_multiple_of(4) {
            return Ok(answer::in_progress(Duration::from_millis(1), []));
        }
        Ok(ready())
    }

    async fn update_load_balancer_nodes(
        &self,
        _: &Context,
        request: &v1::UpdateLoadBalancerNodesRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        self.hesitate()?;
        let uid = &request.service().uid;
        Ok(self.with(|cloud| match cloud.balancers.get_mut(uid) {
            None => answer::absent(),
            Some(one) => {
                one.targets = names(targets);
                answer::ready([])
            }
        }))
    }

    async fn delete_load_balancer(
        &self,
        _: &Context,
        request: &v1::DeleteLoadBalancerRequest,
    ) -> Result<Answer, Error> {
        let uid = &request.service().uid;
        self.hesitate()?;
        self.with(|cloud| {
            let ports = cloud.balancers.remove(uid).map(|one| one.ports);
            for port in ports
                .iter()
                .flatten()
                .filter(|_| !self.has(Defect::LeavesARule))
            {
                cloud.rules.remove(&format!("rule {uid} {port}"));
            }
        });
        Ok(answer::absent())
    }

    async fn list_load_balancers(
        &self,
        _: &Context,
        all: &mut LoadBalancerSink,
    ) -> Result<(), Error> {
        self.hesitate()?;
        let uids: Vec<_> = self.with(|cloud| cloud.balancers.keys().cloned().collect());
        for (number, uid) in uids.into_iter().enumerate() {
            let mut status = ready().status;
            if let Some(status) = &mut status
                && self.has(Defect::ListsAnAddressMore)
            {
                status.ingress.push(point(&format!("198.18.1.{number}")));
            }
            let owned = v1::OwnedLoadBalancer {
                identity: Some(v1::LoadBalancerIdentity {
                    id: uid.clone(),
                    ..v1::LoadBalancerIdentity::default()
                }),
                service: Some(v1::ServiceRef {
                    uid,
                    ..v1::ServiceRef::default()
                }),
                status,
            };
            all.send(owned).await?;
        }
        Ok(())
    }
}
