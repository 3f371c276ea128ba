//! The commands of `outrigger-testbed`.
//!
//! Each command is a module with its flags and its `run`; the programs in `bin` parse and call them. Results go to standard
//! output, for scripts; progress and advice go to standard error.

mod conformance;
mod provider_check;
mod services;

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
use self::{conformance::Conformance, provider_check::CheckOwnProvider, services::Services};
use crate::{
    ControlPlane, Error, Options, Passed, Result,
    binaries::Binaries,
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
    /// Run a provider of this repository behind the controller, as `check-provider` runs any other.
    CheckProvider(CheckOwnProvider),
    /// Hold a provider of this repository against the contract.
    Conformance(Conformance),
}

#[derive(Debug, Args)]
struct Up {
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

/// Runs the command line.
pub async fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Build => build().await,
        Command::Up(up) => up.run().await,
        Command::Nodes(nodes) => nodes.run().await,
        Command::Services(services) => services.run().await,
        Command::CheckProvider(check) => check.run().await,
        Command::Conformance(conformance) => conformance.run().await,
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
        let mut signals = Signals::install()?;
        let options = Options {
            keep: self.keep,
            apiserver_args: self.apiserver_args,
            ..Options::default()
        };
        let plane = tokio::select! {
            started = ControlPlane::start(options) => started?,
            () = signals.next() => return Ok(()),
        };
        stay(&plane, &mut signals).await?;
        if self.keep {
            note(&format!("data and logs are in {}", plane.dir().display()));
        }
        plane.stop().await
    }
}

/// Says how to reach the control plane, and waits for the user to end it.
pub async fn stay(plane: &ControlPlane, signals: &mut Signals) -> Result<()> {
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

/// The steps of a check that have passed.
#[derive(Debug, Default)]
pub struct PassedSteps(Vec<Value>);

impl PassedSteps {
    /// Prints a step that has passed.
    pub fn note(&mut self, Passed { step, took, .. }: &Passed) {
        let seconds = took.as_secs_f64();
        note(&format!("passed in {seconds:.1} s: {step}"));
        self.0.push(json!({"step": step, "seconds": seconds}));
    }

    /// Prints them as JSON, or how many they are after `what` they show.
    pub fn print(&self, json: bool, what: &str) -> Result<()> {
        let Self(steps) = self;
        if json {
            return print(&format!("{}\n", json!({ "passed": steps })));
        }
        print(&format!("{what}: {} steps passed\n", steps.len()))
    }
}

/// A table of one row of numbers.
pub fn table(header: &[&str], row: impl IntoIterator<Item = String>) -> String {
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
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok();
    let positive = parsed.filter(SignedDuration::is_positive);
    positive
        .and_then(|duration| duration.try_into().ok())
        .ok_or_else(|| "write a time such as 90s or 2m".to_owned())
}

/// A client of the cluster of a kubeconfig.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
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
pub fn bar(what: &'static str, count: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} [{elapsed_precise}]");
    ProgressBar::new(count as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(what)
}

/// The result goes to standard output, so that a script can use it.
pub fn print(text: &str) -> Result<()> {
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(Error::io("write to standard output"))
}

/// Everything else goes to standard error.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
