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
    /// Manifests of Services that it serves, from the root of the repository.
    #[serde(borrow)]
    pub(crate) services: Vec<&'static str>,
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
mod tests {
    use std::{fs, path::Path, time::Duration};

    use super::*;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

    fn provider(step: Step) -> Provider {
        Provider {
            name: "test",
            requires: "Test 1.0 or newer",
            steps: vec![step],
            ..Provider::default()
        }
    }

    #[test]
    fn rows_name_files_that_exist_and_no_name_twice() {
        serde_saphyr::from_str::<Vec<Provider>>(FILE).unwrap();
        // A step makes what is below target/.
        let is_there = |path: &str| path.contains("target/") || Path::new(ROOT).join(path).exists();
        for (index, provider) in PROVIDERS.iter().enumerate() {
            let name = provider.name;
            assert!(
                PROVIDERS[..index].iter().all(|other| other.name != name),
                "{name} twice"
            );
            let files = provider.conformance.iter();
            let files = files.flat_map(|files| std::iter::once(files.inputs).chain(files.waivers));
            for path in files {
                let path = Path::new(provider.folder).join(path);
                assert!(
                    is_there(&path.display().to_string()),
                    "{name}: {}",
                    path.display()
                );
            }
            for path in &provider.services {
                assert!(is_there(path), "{name}: {path}");
            }
            for step in &provider.steps {
                assert!(is_there(step.folder), "{name}: {}", step.folder);
                let from = step.makes.iter().flat_map(|makes| &makes.from);
                for path in from.filter(|path| !path.contains("node_modules")) {
                    assert!(is_there(path), "{name}: {path}");
                }
            }
        }
    }

    #[test]
    fn names_are_those_of_the_table_and_machines_those_of_the_cloud() {
        assert_eq!(by_name("python").unwrap().name, "python");
        let aws = by_name("aws").unwrap().machines("node-", 2);
        assert_eq!(
            aws,
            ["ip-10-0-1-1.ec2.internal", "ip-10-0-1-2.ec2.internal"]
        );
        let error = by_name("ruby").unwrap_err();
        assert!(
            error.contains("mock, go, digitalocean, python, node, java, aws"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_missing_tool_is_one_sentence_with_the_version_that_is_needed() {
        let step = Step {
            action: "building it",
            folder: ".",
            command: vec!["no-such-compiler", "build"],
            makes: None,
        };
        let mut begun = Vec::new();
        let built = provider(step)
            .build(|action| begun.push(action.to_owned()))
            .await;
        let error = built.unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot build the provider test: there is no `no-such-compiler` command. Install Test 1.0 or newer"
        );
        assert_eq!(begun, ["building it"]);
    }

    #[test]
    fn a_step_is_left_out_while_its_file_is_the_youngest() {
        let makes = Makes {
            file: "made",
            from: vec!["from"],
        };
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("from/inner")).unwrap();
        let source = root.join("from/inner/source");
        fs::write(&source, "").unwrap();
        assert!(!makes.is_current(root), "there is nothing yet");
        fs::write(root.join("made"), "").unwrap();
        assert!(makes.is_current(root));
        let made = fs::metadata(root.join("made")).unwrap().modified().unwrap();
        let later = made + Duration::from_mins(1);
        fs::File::open(&source)
            .unwrap()
            .set_modified(later)
            .unwrap();
        assert!(!makes.is_current(root), "the source is younger");
        fs::remove_dir_all(root.join("from")).unwrap();
        assert!(!makes.is_current(root), "the source is not there");
    }

    #[tokio::test]
    async fn a_cloud_of_another_run_is_not_taken_for_this_ones() {
        let dir = tempfile::tempdir().unwrap();
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let begun = dir.path().join("begun");
        let begun = begun.to_str().unwrap();
        let provider = Provider {
            cloud: Some(Cloud {
                command: vec!["touch", "{nodes}"],
                port: other.local_addr().unwrap().port(),
            }),
            ..Provider::default()
        };
        let launch = provider.launch(dir.path(), &[begun.to_owned()]).unwrap();
        let started = launch.start_cloud(dir.path().join("log")).await;
        let error = started.unwrap_err().to_string();
        assert!(error.contains("is taken, by another run"), "{error}");
        assert!(!Path::new(begun).exists(), "it was started all the same");
    }
}
