//! One API server on which incidents are played, one controller after the other.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Service},
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use outrigger_testbed::{
    ControlPlane, Error, Options, Result, nodes,
    process::{Process, Scratch},
    services,
};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{Controller, Incident, Loss, State, Step, loss::Snapshot};
use crate::script::{Cloud, clean};

const DEADLINE: Duration = Duration::from_mins(1);

/// Paths of the programs.
#[derive(Debug)]
pub(crate) struct Programs {
    /// Upstream's library as a controller; any path if it is not played against.
    pub(crate) upstream: PathBuf,
    /// cloud-controller-manager.
    pub(crate) outrigger: PathBuf,
    /// provider-mock.
    pub(crate) mock: PathBuf,
}

/// A control plane for any number of incidents.
pub(crate) struct Cluster {
    plane: ControlPlane,
    client: Client,
    programs: Programs,
}

impl Cluster {
    pub(crate) async fn start(programs: Programs) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        Ok(Self {
            client: plane.client()?,
            plane,
            programs,
        })
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.plane.stop().await
    }

    /// Plays an incident with a new cloud, and removes all objects afterwards.
    pub(crate) async fn play(&self, incident: &Incident, controller: Controller) -> Result<Loss> {
        let mut stage = Stage::set_up(self, incident, controller).await?;
        for step in &incident.steps {
            stage.carry_out(step).await?;
        }
        let loss = stage.loss().await?;
        stage.end().await?;
        clean(&self.client).await?;
        Ok(loss)
    }

    /// The process that holds the Lease.
    async fn holder(&self) -> Result<Option<String>> {
        let leases = Api::<Lease>::namespaced(self.client.clone(), "kube-system");
        let lease = leases.get_opt("cloud-controller-manager").await;
        let lease = lease.map_err(Error::kube("cannot read the Lease"))?;
        Ok(lease.and_then(|lease| lease.spec?.holder_identity))
    }

    /// The Services, without the API server's own.
    async fn services(&self) -> Result<Vec<Service>> {
        let services = Api::<Service>::namespaced(self.client.clone(), "default");
        let services = services.list(&ListParams::default()).await;
        let services = services.map_err(Error::kube("cannot list Services"))?.items;
        let others = services.into_iter();
        let others = others.filter(|service| service.name_any() != "kubernetes");
        Ok(others.collect())
    }
}

/// A cluster while an incident is played. Dropped in the order of the fields.
struct Stage<'a> {
    cluster: &'a Cluster,
    kind: Controller,
    controller: Option<Process>,
    /// It held the Lease when the controller was started.
    earlier_holder: Option<String>,
    cloud: Cloud,
    start: Snapshot,
    scratch: Scratch,
}

impl<'a> Stage<'a> {
    async fn set_up(cluster: &'a Cluster, incident: &Incident, kind: Controller) -> Result<Self> {
        let scratch = Scratch::new(false)?;
        let mut flags = vec![format!("--visibility-delay={}s", incident.visibility_delay)];
        flags.extend_from_slice(&incident.mock);
        Ok(Self {
            cluster,
            kind,
            controller: None,
            earlier_holder: None,
            cloud: Cloud::start(&cluster.programs.mock, scratch.path(), &flags).await?,
            start: Snapshot::default(),
            scratch,
        })
    }

    async fn carry_out(&mut self, step: &Step) -> Result<()> {
        let client = &self.cluster.client;
        match step {
            Step::Act(act) => {
                for node in act.carry_out(client, &self.cloud).await? {
                    let uid = node.uid().unwrap_or_default();
                    self.start.nodes.insert(node.name_any(), uid);
                }
                Ok(())
            }
            Step::Start => self.start().await,
            Step::Until(state) => self.until(state).await,
            Step::Pass(seconds) => {
                sleep(Duration::from_secs(*seconds)).await;
                self.processes_run()
            }
            Step::Count => {
                self.start = Snapshot::take(client, &self.cloud).await?;
                Ok(())
            }
        }
    }

