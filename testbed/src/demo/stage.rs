//! The processes of a demo.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{task, time::interval};

use super::{
    Demo, Error, Run,
    cluster::Cluster,
    narrator::Narrator,
    programs::{self, Programs},
};
use crate::{
    ControlPlane, Options,
    process::{Process, Scratch},
    signals::Signals,
};

const CONTROLLER: &str = "cloud-controller-manager";

/// Time for the provider to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// Everything that runs. Dropping it ends everything, in the order of its fields.
pub(super) struct Stage {
    pub(super) controller: Process,
    pub(super) provider: Process,
    cloud: Option<Process>,
    pub(super) cluster: Cluster,
    pub(super) programs: Programs,
    pub(super) run: Run,
    scratch: Scratch,
}

impl Stage {
    /// Builds what is missing and starts everything, on the cluster of `--kubeconfig` if there
    /// is one.
    pub(super) async fn set_up(demo: &Demo, narrator: &Narrator) -> Result<Self, Error> {
        let kubeconfig = demo.kubeconfig.as_deref();
        if kubeconfig.is_some() && demo.provider.machine.is_some() {
            return Err(Error::NamedMachines {
                provider: demo.provider.name,
            });
        }
        // First: it fails fast, and a build is long.
        let existing = match kubeconfig {
            Some(path) => Some(Cluster::existing(path).await?),
            None => None,
        };
        let programs = programs::find(existing.is_none(), narrator).await?;
        let provider = demo.provider;
        provider.build(|action| narrator.begin(action)).await?;
        narrator.clear();
        let cluster = if let Some(cluster) = existing {
            cluster
        } else {
            narrator.begin("starting etcd and kube-apiserver");
            Cluster::own(ControlPlane::start(Options::default()).await?)?
        };
        let run = Run::new(kubeconfig.is_none());
        let scratch = Scratch::new(false)?;

        let name = provider.name;
        narrator.begin(&format!(
            "starting the provider {name} and cloud-controller-manager"
        ));
        let machines = demo.machines(&run);
        let machines: Vec<_> = machines
            .iter()
            .map(|machine| machine.name().to_owned())
            .collect();
        let launch = provider.launch(programs.folder(), &machines)?;
        let place = |file| scratch.path().join(file);
        let cloud = launch.start_cloud(place("cloud.log")).await?;
        let socket = socket(scratch.path());
        let log = place("provider.log");
        let provider = launch.start(&socket, log, STARTS_WITHIN).await?;
        let mut args = controller_args(&cluster, scratch.path());
        args.extend(launch.grant());
        let controller = Process::start(
            CONTROLLER,
            &programs.controller,
            &args,
            place("cloud-controller-manager.log"),
        )?;
        narrator.clear();
        let stage = Self {
            controller,
            provider,
            cloud,
            cluster,
            programs,
            run,
            scratch,
        };
        for (name, place) in stage.places() {
            narrator.note(&format!("{name:<26}{}", place.display()));
        }
        Ok(stage)
    }

    /// Where the provider listens.
    pub(super) fn endpoint(&self) -> String {
        endpoint(self.scratch.path())
    }

    /// Places to look into, while it runs.
    pub(super) fn places(&self) -> Vec<(&'static str, PathBuf)> {
        let mut places = vec![
            ("kubeconfig", self.cluster.kubeconfig().to_owned()),
            ("controller's log", self.controller.log().to_owned()),
            ("provider's log", self.provider.log().to_owned()),
        ];
        if let Some(dir) = self.cluster.own_dir() {
            places.push(("API server's log", dir.join("kube-apiserver.log")));
            places.push(("etcd's log", dir.join("etcd.log")));
        }
        places
    }

    /// Returns when something has ended that should run.
    pub(super) async fn failure(&mut self) -> Error {
        const EVERY: Duration = Duration::from_millis(100);
        // The controller last: it may end for want of the others.
        let mut processes: Vec<_> = self.cloud.iter_mut().collect();
        processes.extend([&mut self.provider, &mut self.controller]);
        let process = async {
            let mut tick = interval(EVERY);
            loop {
                tick.tick().await;
                if let Err(error) = processes.iter_mut().try_for_each(|process| process.check()) {
                    return error.into();
                }
            }
        };
        tokio::select! {
            error = process => error,
            error = self.cluster.failure() => error,
        }
    }

    /// Ends everything and removes what is left.
    pub(super) async fn strike(
        self,
        narrator: &Narrator,
        signals: &mut Signals,
    ) -> Result<(), Error> {
        let Self {
            controller,
            provider,
            cloud,
            cluster,
            run,
            scratch,
            ..
        } = self;
        narrator.begin("cleaning up");
        // The controller first, so that it neither misses the others nor touches the nodes
        // while they are deleted.
        let processes = task::spawn_blocking(move || {
            drop(controller);
            drop(provider);
            drop(cloud);
        });
        let processes = processes.await;
        let cleaned = cluster.clean_up(&run, signals).await;
        let scratch = task::spawn_blocking(move || drop(scratch)).await;
        narrator.clear();
        let ended = processes.and(scratch);
        cleaned.and(ended.map_err(|ended| {
            let failed = crate::Error::io("end the demo's processes");
            failed(ended.into()).into()
        }))
    }
}

fn socket(scratch: &Path) -> PathBuf {
    scratch.join("provider.sock")
}

fn endpoint(scratch: &Path) -> String {
    format!("unix://{}", socket(scratch).display())
}

fn controller_args(cluster: &Cluster, scratch: &Path) -> Vec<String> {
    let mut args = vec![
        format!("--kubeconfig={}", cluster.kubeconfig().display()),
        format!("--provider-endpoint={}", endpoint(scratch)),
        // No election, and no port that another process may have bound.
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    if cluster.own_dir().is_none() {
        // Services, routes and the end of nodes are another controller's business there.
        args.push("--controllers=cloud-node-controller".to_owned());
    } else {
        let more = [
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/16",
            // Soon enough to watch it repair the table.
            "--route-reconciliation-period=10s",
            // For volumes without a provisioner, so off by default.
            "--controllers=*,persistentvolume-labels",
        ];
        args.extend(more.map(str::to_owned));
    }
    args
}
