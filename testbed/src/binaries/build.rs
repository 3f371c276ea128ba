//! Builds a program with Go, once.

use std::{
    collections::VecDeque,
    fs::{self, File, TryLockError},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    task,
    time::{Instant, MissedTickBehavior, interval},
};

use super::Program;
use crate::{Error, Result};

/// The path of the built program below `target`.
///
/// The path has the version, and a mark of our own source: a change builds anew, and two
/// branches do not overwrite each other's.
pub(super) async fn build(program: &'static Program, target: &Path) -> Result<PathBuf> {
    let dir = target.join("testbed/bin").join(format!(
        "{}-{}{}",
        program.name,
        program.version(),
        mark(program)
    ));
    let binary = dir.join(program.name);
    if binary.is_file() {
        return Ok(binary);
    }
    fs::create_dir_all(&dir).map_err(Error::io(format!("make {}", dir.display())))?;
    let _lock = lock(program, dir.join("lock")).await?;
    if !binary.is_file() {
        // Built under another name: a path that exists is a complete program.
        let unfinished = dir.join("unfinished");
        write_module(program, &dir)?;
        go_build(program, &dir, &unfinished).await?;
        fs::rename(&unfinished, &binary)
            .map_err(Error::io(format!("rename to {}", binary.display())))?;
    }
    Ok(binary)
}

/// Another one for each text of `main.go`.
fn mark(program: &Program) -> String {
    program.main_go.map_or_else(String::new, |text| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        format!("-{:016x}", hasher.finish())
    })
}

/// Blocks other processes until the file is closed.
async fn lock(program: &'static Program, path: PathBuf) -> Result<File> {
    let failed = Error::io(format!("lock {}", path.display()));
    let wait = move || {
        let file = File::create(&path)?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        say(&format!(
            "waiting for another process that builds {}",
            program.name
        ));
        file.lock()?;
        Ok(file)
    };
    match task::spawn_blocking(wait).await {
        Ok(result) => result.map_err(failed),
        Err(ended) => Err(failed(io::Error::other(ended))),
    }
}

fn write_module(program: &Program, dir: &Path) -> Result<()> {
    let own = program.main_go.map(|text| ("main.go", text));
    let module = [("go.mod", program.go_mod), ("go.sum", program.go_sum)];
    for (name, text) in module.into_iter().chain(own) {
        let path = dir.join(name);
        fs::write(&path, text).map_err(Error::io(format!("write {}", path.display())))?;
    }
    Ok(())
}

async fn go_build(program: &'static Program, dir: &Path, output: &Path) -> Result<()> {
    let failed = || Error::io(format!("run `go build` of {}", program.name));
    let mut child = Command::new("go")
        .current_dir(dir)
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags"])
        .arg(program.ldflags())
        .arg("-o")
        .arg(output)
        .arg(program.package)
        .env("CGO_ENABLED", "0")
        // A go.work file above the target directory is not meant for this module.
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NoGo {
                program: program.name,
                needed: program.go().to_owned(),
                instead: program.without_go,
            },
            _ => failed()(error),
        })?;

    let mut progress = Progress::new(program);
    let mut last_lines = VecDeque::new();
    if let Some(stderr) = child.stderr.take() {
        let mut lines = BufReader::new(stderr).lines();
        let mut tick = interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                line = lines.next_line() => match line.map_err(failed())? {
                    Some(line) => {
                        if last_lines.len() == 20 {
                            last_lines.pop_front();
                        }
                        last_lines.push_back(line);
                    }
                    None => break,
                },
                _ = tick.tick() => progress.tick(),
            }
        }
    }
    let status = child.wait().await.map_err(failed())?;
    if !status.success() {
        return Err(Error::GoBuild {
            program: program.name,
            status,
            output: Vec::from(last_lines).join("\n"),
        });
    }
    progress.done();
    Ok(())
}

/// A spinner on a terminal; on a pipe a line at the start, each half minute and the end.
struct Progress {
    what: String,
    started: Instant,
    spinner: Option<ProgressBar>,
    next_line: Duration,
}

impl Progress {
    const LINE_EVERY: Duration = Duration::from_secs(30);

    fn new(program: &Program) -> Self {
        let what = format!("{} {}", program.name, program.version());
        let spinner = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg} [{elapsed_precise}]");
            ProgressBar::new_spinner()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
                .with_message(format!("building {what} with Go (minutes the first time)"))
        });
        if spinner.is_none() {
            say(&format!("building {what} with Go (minutes the first time)"));
        }
        Self {
            what,
            started: Instant::now(),
            spinner,
            next_line: Self::LINE_EVERY,
        }
    }

    fn tick(&mut self) {
        let elapsed = self.started.elapsed();
        if let Some(spinner) = &self.spinner {
            spinner.tick();
        } else if elapsed >= self.next_line {
            self.next_line += Self::LINE_EVERY;
            say(&format!(
                "still building {} after {} s",
                self.what,
                elapsed.as_secs()
            ));
        }
    }

    fn done(self) {
        if let Some(spinner) = self.spinner {
            spinner.finish_and_clear();
        }
        let elapsed = self.started.elapsed().as_secs_f32();
        say(&format!("built {} in {elapsed:.1} s", self.what));
    }
}

/// Not `eprintln`: the test harness would hide it just when a test seems to hang.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "testbed: {line}");
}
