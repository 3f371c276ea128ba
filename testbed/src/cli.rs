//! The commands of `outrigger-testbed`.

mod conformance;
mod incident;
mod pod_check;
mod provider_check;
mod services;
mod sweep;

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::SignedDuration;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use serde_json::{Value, json};

pub use self::provider_check::CheckProvider;
use self::{
    conformance::Conformance, incident::PlayIncidents, pod_check::CheckPod,
    provider_check::CheckOwnProvider, services::Services, sweep::Sweep,
};
use crate::{
    ControlPlane, Error, Network, Options, Passed, RealCluster, RealNode, Result,
    binaries::Binaries,
    floor::{self, Form, Measured, Writes},
    nodes::{self, Load, Machine, Readiness},
    signals::Signals,
};

/// Runs a real kube-apiserver and etcd, and puts load on them.
#[derive(Debug, Parser)]
#[command(name = "outrigger-testbed", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build kube-apiserver and etcd, and print where they are.
    Build,
    /// Run a control plane until Ctrl-C; prints the path of an administrator's kubeconfig.
    Up(Up),
    /// Register nodes as kubelets do.
    Nodes(Nodes),
    /// Create Services that want a load balancer and measure how long they wait for it.
    Services(Services),
    /// Measure how fast nodes can be initialised, or get Pod CIDRs, at best: the writes alone, no logic.
    Floor(Floor),
    /// Run a provider of this repository behind the controller, as `check-provider` runs any other.
    CheckProvider(CheckOwnProvider),
    /// Run controller and provider as a Pod on a real kubelet: kill, upgrade, roll back. Needs root.
    CheckPod(CheckPod),
    /// Hold a provider of this repository against the contract.
    Conformance(Conformance),
    /// Play published incidents against upstream's controller and Outrigger's.
    Incident(PlayIncidents),
    /// Play scenarios with one fault at each place where it can happen: each has to end as without it.
    Sweep(Sweep),
}

#[derive(Debug, Args)]
struct Up {
    /// Run a kubelet too, with containerd, kube-scheduler and kube-controller-manager. Needs root.
    #[arg(long)]
    kubelet: bool,
    /// So many machines, each a network namespace with a kubelet and kube-proxy of its own, with the controller and
    /// provider-linux: Pods have addresses, and load balancers serve connections.
    #[arg(long, value_name = "N", requires = "kubelet", value_parser = clap::value_parser!(u8).range(1..=20))]
    nodes: Option<u8>,
    /// Load the images of an archive on each node; can be repeated.
    #[arg(long = "image", value_name = "ARCHIVE", requires = "kubelet")]
    images: Vec<PathBuf>,
    /// Leave data and logs behind.
    #[arg(long)]
    keep: bool,
    /// A further flag of kube-apiserver; can be repeated.
    #[arg(
        long = "apiserver-arg",
        value_name = "FLAG",
        allow_hyphen_values = true
    )]
    apiserver_args: Vec<String>,
    /// A further flag of the controller in front of the machines of --nodes; can be repeated.
    #[arg(
        long = "controller-arg",
        value_name = "FLAG",
        allow_hyphen_values = true,
        requires = "nodes"
    )]
    controller_args: Vec<String>,
}

#[derive(Debug, Args)]
struct Nodes {
    /// The cluster's kubeconfig.
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: PathBuf,
    /// How many nodes.
    #[arg(long, default_value_t = 100)]
    count: usize,
    #[command(flatten)]
    load: Load,
    /// The names are this and a number of five digits.
    #[arg(long, default_value = "node-")]
    prefix: String,
    /// The report of their kubelets; `unknown` as if these had fallen silent.
    #[arg(long, value_enum, default_value = "ready")]
    readiness: Readiness,
    /// Delete these nodes instead.
    #[arg(long)]
    delete: bool,
}

#[derive(Debug, Args)]
struct Floor {
    /// The cluster's kubeconfig. Without it, a control plane is started for the run.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How many nodes to register, write and delete.
    #[arg(long, default_value_t = 2000)]
    count: usize,
    /// Nodes worked on at the same time.
    #[arg(long, default_value_t = 16)]
    parallel: usize,
    /// Leave the events out: only the two writes that make a node ready.
    #[arg(long)]
    without_events: bool,
    /// How the two writes that make a node ready are made; an event comes after them in any case.
    #[arg(long, value_enum, default_value_t)]
    form: Form,
    #[command(flatten)]
    only: OneWrite,
    /// The names are this and a number of five digits. There must be no such nodes yet.
    #[arg(long, default_value = "floor-")]
    prefix: String,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// A write that is measured alone.
#[derive(Debug, Args)]
#[group(multiple = false, conflicts_with = "without_events")]
struct OneWrite {
    /// Only the write that gives a node its Pod CIDR.
    #[arg(long)]
    pod_cidrs: bool,
    /// Only the write that reports the routes of a node, as its condition `NetworkUnavailable`.
    #[arg(long)]
    network_condition: bool,
}

/// Runs the command line.
pub async fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Build => build().await,
        Command::Up(up) => up.run().await,
        Command::Nodes(nodes) => nodes.run().await,
        Command::Services(services) => services.run().await,
        Command::Floor(floor) => floor.run().await,
        Command::CheckProvider(check) => check.run().await,
        Command::CheckPod(check) => check.run().await,
        Command::Conformance(conformance) => conformance.run().await,
        Command::Incident(incidents) => incidents.run().await,
        Command::Sweep(sweep) => sweep.run().await,
    }
}

