//! The commands of `outrigger-lab`.

mod incident;
mod pod_check;

use std::{path::PathBuf, slice, time::Duration};

use clap::{Args, Parser, Subcommand};
use kube::Client;
use outrigger_testbed::{
    ControlPlane, Error, Options, Result,
    cli::{bar, client, duration, note, print, stay, table},
    nodes::{self, Load, Machine},
    signals::Signals,
};
use serde_json::json;

use self::{incident::PlayIncidents, pod_check::CheckPod};
use crate::{
    floor::{self, Measured},
    managers::Managers,
    pod,
    real_cluster::RealCluster,
    real_node::{Network, RealNode},
    traffic,
};

/// Clusters with real kubelets, and what they show of the controller.
#[derive(Debug, Parser)]
#[command(name = "outrigger-lab", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run controller and mock as a Pod on a real kubelet. Needs root, buildah, containerd and runc.
    Pod(Show),
    /// Run a cluster of three machines in a cloud made of network namespaces: connect to a Service of three Pods, turn a
    /// machine off, and delete it. Needs root, buildah, containerd, runc and nftables.
    Traffic(Show),
    /// Run a control plane with a kubelet until Ctrl-C; prints the path of an administrator's kubeconfig. Needs root.
    Up(Up),
    /// Run controller and provider as a Pod on a real kubelet: kill, upgrade, roll back. Needs root.
    CheckPod(CheckPod),
    /// Measure how fast nodes can be initialised, or get Pod CIDRs, at best: the writes alone, no logic.
    Floor(Floor),
    /// Play published incidents against upstream's controller and Outrigger's.
    Incident(PlayIncidents),
}

/// A demo of a cluster with Pods.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// End when all has been shown, instead of staying for you to play.
    #[arg(long)]
    pub(crate) once: bool,
    /// Time limit of each step.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
struct Up {
    /// So many machines, each a network namespace with a kubelet and kube-proxy of its own, with the controller and
    /// provider-linux: Pods have addresses, and load balancers serve connections. Without it one kubelet, on the network of
    /// this machine and without a controller.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=20))]
    nodes: Option<u8>,
    /// Load the images of an archive on each node; can be repeated.
    #[arg(long = "image", value_name = "ARCHIVE")]
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
    /// The names are this and a number of five digits. There must be no such nodes yet.
    #[arg(long, default_value = "floor-")]
    prefix: String,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs the command line.
pub async fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Pod(show) => pod::run(show).await,
        Command::Traffic(show) => traffic::run(show).await,
        Command::Up(up) => up.run().await,
        Command::CheckPod(check) => check.run().await,
        Command::Floor(floor) => floor.run().await,
        Command::Incident(incidents) => incidents.run().await,
    }
}

impl Up {
    async fn run(self) -> Result<()> {
        let mut signals = Signals::install()?;
        let options = Options {
            keep: self.keep,
            workloads: true,
            apiserver_args: self.apiserver_args.clone(),
            ..Options::default()
        };
        if let Some(machines) = self.nodes {
            return self.cluster(machines, options, &mut signals).await;
        }
        RealNode::possible()?;
        let start = async {
            let plane = ControlPlane::start(options).await?;
            let managers = Managers::start(&plane).await?;
            let node = RealNode::start(&plane, "machine-1", &Network::Host, "").await?;
            self.furnish(slice::from_ref(&node)).await?;
            Ok::<_, Error>((node, managers, plane))
        };
        let (node, managers, plane) = tokio::select! {
            started = start => started?,
            () = signals.next() => return Ok(()),
        };
        stay(&plane, &mut signals).await?;
        drop((node, managers));
        if self.keep {
            note(&format!("data and logs are in {}", plane.dir().display()));
        }
        plane.stop().await
    }

    async fn cluster(&self, machines: u8, options: Options, signals: &mut Signals) -> Result<()> {
        let start = async {
            let cluster =
                RealCluster::start(machines.into(), options, &self.controller_args).await?;
            self.furnish(cluster.nodes()).await?;
            Ok::<_, Error>(cluster)
        };
        let cluster = tokio::select! {
            started = start => started?,
            () = signals.next() => return Ok(()),
        };
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

    /// Loads the images, and says where logs are.
    async fn furnish(&self, nodes: &[RealNode]) -> Result<()> {
        for archive in &self.images {
            let image = RealNode::import_on(nodes, archive).await?;
            note(&format!("each node has the image {image}"));
        }
        for node in nodes {
            let (name, logs) = (node.name(), node.dir().display());
            note(&format!(
                "Node {name}: its logs and those of Pods are in {logs}"
            ));
        }
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
        let with_events = !self.without_events;
        floor::measure(client, &self.prefix, self.parallel, with_events, done).await
    }

    fn report(&self, measured: &Measured) -> String {
        let seconds = measured.duration.as_secs_f64();
        let per_second = measured.writes_per_second();
        if self.json {
            let report = json!({
                "nodes": measured.nodes,
                "parallel": self.parallel,
                "writesPerNode": measured.per_node,
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
