//! `cargo demo`: everything from nothing to nodes with routes, reachable Services and a volume in its zone, in one command.
//!
//! ```text
//!  programs ─► stage: control plane ─► mock ─► controller ─► live: nodes ─► services ─► volumes ─► report
//! ```
//!
//! - `programs` builds missing programs, `stage` runs the processes and ends them again,
//! - `cluster` is the API server: the demo's, or an existing one,
//! - `live` registers nodes and watches them lose their taint and get their Pod CIDRs and routes,
//! - `services` makes Services and watches them get addresses,
//! - `volumes` makes a volume by hand and watches it get its labels,
//! - `report` prints the result, `narrator` the progress.

mod cluster;
mod error;
mod live;
mod narrator;
mod programs;
mod report;
mod services;
mod stage;
mod volumes;

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Parser;
use tokio::time::timeout;

pub use self::error::Error;
use self::{
    live::Live, narrator::Narrator, report::Report, services::Exposing, stage::Stage,
    volumes::Labelling,
};
use crate::{
    cli::duration,
    nodes::Machine,
    providers::{self, Provider},
    signals::Signals,
};

/// The label on the demo's nodes; its value differs from run to run.
const LABEL: &str = "outrigger.dev/demo";

/// Watch a cloud-controller-manager at work on a real API server, with a fake cloud.
///
/// Builds what is missing, starts etcd, kube-apiserver, a provider and
/// cloud-controller-manager, registers nodes as kubelets do, makes Services that want a load
/// balancer and a volume without a provisioner, and shows how nodes become usable, with Pod CIDRs and routes, Services
/// reachable, and the volume known to be in its zone, as far as the provider serves these. Ctrl-C ends everything
/// and leaves nothing behind.
#[derive(Debug, Parser)]
#[command(name = "cargo demo", version, max_term_width = 100)]
pub struct Demo {
    /// The provider, of this repository. It is built first; its cloud is in memory.
    #[arg(long, value_name = "NAME", default_value = "mock", value_parser = providers::by_name)]
    provider: &'static Provider,
    /// How many nodes to register.
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_least_one)]
    nodes: usize,
    /// How many Services to make; none with --kubeconfig, where another controller may serve them.
    #[arg(long, value_name = "N", default_value = "3")]
    services: usize,
    /// End when nodes are initialised and Services reachable, instead of staying for you to play.
    #[arg(long)]
    once: bool,
    /// Time limit for the initialisation of all nodes, again for the Services, and for the volume.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    timeout: Duration,
    /// Print a JSON document instead of a table.
    #[arg(long)]
    json: bool,
    /// Use this cluster instead of the demo's own control plane. Its nodes are deleted at
    /// the end, and no others are touched.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("the demo needs at least one node".to_owned()),
        Ok(nodes) => Ok(nodes),
        Err(_) => Err("write a number of 1 or more".to_owned()),
    }
}

/// Owners of the nodes.
#[derive(Debug)]
struct Run {
    id: String,
    prefix: String,
}

impl Run {
    /// In another cluster the names must not exist yet.
    fn new(own_cluster: bool) -> Self {
        let id = format!("{:08x}", fastrand::u32(..));
        let prefix = if own_cluster {
            "demo-".to_owned()
        } else {
            format!("demo-{id}-")
        };
        Self { id, prefix }
    }

    fn selector(&self) -> String {
        format!("{LABEL}={}", self.id)
    }

    /// In each three nodes, one kubelet has no address set, one an IPv4 address, and one
    /// an address of each family: the controller treats them differently. A cloud that does not
    /// know such addresses gets none.
    fn machines(&self, count: usize, provider: &Provider) -> Vec<Machine> {
        let names = provider.machines(&self.prefix, count).into_iter();
        names
            .zip(1_u32..)
            .map(|(name, number)| {
                let machine = Machine::new(name).label(LABEL, &self.id);
                if !provider.provided_ips {
                    return machine;
                }
                let v4 = Ipv4Addr::from(0x0a4d_0000 | (number & 0xffff));
                let v6 = Ipv6Addr::from((0xfd4d << 112) | u128::from(number));
                match number % 3 {
                    2 => machine.provided_ip(v4.into()),
                    0 => machine.provided_ip(v4.into()).provided_ip(v6.into()),
                    _ => machine,
                }
            })
            .collect()
    }
}

/// Runs the demo. Returns the exit code of the process.
pub async fn run(demo: Demo) -> Result<ExitCode, Error> {
    let mut signals = Signals::install_with_hangup()?;
    let narrator = Narrator::new(demo.json);
    let mut stage = tokio::select! {
        stage = Stage::set_up(&demo, &narrator) => stage?,
        () = signals.next() => return Ok(interrupted()),
    };
    let played = Box::pin(demo.play(&mut stage, &narrator, &mut signals)).await;
    // Also after an error.
    let struck = stage.strike(&narrator, &mut signals).await;
    let code = played?;
    struck?;
    Ok(code)
}

