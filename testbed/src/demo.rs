//! `cargo demo`: everything from nothing to nodes with routes and reachable Services, in one command.
//!
//! ```text
//!  programs ─► stage: control plane ─► provider ─► controller ─► live: nodes ─► services ─► report
//! ```
//!
//! - `programs` builds missing programs, `stage` runs the processes and ends them again,
//! - `live` registers nodes and watches them lose their taint and get their Pod CIDRs and routes,
//! - `services` makes Services and watches them get addresses,
//! - `report` prints the result, `narrator` the progress.
//!
//! The program parses [`Demo`] and calls [`run`]. It stays for the user to play, unless `--once` is given; at its end, also
//! after an error or a signal, nothing is left.

mod error;
mod live;
mod narrator;
mod programs;
mod report;
mod services;
mod stage;

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    process::ExitCode,
    time::Duration,
};

use clap::Parser;

pub use self::error::Error;
use self::{live::Live, narrator::Narrator, report::Report, services::Exposing, stage::Stage};
use crate::{
    cli::duration,
    nodes::Machine,
    providers::{self, Provider},
    signals::Signals,
};

/// The label on the demo's objects.
const LABEL: &str = "outrigger.dev/demo";

/// The beginning of their names.
const PREFIX: &str = "demo-";

/// Watch a cloud-controller-manager at work on a real API server, with a fake cloud.
///
/// Builds what is missing, starts etcd, kube-apiserver, a provider and
/// cloud-controller-manager, registers nodes as kubelets do, makes Services that want a load
/// balancer, and shows how nodes become usable, with Pod CIDRs and routes, and Services reachable, as far as the
/// provider serves these. Ctrl-C ends everything and leaves nothing behind.
#[derive(Debug, Parser)]
#[command(name = "cargo demo", version, max_term_width = 100)]
pub struct Demo {
    /// The provider, of this repository. It is built first; its cloud is in memory.
    #[arg(long, value_name = "NAME", default_value = "mock", value_parser = providers::by_name)]
    provider: &'static Provider,
    /// How many nodes to register.
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_least_one)]
    nodes: usize,
    /// How many Services to make.
    #[arg(long, value_name = "N", default_value = "3")]
    services: usize,
    /// End when nodes are initialised and Services reachable, instead of staying for you to play.
    #[arg(long)]
    once: bool,
    /// Time limit for the initialisation of all nodes, and again for the Services.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    timeout: Duration,
    /// Print a JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("the demo needs at least one node".to_owned()),
        Ok(nodes) => Ok(nodes),
        Err(_) => Err("write a number of 1 or more".to_owned()),
    }
}

/// Runs the demo. Returns the exit code of the process.
pub async fn run(demo: Demo) -> Result<ExitCode, Error> {
    let mut signals = Signals::install()?;
    let narrator = Narrator::new(demo.json);
    let mut stage = tokio::select! {
        stage = Stage::set_up(&demo, &narrator) => stage?,
        () = signals.next() => return Ok(interrupted()),
    };
    let played = Box::pin(demo.play(&mut stage, &narrator, &mut signals)).await;
    // Also after an error.
    let struck = stage.strike(&narrator).await;
    let code = played?;
    struck?;
    Ok(code)
}

impl Demo {
    /// In each three nodes, one kubelet has no address set, one an IPv4 address, and one
    /// an address of each family: the controller treats them differently. A cloud that does not
    /// know such addresses gets none.
    fn machines(&self) -> Vec<Machine> {
        let names = self.provider.machines(PREFIX, self.nodes).into_iter();
        names
            .zip(1_u32..)
            .map(|(name, number)| {
                let machine = Machine::new(name).label(LABEL, "");
                if !self.provider.provided_ips {
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

    async fn play(
        &self,
        stage: &mut Stage,
        narrator: &Narrator,
        signals: &mut Signals,
    ) -> Result<ExitCode, Error> {
        let live = Live {
            client: stage.client.clone(),
            machines: self.machines(),
            is_routed: self.provider.routes,
            timeout: self.timeout,
        };
        let exposing = Exposing {
            client: live.client.clone(),
            count: if self.provider.without_services {
                0
            } else {
                self.services
            },
            timeout: self.timeout,
        };
        let all = async {
            let failed = |state| move |error| (state, error);
            let nodes = live.watch(narrator).await.map_err(failed("initialised"))?;
            let services = exposing.watch(narrator).await.map_err(failed("ready"))?;
            Ok((nodes, services))
        };
        let outcome = tokio::select! {
            outcome = all => outcome,
            error = stage.failure() => return Err(error),
            () = signals.next() => return Ok(interrupted()),
        };
        let (nodes, services) = match outcome {
            Ok(outcome) => outcome,
            Err((state, crate::Error::Unready { late, timeout })) => {
                return Err(Error::Late {
                    late,
                    state,
                    timeout,
                    log_end: stage.pair.controller.log_end(),
                });
            }
            Err((_, error)) => return Err(Error::Testbed(error)),
        };
        narrator.clear();
        Report::new(&nodes, &services, stage, self.provider).print(self.json, !self.once)?;
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
}
