//! Builds a provider with the tools of its language, by the steps of `providers.yaml`. A step is left out while its output
//! is younger than its sources.

use std::{
    fs::{self, File},
    io,
    path::Path,
    process::Stdio,
    time::SystemTime,
};

use tokio::process::Command;

use super::{Makes, Provider, Step, source_tree};
use crate::{Error, Result, process::log_end};

impl Provider {
    /// Builds what is missing or old, below `target/` and in the provider's own folder.
    ///
    /// `begun` is called with each piece of work. Nothing is built for a provider that is built with the
    /// controller. Cancelled, it kills the command that runs.
    pub async fn build(&self, mut begun: impl FnMut(&str)) -> Result<()> {
        if self.steps.is_empty() {
            return Ok(());
        }
        let root = source_tree()?;
        let folder = root.join("target/providers");
        fs::create_dir_all(&folder).map_err(Error::io(format!("make {}", folder.display())))?;
        for step in &self.steps {
            let current = step
                .makes
                .as_ref()
                .is_some_and(|makes| makes.is_current(&root));
            if !current {
                begun(step.action);
                let log = folder.join(format!("{}.log", self.name));
                step.run(self, &root, &log).await?;
            }
        }
        Ok(())
    }
}

impl Step {
    async fn run(&self, provider: &Provider, root: &Path, log: &Path) -> Result<()> {
        let failed = || Error::io(format!("run `{}`", self.command.join(" ")));
        let out = File::create(log).map_err(failed())?;
        let err = out.try_clone().map_err(failed())?;
        let (&program, args) = self.command.split_first().unwrap_or((&"true", &[]));
        // A program with a slash is a file that an earlier step made.
        let path = if program.contains('/') {
            root.join(program)
        } else {
            program.into()
        };
        let status = Command::new(path)
            .args(args)
            .current_dir(root.join(self.folder))
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .kill_on_drop(true)
            .status()
            .await
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::NoTool {
                    provider: provider.name,
                    program,
                    requires: provider.requires,
                },
                _ => failed()(error),
            })?;
        if status.success() {
            return Ok(());
        }
        Err(Error::ProviderBuild {
            provider: provider.name,
            command: self.command.join(" "),
            requires: provider.requires,
            status,
            output: log_end(log),
        })
    }
}

impl Makes {
    pub(super) fn is_current(&self, root: &Path) -> bool {
        let Ok(made) = modified(&root.join(self.file)) else {
            return false;
        };
        let is_older = |from: &&str| newest(&root.join(from)).is_ok_and(|newest| newest <= made);
        self.from.iter().all(is_older)
    }
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

/// The time of the newest change of a file, or of all files below a folder.
fn newest(path: &Path) -> io::Result<SystemTime> {
    let mut newest_yet = modified(path)?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            newest_yet = newest_yet.max(newest(&entry?.path())?);
        }
    }
    Ok(newest_yet)
}
