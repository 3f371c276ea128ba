//! `cargo build` of the controller and a provider, as the demo itself was built.

use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use futures::try_join;
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
    time::Instant,
};

use super::{CONTROLLER, Error, Programs};
use crate::demo::narrator::Narrator;

/// How to call cargo.
#[derive(Debug)]
pub(super) struct Cargo {
    program: OsString,
    manifest: PathBuf,
    target_dir: PathBuf,
    profile: String,
}

impl Cargo {
    /// The cargo that runs this process, if one does.
    pub(super) fn from_env(demo: &Path) -> Option<Self> {
        let program = env::var_os("CARGO")?;
        let manifest = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("Cargo.toml");
        // The demo lies in <target directory>/<profile>.
        let dir = demo.parent()?;
        let profile = match dir.file_name()?.to_str()? {
            "debug" => "dev",
            other => other,
        };
        Some(Self {
            program,
            manifest,
            target_dir: dir.parent()?.to_owned(),
            profile: profile.to_owned(),
        })
    }

    /// Builds what has changed and returns the paths of both programs. Cargo itself knows what is up to date.
    pub(super) async fn build(
        &self,
        provider: &'static str,
        narrator: &Narrator,
    ) -> Result<Programs, Error> {
        const SHOWN: usize = 40;
        let both = format!("{CONTROLLER} and {provider}");
        let failed = || crate::Error::io(format!("run `cargo build` of {both}"));
        let mut child = self.spawn(provider).map_err(failed())?;
        let (mut messages, mut lines) = (String::new(), Vec::new());
        if let (Some(mut out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
            let messages = out.read_to_string(&mut messages);
            let followed = follow(&both, BufReader::new(err).lines(), narrator, &mut lines);
            try_join!(messages, followed).map_err(failed())?;
        }
        let status = child.wait().await.map_err(failed())?;
        let messages = messages.lines().map(serde_json::from_str::<Message>);
        let executables: Vec<_> = messages.filter_map(|one| one.ok()?.executable).collect();
        let path_of = |program: &str| executables.iter().find(|path| path.ends_with(program));
        if let (true, Some(controller), Some(provider)) =
            (status.success(), path_of(CONTROLLER), path_of(provider))
        {
            return Ok(Programs {
                controller: controller.clone(),
                provider: provider.clone(),
            });
        }
        Err(Error::Cargo {
            programs: both,
            status,
            output: lines[lines.len().saturating_sub(SHOWN)..].join("\n"),
        })
    }

    fn spawn(&self, provider: &str) -> io::Result<Child> {
        Command::new(&self.program)
            // The whole workspace: crates then have the features that a plain `cargo build`
            // gives them, and need not be compiled again.
            .args(["build", "--workspace", "--bin", CONTROLLER])
            .args(["--bin", provider])
            .arg("--profile")
            .arg(&self.profile)
            .arg("--manifest-path")
            .arg(&self.manifest)
            .arg("--target-dir")
            .arg(&self.target_dir)
            .args(["--color=never", "--message-format=json-render-diagnostics"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
    }
}

/// The part of cargo's messages with the path of an executable.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

/// Shows cargo's work, once it does more than to see that nothing is to be done, and keeps its lines.
async fn follow(
    both: &str,
    mut cargo: Lines<BufReader<ChildStderr>>,
    narrator: &Narrator,
    lines: &mut Vec<String>,
) -> io::Result<()> {
    const LINE_EVERY: Duration = Duration::from_secs(30);
    let started = Instant::now();
    let (mut builds, mut last_line) = (false, started);
    while let Some(line) = cargo.next_line().await? {
        let word = line.split_whitespace().next().unwrap_or_default();
        if ["Blocking", "Compiling", "Downloading", "Updating"].contains(&word) {
            if !builds {
                narrator.begin(&format!("building {both}"));
                builds = true;
            }
            // Without the path that follows a package of this workspace.
            let (doing, _) = line.split_once(" (").unwrap_or((&line, ""));
            let separate_line = last_line.elapsed() >= LINE_EVERY;
            narrator.update(&format!("building {both}: {}", doing.trim()), separate_line);
            if separate_line {
                last_line = Instant::now();
            }
        }
        lines.push(line);
    }
    if builds {
        narrator.clear();
        let seconds = started.elapsed().as_secs_f32();
        narrator.note(&format!("built {both} in {seconds:.1} s"));
    }
    Ok(())
}
