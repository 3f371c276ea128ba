//! The processes of a demo.

use std::{path::PathBuf, time::Duration};

use tokio::time::interval;

use super::{
    Demo, Error, Run,
    cluster::Cluster,
    narrator::Narrator,
    programs::{self, Programs},
};
use crate::{ControlPlane, Options, pair::Pair, signals::Signals};

/// Time for the provider to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// Everything that runs. Dropping it ends everything, in the order of its fields.
pub(super) struct Stage {
    pub(super) pair: Pair,
    pub(super) cluster: Cluster,
    pub(super) programs: Programs,
    pub(super) run: Run,
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
        let programs = programs::find(programs::MOCK, existing.is_none(), narrator).await?;
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
        let args = controller_args(cluster.own_dir().is_some());
        let kubeconfig = cluster.kubeconfig();
        let controller = &programs.controller;
        let pair = Pair::start(&launch, controller, kubeconfig, args, STARTS_WITHIN);
        let stage = Self {
            pair: pair.await?,
            cluster,
            programs,
            run,
        };
        narrator.clear();
        for (name, place) in stage.places() {
            narrator.note(&format!("{name:<26}{}", place.display()));
        }
        Ok(stage)
    }

    /// Places to look into, while it runs.
    pub(super) fn places(&self) -> Vec<(&'static str, PathBuf)> {
        let mut places = vec![
            ("kubeconfig", self.cluster.kubeconfig().to_owned()),
            ("controller's log", self.pair.controller.log().to_owned()),
            ("provider's log", self.pair.provider_log()),
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
        let pair = &mut self.pair;
        let process = async {
            let mut tick = interval(EVERY);
            loop {
                tick.tick().await;
                if let Err(error) = pair.check() {
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
        narrator.begin("cleaning up");
        // The controller must not touch the nodes while they are deleted.
        let ended = self.pair.end().await;
        let cleaned = self.cluster.clean_up(&self.run, signals).await;
        narrator.clear();
        cleaned.and(ended.map_err(Error::from))
    }
}

/// The flags of the controller besides those that every pair needs.
fn controller_args(is_own_cluster: bool) -> Vec<String> {
    let args: &[&str] = if is_own_cluster {
        &[
            "--allocate-node-cidrs",
            "--cluster-cidr=10.244.0.0/16",
            // Soon enough to watch it repair the table.
            "--route-reconciliation-period=10s",
            // The two run only where they are named.
            "--controllers=*,node-ipam,persistentvolume-labels",
        ]
    } else {
        // Services, routes and the end of nodes are another controller's business there.
        &["--controllers=cloud-node-controller"]
    };
    args.iter().map(ToString::to_string).collect()
}
