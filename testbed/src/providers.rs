//! The providers of this repository, in any language: how each is built and started, over a cloud in memory.
//!
//! A row of the table makes a provider known to the demo, to `check-provider` and to `conformance`.

mod build;
mod launch;
mod table;

use std::{
    env, io,
    path::{Path, PathBuf},
};

pub(crate) use self::launch::Run;
pub use self::{launch::Launch, table::PROVIDERS};
use crate::{Error, Result};

/// A provider of this repository. All of them serve instances and load balancers.
#[derive(Debug)]
pub struct Provider {
    /// Its name on a command line.
    pub name: &'static str,
    /// Programs that it is built and run with, and their versions.
    requires: &'static str,
    /// The steps that build it; empty for a provider that is built with the controller.
    steps: &'static [Step],
    /// A fake of its cloud that is a process of its own, and outlives the provider.
    cloud: Option<Cloud>,
    /// Starts it.
    start: Command,
    /// The controller's `--provider-effect-prefixes`.
    effect_prefixes: &'static [&'static str],
    /// Facts about its cloud, for the conformance suite.
    conformance: Option<Conformance>,
    /// The names of its machines, where the cloud names them: `{number}` counts from 1.
    pub machine: Option<&'static str>,
    /// It serves routes.
    pub routes: bool,
    /// Its cloud knows all addresses that kubelets were started with.
    pub provided_ips: bool,
    /// It is the mock, which has a control command, and volumes.
    pub is_mock: bool,
}

/// A program and its arguments, from the root of the repository.
///
/// `{nodes}` is replaced by the names of the machines, separated by commas, and `{nodes...}` by an
/// argument for each.
type Command = &'static [&'static str];

/// One command of a build.
#[derive(Debug)]
struct Step {
    /// The work, for people: a verb with -ing.
    action: &'static str,
    /// Where the command runs.
    folder: &'static str,
    command: Command,
    /// Without it the command itself knows what is up to date.
    makes: Option<Makes>,
}

/// The step can be left out while `file` is younger than everything below `from`.
#[derive(Debug)]
struct Makes {
    file: &'static str,
    from: &'static [&'static str],
}

#[derive(Debug)]
struct Cloud {
    command: Command,
    /// Where it listens on the loopback interface.
    port: u16,
}

#[derive(Clone, Copy, Debug)]
struct Conformance {
    inputs: &'static str,
    waivers: Option<&'static str>,
    /// The machines of a fake cloud that is a process of its own.
    machines: &'static [&'static str],
}

impl Provider {
    /// Names of its machines; where the cloud names none, with this prefix.
    pub fn machines(&self, prefix: &str, count: usize) -> Vec<String> {
        let name = |number: usize| {
            let pattern = self
                .machine
                .map(|name| name.replace("{number}", &number.to_string()));
            pattern.unwrap_or_else(|| format!("{prefix}{number:05}"))
        };
        (1..=count).map(name).collect()
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
fn source_tree() -> Result<PathBuf> {
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
