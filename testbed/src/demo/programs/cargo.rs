//! `cargo build` of the controller and the mock, as the demo itself was built.

use std::{
    cell::Cell,
    collections::VecDeque,
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{Instant, MissedTickBehavior, interval},
};

use super::{CONTROLLER, Error, MOCK, Programs};
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

    /// Builds what has changed and returns its path. Cargo itself knows what is up to date.
    pub(super) async fn build(
        &self,
        narrator: &Narrator,
        go_builds: &Cell<bool>,
    ) -> Result<Programs, Error> {
        let child = self.spawn()?;
        let mut telling = Telling {
            narrator,
            go_builds,
            started: Instant::now(),
            doing: None,
            shown: false,
            next_line: Telling::LINE_EVERY,
        };
        let Built {
            status,
            executables,
            last_lines,
        } = watch(child, &mut telling).await?;
        let path_of = |program: &str| {
            let mut paths = executables.iter().filter(|path| path.ends_with(program));
            paths.next().cloned()
        };
        if status.success()
            && let (Some(controller), Some(mock)) = (path_of(CONTROLLER), path_of(MOCK))
        {
            telling.done();
            return Ok(Programs { controller, mock });
        }
        Err(Error::Cargo {
            programs: both(),
            status,
            output: Vec::from(last_lines).join("\n"),
        })
    }

    fn spawn(&self) -> Result<Child, Error> {
        let child = Command::new(&self.program)
            // The whole workspace: crates then have the features that a plain `cargo build`
            // gives them, and need not be compiled again.
            .args(["build", "--workspace", "--bin", CONTROLLER, "--bin", MOCK])
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
            .spawn();
        let failed = crate::Error::io(format!("run `cargo build` of {}", both()));
        Ok(child.map_err(failed)?)
    }
}

fn both() -> String {
    format!("{CONTROLLER} and {MOCK}")
}

struct Built {
    status: ExitStatus,
    executables: Vec<PathBuf>,
    last_lines: VecDeque<String>,
}

/// The part of cargo's messages with the path of an executable.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

async fn watch(mut child: Child, telling: &mut Telling<'_>) -> Result<Built, Error> {
    const KEPT: usize = 40;
    let failed = || crate::Error::io(format!("follow `cargo build` of {}", both()));
    let mut executables = Vec::new();
    let mut last_lines = VecDeque::new();
    if let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
        let mut out = BufReader::new(out).lines();
        let mut err = BufReader::new(err).lines();
        let (mut more_out, mut more_err) = (true, true);
        let mut tick = interval(Duration::from_millis(500));
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while more_out || more_err {
            tokio::select! {
                line = out.next_line(), if more_out => match line.map_err(failed())? {
                    Some(line) => {
                        let message = serde_json::from_str::<Message>(&line).ok();
                        executables.extend(message.and_then(|message| message.executable));
                    }
                    None => more_out = false,
                },
                line = err.next_line(), if more_err => match line.map_err(failed())? {
                    Some(line) => {
                        telling.take(&line);
                        if last_lines.len() == KEPT {
                            last_lines.pop_front();
                        }
                        last_lines.push_back(line);
                    }
                    None => more_err = false,
                },
                _ = tick.tick() => telling.tick(),
            }
        }
    }
    let status = child.wait().await.map_err(failed())?;
    Ok(Built {
        status,
        executables,
        last_lines,
    })
}

/// Shows cargo's work, once it does more than to see that nothing is to be done.
struct Telling<'a> {
    narrator: &'a Narrator,
    /// Then a terminal's line is in use: the build with Go shows its own progress.
    go_builds: &'a Cell<bool>,
    started: Instant,
    doing: Option<String>,
    shown: bool,
    next_line: Duration,
}

impl Telling<'_> {
    const LINE_EVERY: Duration = Duration::from_secs(30);

    fn take(&mut self, line: &str) {
        let line = line.trim();
        let word = line.split(' ').next().unwrap_or_default();
        if ["Blocking", "Compiling", "Downloading", "Updating"].contains(&word) {
            if self.doing.is_none() && !self.narrator.on_terminal() {
                self.narrator.begin(&format!("building {}", both()));
            }
            // Without the path that follows a package of this workspace.
            let (doing, _) = line.split_once(" (").unwrap_or((line, ""));
            self.doing = Some(doing.to_owned());
        }
    }

    fn tick(&mut self) {
        let Some(doing) = &self.doing else { return };
        let elapsed = self.started.elapsed();
        let what = format!("building {}: {doing}", both());
        if !self.narrator.on_terminal() {
            if elapsed >= self.next_line {
                self.next_line += Self::LINE_EVERY;
                let seconds = elapsed.as_secs();
                let still = format!("still {what}, after {seconds} s");
                self.narrator.update(&still, true);
            }
        } else if self.go_builds.get() {
            self.narrator.clear();
            self.shown = false;
        } else if self.shown {
            self.narrator.update(&what, false);
        } else {
            self.narrator.begin_since(&what, elapsed);
            self.shown = true;
        }
    }

    fn done(&self) {
        if self.doing.is_some() {
            self.narrator.clear();
            let seconds = self.started.elapsed().as_secs_f32();
            self.narrator
                .note(&format!("built {} in {seconds:.1} s", both()));
        }
    }
}
