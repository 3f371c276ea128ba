//! A provider that can be started, with the fake of its cloud.
//!
//! A [`Launch`] is any command (`check-provider`) or a provider of this repository. It gets its socket by the environment,
//! as the kubelet would start it, and its prefixes of effects are granted to the controller.

use std::{
    env, io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::net::TcpStream;

use super::{Provider, source_tree};
use crate::{Error, Result, process::Process};

const PROVIDER: &str = "the provider";
const CLOUD: &str = "the fake cloud";

/// Commands that start a provider and its cloud.
#[derive(Debug)]
pub struct Launch {
    /// Arguments of env(1) before the command: the folder and variables.
    environment: Vec<String>,
    command: Vec<String>,
    cloud: Option<(Vec<String>, u16)>,
    effect_prefixes: Vec<&'static str>,
}

/// A run of the conformance suite.
#[derive(Debug)]
pub(crate) struct Run {
    /// Arguments of env(1).
    pub(crate) command: Vec<String>,
    /// Its cloud is started before the run.
    pub(crate) launch: Launch,
}

impl Launch {
    /// A provider of any origin: a program and its arguments, with the environment of this process. `{kubeconfig}` in
    /// them is replaced by an administrator's kubeconfig.
    pub const fn of_command(command: Vec<String>) -> Self {
        Self {
            environment: Vec::new(),
            command,
            cloud: None,
            effect_prefixes: Vec::new(),
        }
    }

    /// The controller's flag by which the operator grants the provider's effects, if it has some.
    pub(crate) fn grant(&self) -> Option<String> {
        let prefixes = &self.effect_prefixes;
        (!prefixes.is_empty()).then(|| format!("--provider-effect-prefixes={}", prefixes.join(",")))
    }

    /// The prefixes of annotations that it writes to each Service.
    pub(crate) fn effect_prefixes(&self) -> &[&'static str] {
        &self.effect_prefixes
    }

    /// Starts the provider beside the cluster of `kubeconfig` and waits until it listens at this socket; its output is
    /// appended to `log`.
    pub(crate) async fn start(
        &self,
        socket: &Path,
        log: PathBuf,
        kubeconfig: &Path,
        deadline: Duration,
    ) -> Result<Process> {
        let kubeconfig = kubeconfig.display().to_string();
        let mut args = self.environment.clone();
        args.push(format!(
            "CLOUDPROVIDER_ENDPOINT=unix://{}",
            socket.display()
        ));
        let command = self.command.iter();
        args.extend(command.map(|word| word.replace("{kubeconfig}", &kubeconfig)));
        let mut provider = Process::start(PROVIDER, Path::new("/usr/bin/env"), &args, log)?;
        provider.listens(socket, deadline).await?;
        Ok(provider)
    }

    /// Starts the fake of the provider's cloud, if it is a process of its own, and waits until it listens.
    pub(crate) async fn start_cloud(&self, log: PathBuf) -> Result<Option<Process>> {
        const DEADLINE: Duration = Duration::from_mins(1);
        let Some((command, port)) = &self.cloud else {
            return Ok(None);
        };
        let connect = async || TcpStream::connect(("127.0.0.1", *port)).await.map(drop);
        if connect().await.is_ok() {
            let taken = format!(
                "port {port} of this machine is taken, by another run with this cloud perhaps: wait for its end"
            );
            return Err(Error::io("start the fake cloud")(io::Error::other(taken)));
        }
        let args = [self.environment.as_slice(), command].concat();
        let mut cloud = Process::start(CLOUD, Path::new("/usr/bin/env"), &args, log)?;
        let listens = || async { connect().await.map_err(|error| error.to_string()) };
        cloud.ready(DEADLINE, listens).await?;
        Ok(Some(cloud))
    }
}

impl Provider {
    /// Its launch with these machines. `programs` is the folder of this project's programs.
    ///
    /// Fails outside of the source tree, for a provider that is built there.
    pub fn launch(&self, programs: &Path, machines: &[String]) -> Result<Launch> {
        let mut environment = vec![path_with(programs)];
        if !self.steps.is_empty() {
            environment.insert(0, chdir(&source_tree()?.join(self.folder)));
        }
        let cloud = self.cloud.as_ref();
        Ok(Launch {
            environment,
            command: with_machines(&self.start, machines),
            cloud: cloud.map(|cloud| (with_machines(&cloud.command, machines), cloud.port)),
            effect_prefixes: self.effect_prefixes.clone(),
        })
    }

    /// Its run against the contract, in the source tree. The suite itself starts the provider.
    pub(crate) fn conformance(&self, programs: &Path, explores: bool) -> Result<Run> {
        let root = source_tree()?;
        let Some(files) = &self.conformance else {
            return Err(Error::NoConformanceRun {
                provider: self.name,
            });
        };
        let what = if explores { "explore" } else { "run" };
        let mut command = vec![chdir(&root.join(self.folder)), path_with(programs)];
        let run = ["provider-conformance", what, "--allow-mutations"];
        command.extend(run.map(str::to_owned));
        command.push(format!("--inputs={}", files.inputs));
        if !explores {
            command.extend(files.waivers.map(|path| format!("--waivers={path}")));
        }
        let machines = files.machines.iter().map(|name| (*name).to_owned());
        Ok(Run {
            command,
            launch: self.launch(programs, &machines.collect::<Vec<_>>())?,
        })
    }
}

fn chdir(root: &Path) -> String {
    format!("--chdir={}", root.display())
}

/// A PATH on which this project's programs come first.
fn path_with(programs: &Path) -> String {
    let rest = env::var("PATH").unwrap_or_default();
    format!("PATH={}:{rest}", programs.display())
}

pub(super) fn with_machines(command: &[&str], machines: &[String]) -> Vec<String> {
    let expand = |word: &&str| match *word {
        "{nodes...}" => machines.to_vec(),
        word => vec![word.replace("{nodes}", &machines.join(","))],
    };
    command.iter().flat_map(expand).collect()
}
