//! The providers of this repository, in any language: how each is built and started, over a cloud in memory.
//!
//! An item of `providers.yaml` makes a provider known to the demo, to `check-provider` and to `conformance`.

mod build;
mod launch;

use std::{
    env, io,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use serde::Deserialize;

pub use self::launch::Launch;
pub(crate) use self::launch::Run;
use crate::{Error, Result};

const FILE: &str = include_str!("providers.yaml");

/// All providers of this repository. A test holds that the file can be read.
static PROVIDERS: LazyLock<Vec<Provider>> =
    LazyLock::new(|| serde_saphyr::from_str(FILE).unwrap_or_default());

/// A provider of this repository. All of them serve instances.
///
/// A command is a program and its arguments, from `folder`. `{nodes}` in it is replaced by the names of
/// the machines, separated by commas, and `{nodes...}` by an argument for each.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate fact of the file"
)]
pub struct Provider {
    /// Its name on a command line.
    pub name: &'static str,
    /// Programs that it is built and run with, and their versions.
    requires: &'static str,
    /// The steps that build it; empty for a provider that is built with the controller.
    steps: Vec<Step>,
    /// A fake of its cloud that is a process of its own, and outlives the provider.
    cloud: Option<Cloud>,
    /// Where `start` and the suite run; empty: the root of the repository.
    folder: &'static str,
    /// Starts it.
    #[serde(borrow)]
    start: Vec<&'static str>,
    /// The controller's `--provider-effect-prefixes`.
    #[serde(borrow)]
    effect_prefixes: Vec<&'static str>,
    /// Facts about its cloud, for the conformance suite.
    conformance: Option<Conformance>,
    /// The names of its machines, where the cloud names them: `{number}` counts from 1.
    pub machine: Option<&'static str>,
    /// How many machines run in a cloud that always has the same.
    most_nodes: Option<usize>,
    /// It serves routes.
    pub routes: bool,
    /// It serves no load balancers.
    pub without_services: bool,
    /// Its cloud knows all addresses that kubelets were started with.
    pub provided_ips: bool,
    /// It is the mock, which has a control command, and volumes.
    pub is_mock: bool,
}

/// One command of a build.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// The work, for people: a verb with -ing.
    action: &'static str,
    /// Where the command runs.
    folder: &'static str,
    #[serde(borrow)]
    command: Vec<&'static str>,
    /// Without it the command itself knows what is up to date.
    makes: Option<Makes>,
}

/// The step can be left out while `file` is younger than everything below `from`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Makes {
    file: &'static str,
    #[serde(borrow, default)]
    from: Vec<&'static str>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cloud {
    #[serde(borrow)]
    command: Vec<&'static str>,
    /// Where it listens on the loopback interface.
    port: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conformance {
    inputs: &'static str,
    waivers: Option<&'static str>,
    /// The machines of a fake cloud that is a process of its own.
    #[serde(borrow, default)]
    machines: Vec<&'static str>,
}

impl Provider {
    /// Names of its machines, `count` of them if it has so many; where the cloud names none, with this prefix.
    pub fn machines(&self, prefix: &str, count: usize) -> Vec<String> {
        let name = |number: usize| {
            let pattern = self
                .machine
                .map(|name| name.replace("{number}", &number.to_string()));
            pattern.unwrap_or_else(|| format!("{prefix}{number:05}"))
        };
        (1..=self.most_nodes.unwrap_or(count).min(count))
            .map(name)
            .collect()
    }
}

/// The provider of that name.
///
/// # Errors
///
/// There is none; the text has all names.
pub fn by_name(name: &str) -> Result<&'static Provider, String> {
    let provider = PROVIDERS.iter().find(|provider| provider.name == name);
    provider.ok_or_else(|| {
        let names: Vec<_> = PROVIDERS.iter().map(|provider| provider.name).collect();
        format!("the providers are {}", names.join(", "))
    })
}

/// The folder of this repository that the process runs in.
pub fn source_tree() -> Result<PathBuf> {
    let failed = || Error::io("find the source tree");
    let here = env::current_dir().map_err(failed())?;
    let root = here.ancestors().find(|dir| is_source_tree(dir));
    root.map(Path::to_owned).ok_or_else(|| {
        let hint = format!(
            "{} is not in it; run this where Outrigger was cloned",
            here.display()
        );
        failed()(io::Error::other(hint))
    })
}

fn is_source_tree(dir: &Path) -> bool {
    dir.join("testbed/Cargo.toml").is_file() && dir.join("proto/cloudprovider").is_dir()
}

#[cfg(test)]
mod tests;