    async fn start(&mut self) -> Result<()> {
        let before = self.controller.take();
        let ended = spawn_blocking(move || drop(before)).await;
        ended.map_err(|error| Error::io("kill the controller")(error.into()))?;
        self.earlier_holder = self.cluster.holder().await?;
        let kubeconfig = self.cluster.plane.admin_kubeconfig()?;
        let endpoint = self.cloud.endpoint();
        let mut args = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            // The next process leads after 5 s.
            "--leader-elect-lease-duration=5s".to_owned(),
            "--leader-elect-renew-deadline=4s".to_owned(),
            "--leader-elect-retry-period=1s".to_owned(),
            // No port that another process may have bound.
            "--secure-port=0".to_owned(),
            "--configure-cloud-routes=false".to_owned(),
            "--node-monitor-period=1s".to_owned(),
        ];
        let programs = &self.cluster.programs;
        let controller = self.scratch.path().join("controller.log");
        self.controller = Some(match self.kind {
            Controller::Upstream => {
                args.push("--cloud-provider=mock".to_owned());
                let environment = format!("BENCH_PROVIDER={endpoint}");
                args.splice(..0, [environment, programs.upstream.display().to_string()]);
                Process::start("upstream", Path::new("/usr/bin/env"), &args, controller)?
            }
            Controller::Outrigger => {
                args.push(format!("--provider-endpoint={endpoint}"));
                args.push("--node-deletion-window=5s".to_owned());
                let program = &programs.outrigger;
                Process::start("cloud-controller-manager", program, &args, controller)?
            }
        });
        Ok(())
    }

    async fn until(&mut self, state: &State) -> Result<()> {
        const EVERY: Duration = Duration::from_millis(100);
        let end = Instant::now() + DEADLINE;
        loop {
            self.processes_run()?;
            let Some(observed) = self.lacks(state).await? else {
                return Ok(());
            };
            if Instant::now() > end {
                return Err(Error::Unfulfilled {
                    step: format!("{state:?}"),
                    timeout: DEADLINE,
                    observed,
                    controller: self
                        .controller
                        .as_ref()
                        .map_or_else(String::new, Process::log_end),
                    provider: self.cloud.mock.log_end(),
                });
            }
            sleep(EVERY).await;
        }
    }

    /// The objects that are not in a state yet.
    async fn lacks(&self, state: &State) -> Result<Option<String>> {
        let names = match state {
            State::Led => {
                let holder = self.cluster.holder().await?;
                let is_new = holder.is_some() && holder != self.earlier_holder;
                let held = format!("the Lease is held by {holder:?}");
                (!is_new).then_some(held).into_iter().collect()
            }
            State::Initialised => {
                let nodes = nodes::list::<Node>(&self.cluster.client).await?;
                let nodes = nodes.iter().filter(|node| nodes::is_tainted(node));
                nodes.map(ResourceExt::name_any).collect()
            }
            State::Served => {
                let services = self.cluster.services().await?;
                let services = services.iter();
                let waiting = services.filter(|one| services::addresses(one).is_empty());
                waiting.map(ResourceExt::name_any).collect()
            }
            State::Withdrawn => self
                .cloud
                .balancers()
                .await?
                .into_iter()
                .map(|one| one.id)
                .collect(),
            State::Gone(name) => {
                let mut nodes = nodes::names(&self.cluster.client, name).await?;
                nodes.retain(|node| node == name);
                nodes
            }
        };
        Ok((!names.is_empty()).then(|| names.join(", ")))
    }

    fn processes_run(&mut self) -> Result<()> {
        let controller = self.controller.iter_mut();
        controller
            .chain([&mut self.cloud.mock])
            .try_for_each(Process::check)
    }

    async fn loss(&self) -> Result<Loss> {
        let end = Snapshot::take(&self.cluster.client, &self.cloud).await?;
        Ok(self.start.loss(&end))
    }

    async fn end(self) -> Result<()> {
        let (controller, cloud, scratch) = (self.controller, self.cloud, self.scratch);
        let ended = spawn_blocking(move || drop((controller, cloud, scratch))).await;
        ended.map_err(|error| Error::io("end controller and cloud")(error.into()))
    }
}