impl Demo {
    fn machines(&self, run: &Run) -> Vec<Machine> {
        run.machines(self.nodes, self.provider)
    }

    /// How many Services it makes: none in another cluster, where another controller may serve them, or of a provider that serves none.
    const fn services_in(&self, is_own: bool) -> usize {
        if is_own && !self.provider.without_services {
            self.services
        } else {
            0
        }
    }

    async fn play(
        &self,
        stage: &mut Stage,
        narrator: &Narrator,
        signals: &mut Signals,
    ) -> Result<ExitCode, Error> {
        let is_own = stage.cluster.own_dir().is_some();
        let live = Live {
            client: stage.cluster.client().clone(),
            selector: stage.run.selector(),
            machines: self.machines(&stage.run),
            is_routed: is_own && self.provider.routes,
            timeout: self.timeout,
        };
        let exposing = Exposing {
            client: live.client.clone(),
            services: stage.run.services(self.services_in(is_own)),
            selector: live.selector.clone(),
            timeout: self.timeout,
        };
        let labelling = Labelling {
            client: live.client.clone(),
            volume: (is_own && self.provider.is_mock).then(|| stage.run.volume()),
            selector: live.selector.clone(),
            mock: &stage.programs.provider.clone(),
            endpoint: stage.pair.endpoint(),
            timeout: self.timeout,
        };
        let all = async {
            let failed = |state| move |error| (state, error);
            let nodes = live.watch(narrator).await.map_err(failed("initialised"))?;
            let services = exposing.watch(narrator).await.map_err(failed("ready"))?;
            let volumes = labelling.watch(narrator).await.map_err(failed("ready"))?;
            Ok((nodes, services, volumes))
        };
        let outcome = tokio::select! {
            outcome = all => outcome,
            error = stage.failure() => return Err(error),
            () = signals.next() => return Ok(interrupted()),
        };
        let (nodes, services, volumes) = match outcome {
            Ok(outcome) => outcome,
            Err((state, crate::Error::Unready { late, timeout })) => {
                return Err(Error::Late {
                    late,
                    state,
                    timeout,
                    log_end: stage.pair.controller.log_end(),
                });
            }
            // A request fails immediately when a component dies, which explains more.
            Err((_, error)) => {
                let cause = timeout(cluster::SILENCE * 2, stage.failure()).await;
                return Err(cause.unwrap_or(Error::Testbed(error)));
            }
        };
        narrator.clear();
        Report::new(&nodes, &services, &volumes, stage, self.provider)
            .print(self.json, !self.once)?;
        if self.once {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            error = stage.failure() => Err(error),
            () = signals.next() => Ok(ExitCode::SUCCESS),
        }
    }
}

/// The shell's code for a process that Ctrl-C ended: the nodes are not initialised.
fn interrupted() -> ExitCode {
    ExitCode::from(130)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Demo, String> {
        let args = ["demo"].iter().chain(args);
        Demo::try_parse_from(args).map_err(|error| error.to_string())
    }

    #[test]
    fn bad_values_are_reported_in_one_sentence() {
        let error = parse(&["--nodes", "0"]).unwrap_err();
        assert!(
            error.contains("the demo needs at least one node"),
            "{error}"
        );
        let error = parse(&["--nodes", "many"]).unwrap_err();
        assert!(error.contains("write a number of 1 or more"), "{error}");
        for bad in ["soon", "0s", "-3s"] {
            let error = parse(&[&format!("--timeout={bad}")]).unwrap_err();
            assert!(error.contains("write a time such as 90s or 2m"), "{error}");
        }
        let demo = parse(&["--timeout=1m30s"]).unwrap();
        assert_eq!(demo.timeout, Duration::from_secs(90));
    }

    #[test]
    fn a_provider_that_is_not_known_is_answered_with_those_that_are() {
        let error = parse(&["--provider", "ruby"]).unwrap_err();
        assert!(error.contains("the providers are mock, go"), "{error}");
        assert_eq!(parse(&[]).unwrap().provider.name, "mock");
    }

    #[test]
    fn nodes_in_a_cluster_of_others_have_unique_names() {
        let mock = providers::by_name("mock").unwrap();
        let name = |run: Run| run.machines(1, mock)[0].name().to_owned();
        assert_ne!(name(Run::new(false)), name(Run::new(false)));
        assert_eq!(name(Run::new(true)), "demo-00001");
    }
}