async fn build() -> Result<()> {
    let binaries = Binaries::find().await?;
    for path in [binaries.kube_apiserver, binaries.etcd] {
        print(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

impl Up {
    async fn run(self) -> Result<()> {
        let mut signals = Signals::install_with_hangup()?;
        let options = Options {
            keep: self.keep,
            workloads: self.kubelet,
            apiserver_args: self.apiserver_args.clone(),
            ..Options::default()
        };
        if let Some(machines) = self.nodes {
            return self.cluster(machines, options, &mut signals).await;
        }
        if self.kubelet {
            RealNode::possible()?;
        }
        let start = async {
            let plane = ControlPlane::start(options).await?;
            let node = if self.kubelet {
                Some(self.node(&plane).await?)
            } else {
                None
            };
            Ok::<_, Error>((node, plane))
        };
        let (node, plane) = tokio::select! {
            started = start => started?,
            () = signals.next() => return Ok(()),
        };
        stay(&plane, &mut signals).await?;
        drop(node);
        if self.keep {
            note(&format!("data and logs are in {}", plane.dir().display()));
        }
        plane.stop().await
    }

    async fn cluster(&self, machines: u8, options: Options, signals: &mut Signals) -> Result<()> {
        let start = async {
            let cluster =
                RealCluster::start(machines.into(), options, &self.controller_args).await?;
            for archive in &self.images {
                let image = cluster.import(archive).await?;
                note(&format!("each node has the image {image}"));
            }
            Ok::<_, Error>(cluster)
        };
        let cluster = tokio::select! {
            started = start => started?,
            () = signals.next() => return Ok(()),
        };
        for node in cluster.nodes() {
            let (name, logs) = (node.name(), node.dir().display());
            note(&format!(
                "Node {name}: its logs and those of Pods are in {logs}"
            ));
        }
        for log in cluster.logs() {
            note(&format!("a log is {}", log.display()));
        }
        let (cloud, endpoint) = (cluster.cloud(), cluster.endpoint());
        note(&format!(
            "the machines are those of `provider-linux cloud machine list --cloud={cloud}`"
        ));
        note(&format!("the provider listens at {endpoint}"));
        stay(cluster.plane(), signals).await
    }

    async fn node(&self, plane: &ControlPlane) -> Result<RealNode> {
        let node = RealNode::start(plane, "machine-1", &Network::Host).await?;
        for archive in &self.images {
            let image = node.import(archive).await?;
            note(&format!("the node has the image {image}"));
        }
        let (name, logs) = (node.name(), node.dir().display());
        note(&format!(
            "a kubelet registers Node {name}; its logs and those of Pods are in {logs}"
        ));
        Ok(node)
    }
}

/// Says how to reach the control plane, and waits for the user to end it.
async fn stay(plane: &ControlPlane, signals: &mut Signals) -> Result<()> {
    print(&format!("{}\n", plane.admin_kubeconfig()?.display()))?;
    let url = plane.url();
    note(&format!("the API server is {url}; Ctrl-C ends it"));
    signals.next().await;
    Ok(())
}

impl Nodes {
    async fn run(self) -> Result<()> {
        let client = client(&self.kubeconfig).await?;
        let machines = Machine::numbered(&self.prefix, self.count);
        let machines = machines.map(|machine| machine.readiness(self.readiness));
        let (work, verb) = if self.delete {
            ("deleting", "deleted")
        } else {
            ("registering", "registered")
        };
        let bar = bar(work, self.count);
        let done = |done| bar.set_position(done as u64);
        let took = if self.delete {
            let names = machines.map(|machine| machine.name().to_owned());
            nodes::delete_all(&client, names, self.load, done).await?
        } else {
            nodes::register_all(&client, machines, self.load, done).await?
        };
        note(&format!(
            "{verb} {} nodes in {:.2} s",
            self.count,
            took.as_secs_f64()
        ));
        Ok(())
    }
}

impl Floor {
    async fn run(self) -> Result<()> {
        let (plane, client) = if let Some(path) = &self.kubeconfig {
            (None, client(path).await?)
        } else {
            let plane = ControlPlane::start(Options::default()).await?;
            let client = plane.client()?;
            (Some(plane), client)
        };
        // All nodes with the prefix are measured and then deleted, so they must be ours.
        let existing = nodes::names(&client, &self.prefix).await?.len();
        if existing > 0 {
            return Err(Error::NamesTaken {
                existing,
                prefix: self.prefix,
            });
        }
        let measured = self.measure(&client).await;
        // Also after an error; the command's control plane ends as a whole.
        if let Some(plane) = plane {
            plane.stop().await?;
        } else {
            let names = nodes::names(&client, &self.prefix).await?;
            nodes::delete_all(&client, names, Load::default(), |_| {}).await?;
        }
        print(&self.report(&measured?))
    }

    async fn measure(&self, client: &Client) -> Result<Measured> {
        let machines = Machine::numbered(&self.prefix, self.count);
        let progress = bar("registering", self.count);
        let done = |done| progress.set_position(done as u64);
        nodes::register_all(client, machines, Load::default(), done).await?;
        progress.finish_and_clear();
        let progress = bar("writing", self.count);
        let done = |done| progress.set_position(done as u64);
        let writes = if self.only.pod_cidrs {
            Writes::PodCidrs
        } else if self.only.network_condition {
            Writes::NetworkCondition
        } else if self.without_events {
            Writes::Ready
        } else {
            Writes::ReadyAndEvent
        };
        let writes = (writes, self.form);
        floor::measure(client, &self.prefix, self.parallel, writes, done).await
    }

    fn report(&self, measured: &Measured) -> String {
        let seconds = measured.duration.as_secs_f64();
        let per_second = measured.writes_per_second();
        if self.json {
            let report = json!({
                "nodes": measured.nodes,
                "parallel": self.parallel,
                "writesPerNode": measured.writes.per_node(),
                "seconds": seconds,
                "writesPerSecond": per_second,
                "apiServerMillisecondsPerWrite": measured.milliseconds_per_write(),
            });
            return format!("{report}\n");
        }
        table(
            &[
                "NODES",
                "PARALLEL",
                "SECONDS",
                "WRITES/S",
                "API SERVER MS/WRITE",
            ],
            [
                measured.nodes.to_string(),
                self.parallel.to_string(),
                format!("{seconds:.2}"),
                format!("{per_second:.0}"),
                format!("{:.2}", measured.milliseconds_per_write()),
            ],
        )
    }
}

/// The steps of a check that have passed.
#[derive(Default)]
struct PassedSteps(Vec<Value>);

impl PassedSteps {
    fn note(&mut self, Passed { step, took, .. }: &Passed) {
        let seconds = took.as_secs_f64();
        note(&format!("passed in {seconds:.1} s: {step}"));
        self.0.push(json!({"step": step, "seconds": seconds}));
    }

    /// Prints them as JSON, or how many they are after `what` they show.
    fn print(&self, json: bool, what: &str) -> Result<()> {
        let Self(steps) = self;
        if json {
            return print(&format!("{}\n", json!({ "passed": steps })));
        }
        print(&format!("{what}: {} steps passed\n", steps.len()))
    }
}

/// A table of one row of numbers.
fn table(header: &[&str], row: impl IntoIterator<Item = String>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(header)
        .add_row(row);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n")
}

/// A positive time on a command line.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok();
    let positive = parsed.filter(SignedDuration::is_positive);
    positive
        .and_then(|duration| duration.try_into().ok())
        .ok_or_else(|| "write a time such as 90s or 2m".to_owned())
}

async fn client(kubeconfig: &Path) -> Result<Client> {
    let failed = Error::io(format!("read the kubeconfig {}", kubeconfig.display()));
    let config = client_config(kubeconfig).await;
    let config = config.map_err(|error| failed(io::Error::other(error)))?;
    Client::try_from(config).map_err(Error::kube("make a client"))
}

/// The cluster of a kubeconfig's current context. Its client does not repeat a request that failed.
pub(crate) async fn client_config(kubeconfig: &Path) -> Result<Config, KubeconfigError> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(file, &options).await?;
    config.default_retry = false;
    Ok(config)
}

/// A progress bar, on a terminal.
fn bar(what: &'static str, count: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} [{elapsed_precise}]");
    ProgressBar::new(count as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(what)
}

/// The result goes to standard output, so that a script can use it.
fn print(text: &str) -> Result<()> {
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(Error::io("write to standard output"))
}

/// Everything else goes to standard error.
fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
