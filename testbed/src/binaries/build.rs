//! Builds a program with Go, once: a lock keeps several processes from building it together, and the path has its version.

mod progress;

use std::{
    collections::VecDeque,
    fs::{self, File, TryLockError},
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    pin::pin,
    process::Stdio,
    time::Duration,
};

use futures::FutureExt;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    task,
    time::{MissedTickBehavior, interval},
};

use self::progress::Progress;
use super::{Program, say};
use crate::{Error, Result};

/// The path of the built program below `target`.
///
/// The path has the version, and a mark of our own source: a change builds again, and two
/// branches do not overwrite each other's.
pub(super) async fn build(program: &'static Program, target: &Path) -> Result<PathBuf> {
    let dir = dir(program, target);
    let binary = dir.join(program.name);
    if binary.is_file() {
        return Ok(binary);
    }
    fs::create_dir_all(&dir).map_err(Error::io(format!("make {}", dir.display())))?;
    let _lock = lock(program.name, dir.join("lock")).await?;
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

/// The path of the program, if it was built before.
pub(super) fn built(program: &'static Program, target: &Path) -> Option<PathBuf> {
    let binary = dir(program, target).join(program.name);
    binary.is_file().then_some(binary)
}

fn dir(program: &Program, target: &Path) -> PathBuf {
    target.join("testbed/bin").join(format!(
        "{}-{}{}",
        program.name,
        program.version(),
        mark(program)
    ))
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
pub(super) async fn lock(what: &'static str, path: PathBuf) -> Result<File> {
    let failed = Error::io(format!("lock {}", path.display()));
    let wait = move || {
        let file = File::create(&path)?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        say(&format!("waiting for another process that makes {what}"));
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

/// A call of Go for the program: `list` and `build` with the same flags, so that they agree on what is compiled.
fn go(program: &Program, dir: &Path, command: &str) -> Command {
    let mut go = Command::new("go");
    go.current_dir(dir)
        .args([command, "-trimpath", "-buildvcs=false", "-ldflags"])
        .arg(program.ldflags())
        .env("CGO_ENABLED", "0")
        // A go.work file above the target directory is not meant for this module.
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    go
}

async fn go_build(program: &'static Program, dir: &Path, output: &Path) -> Result<()> {
    let failed = || Error::io(format!("run `go build` of {}", program.name));
    let mut progress = Progress::new(format!("{} {}", program.name, program.version()));
    let mut child = go(program, dir, "build")
        .args(["-v", "-o"])
        .arg(output)
        .arg(program.package)
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NoGo {
                program: program.name,
                needed: program.go().to_owned(),
                instead: program.without_go,
            },
            _ => failed()(error),
        })?;

    let mut count = pin!(count(program, dir).fuse());
    let mut last_lines = VecDeque::new();
    if let Some(stderr) = child.stderr.take() {
        let mut lines = BufReader::new(stderr).lines();
        let mut tick = interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                line = lines.next_line() => match line.map_err(failed())? {
                    Some(line) if is_package(&line) => progress.compiled(),
                    Some(line) => {
                        if last_lines.len() == 20 {
                            last_lines.pop_front();
                        }
                        last_lines.push_back(line);
                    }
                    None => break,
                },
                packages = &mut count => progress.expect(packages),
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

/// `go build -v` names each package that it compiles; all else that it says has spaces.
fn is_package(line: &str) -> bool {
    !line.is_empty() && !line.contains(char::is_whitespace)
}

/// How many packages the program has. It is only for an estimate, so no reason to fail.
async fn count(program: &Program, dir: &Path) -> Option<usize> {
    let mut list = go(program, dir, "list");
    list.args(["-deps", program.package]).stdout(Stdio::piped());
    let output = list.output().await.ok()?;
    let packages = output.stdout.split(|byte| *byte == b'\n');
    let packages = packages.filter(|line| !line.is_empty()).count();
    (output.status.success() && packages > 0).then_some(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names_are_distinguished_from_messages() {
        assert!(is_package("k8s.io/kubernetes/pkg/kubelet"));
        for message in [
            "",
            "go: downloading k8s.io/api v0.36.3",
            "# k8s.io/kubernetes/pkg/kubelet",
            "pkg/kubelet/kubelet.go:1:2: undefined: x",
        ] {
            assert!(!is_package(message), "{message}");
        }
    }
}
