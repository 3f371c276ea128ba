//! A provider in the process of the test, whose cloud is a file: right, or with one defect that only a change shows.

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
use tokio::{net::UnixStream, task::JoinSet, time::Instant};

use crate::{
    inputs::{Inputs, Machine},
    run::Settings,
};

/// A mistake after a change, or a habit that is none. Each answer about a new Service is right.
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
    /// A deletion looks by a list that shows a load balancer a moment after it was made, as that of a cloud may.
    DeletesByALateList,
    /// A deletion leaves one firewall rule.
    LeavesARule,
    /// The list has an address more than the answers about the Service: no mistake.
    ListsAnAddressMore,
    /// Every fifth call is to be repeated, for one reason or another: no mistake.
    Hesitates,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Balancer {
    name: String,
    ports: BTreeSet<String>,
    served: BTreeSet<String>,
    sources: Vec<String>,
    targets: Vec<String>,
    sources_changed: bool,
    made: Option<Instant>,
    /// The provider does not know it any more.
    is_lost: bool,
}

impl Balancer {
    fn is_young(&self) -> bool {
        self.made.is_some_and(|made| made.elapsed() < LATE)
    }
}

#[derive(Debug, Default)]
struct Cloud {
    balancers: BTreeMap<String, Balancer>,
    rules: BTreeSet<String>,
    /// Ports by the name of a Service that was deleted.
    remembered: BTreeMap<String, BTreeSet<String>>,
    calls: usize,
}

/// How late a list may be.
const LATE: Duration = Duration::from_millis(300);

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
        inputs.limits.late = LATE.try_into().unwrap();
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
        let balancers = balancers.map(|(uid, one)| {
            format!("{uid} {:?} {:?} {:?}", one.served, one.sources, one.targets)
        });
        let lines: Vec<_> = balancers.chain(cloud.rules.iter().cloned()).collect();
        fs::write(&self.file, lines.join("\n")).unwrap();
        result
    }
}

impl Balancers {
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
    let ports: BTreeSet<_> = ports.collect();
    Balancer {
        name: service.name.clone(),
        served: ports.clone(),
        ports,
        sources: service.load_balancer_source_ranges.clone(),
        targets,
        ..Balancer::default()
    }
}

fn names(targets: &Targets) -> Vec<String> {
    targets.iter().map(|node| node.name.clone()).collect()
}

fn ready(last: u8) -> Answer {
    answer::ready([v1::LoadBalancerIngress {
        ip: format!("198.18.0.{last}"),
        ..v1::LoadBalancerIngress::default()
    }])
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
        Ok(self.with(|cloud| {
            let one = cloud.balancers.get(&service.uid);
            let Some(one) = one.filter(|one| !one.is_lost) else {
                return answer::absent();
            };
            let targets = targets.map_or_else(|| one.targets.clone(), names);
            let desired = desired(service, targets);
            let same = (&desired.ports, &desired.sources, &desired.targets)
                == (&one.ports, &one.sources, &one.targets);
            let is_other = self.has(Defect::OldAddressIsSaid) && one.sources_changed;
            if same {
                ready(if is_other { 2 } else { 1 })
            } else {
                answer::differs("it is another one")
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
            desired.made = before.made.or_else(|| Some(Instant::now()));
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
        let is_slow =
            self.has(Defect::Hesitates) && self.with(|cloud| cloud.calls.is_multiple_of(4));
        if is_slow {
            return Ok(answer::in_progress(Duration::from_millis(1), []));
        }
        Ok(ready(1))
    }

    async fn update_load_balancer_nodes(
        &self,
        _: &Context,
        request: &v1::UpdateLoadBalancerNodesRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        let service = request.service();
        self.hesitate()?;
        let targets = names(targets);
        Ok(self.with(|cloud| {
            let Some(one) = cloud.balancers.get_mut(&service.uid) else {
                return answer::absent();
            };
            if !(targets.is_empty() && self.has(Defect::ForgetsTargets)) {
                one.targets = targets;
            }
            answer::ready([])
        }))
    }

    async fn delete_load_balancer(
        &self,
        _: &Context,
        request: &v1::DeleteLoadBalancerRequest,
    ) -> Result<Answer, Error> {
        let service = request.service();
        self.hesitate()?;
        self.with(|cloud| {
            if self.has(Defect::DeletesByALateList)
                && let Some(one) = cloud.balancers.get_mut(&service.uid)
                && one.is_young()
            {
                one.is_lost = true;
                return;
            }
            if let Some(one) = cloud.balancers.remove(&service.uid) {
                for port in &one.ports {
                    let rule = format!("rule {} {port}", service.uid);
                    if !self.has(Defect::LeavesARule) {
                        cloud.rules.remove(&rule);
                    }
                }
                cloud.remembered.insert(one.name, one.ports);
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
        let uids: Vec<_> = self.with(|cloud| {
            let all = cloud.balancers.iter();
            let shown = all.filter(|(_, one)| !one.is_lost || !one.is_young());
            shown.map(|(uid, _)| uid.clone()).collect()
        });
        for (number, uid) in (2..).zip(uids) {
            let service = v1::ServiceRef {
                uid: uid.clone(),
                ..v1::ServiceRef::default()
            };
            let id = v1::LoadBalancerIdentity {
                id: uid,
                ..v1::LoadBalancerIdentity::default()
            };
            let mut status = ready(1).status;
            if self.has(Defect::ListsAnAddressMore)
                && let Some(status) = &mut status
            {
                status.ingress.push(v1::LoadBalancerIngress {
                    ip: format!("198.18.1.{number}"),
                    ..v1::LoadBalancerIngress::default()
                });
            }
            let owned = v1::OwnedLoadBalancer {
                identity: Some(id),
                service: Some(service),
                status,
            };
            all.send(owned).await?;
        }
        Ok(())
    }
}
