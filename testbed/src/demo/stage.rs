//! The processes of a demo: control plane, provider and controller, which end together.

use std::{path::PathBuf, time::Duration};

use kube::Client;
use tokio::time::interval;

use super::{
    Demo, Error,
    narrator::Narrator,
    programs::{self, Programs},
};
use crate::{ControlPlane, Options, pair::Pair};

/// The flags of the controller besides those that every pair needs.
const CONTROLLER_ARGS: [&str; 4] = [
    "--allocate-node-cidrs",
    "--cluster-cidr=10.244.0.0/16",
    // Soon enough to watch it repair the table.
    "--route-reconciliation-period=10s",
    // It runs only where it is named.
    "--controllers=*,node-ipam",
];

/// Time for the provider to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// Everything that runs. Dropping it ends everything, in the order of its fields.
pub(super) struct Stage {
    pub(super) pair: Pair,
    plane: ControlPlane,
    pub(super) client: Client,
    pub(super) kubeconfig: PathBuf,
    pub(super) programs: Programs,
}

impl Stage {
    /// Builds what is missing and starts everything.
    pub(super) async fn set_up(demo: &Demo, narrator: &Narrator) -> Result<Self, Error> {
        narrator.note(
            "etcd, kube-apiserver, a provider and cloud-controller-manager start on this\n\
             machine, in some seconds once they are built; Ctrl-C ends them all.",
        );
        let programs = programs::find(programs::MOCK).await?;
        let provider = demo.provider;
        provider.build(|action| narrator.begin(action)).await?;
        narrator.clear();
        narrator.begin("starting etcd and kube-apiserver");
        let plane = ControlPlane::start(Options::default()).await?;
        let kubeconfig = plane.admin_kubeconfig()?;

        let name = provider.name;
        narrator.begin(&format!(
            "starting the provider {name} and cloud-controller-manager"
        ));
        let machines = demo.machines();
        let machines: Vec<_> = machines
            .iter()
            .map(|machine| machine.name().to_owned())
            .collect();
        let launch = provider.launch(programs.folder(), &machines)?;
        let args = CONTROLLER_ARGS.map(str::to_owned);
        let controller = &programs.controller;
        let pair = Pair::start(&launch, controller, &kubeconfig, args, STARTS_WITHIN);
        let stage = Self {
            pair: pair.await?,
            client: plane.client()?,
            kubeconfig,
            plane,
            programs,
        };
        narrator.clear();
        for (name, place) in stage.places() {
            narrator.note(&format!("{name:<26}{}", place.display()));
        }
        Ok(stage)
    }

    /// Places to look into, while it runs.
    pub(super) fn places(&self) -> Vec<(&'static str, PathBuf)> {
        let dir = self.plane.dir();
        vec![
            ("kubeconfig", self.kubeconfig.clone()),
            ("controller's log", self.pair.controller.log().to_owned()),
            ("provider's log", self.pair.provider_log()),
            ("API server's log", dir.join("kube-apiserver.log")),
            ("etcd's log", dir.join("etcd.log")),
        ]
    }

    /// Returns when something has ended that should run.
    pub(super) async fn failure(&mut self) -> Error {
        const EVERY: Duration = Duration::from_millis(100);
        let mut tick = interval(EVERY);
        loop {
            tick.tick().await;
            if let Err(error) = self.pair.check() {
                return error.into();
            }
        }
    }

    /// Ends everything and removes what is left.
    pub(super) async fn strike(self, narrator: &Narrator) -> Result<(), Error> {
        narrator.begin("cleaning up");
        let ended = self.pair.end().await;
        let stopped = self.plane.stop().await;
        narrator.clear();
        Ok(stopped.and(ended)?)
    }
}
