//! Child processes that cannot outlive their owner.
//!
//! Each component runs below a small shell that holds one end of a pipe. When the other
//! end closes, the shell kills the component. The pipe closes on drop, at the end of the
//! owner's process, and when that process is killed; statics, panics, Ctrl-C and
//! `kill -9` all come to the same. The kernel's parent-death signal would need `unsafe`
//! and is bound to the thread that spawned, which in a test runner ends early.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::{
    net::UnixStream,
    time::{Instant, sleep, timeout},
};

use crate::{Error, Result};

/// `$@` is the component. It is a child of this shell until `wait` returns, so the process id that
/// is killed cannot belong to another process.
const KEEPER: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
component=$!
{ read -r _ <&3; kill -9 "$component"; } 2>/dev/null &
watcher=$!
wait "$component"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
"#;

/// Removes the directory `$1` when the pipe closes. The components are killed at the
/// same moment and may still add a file, so it tries again.
const SWEEPER: &str = r#"
read -r _
for pause in 0.05 0.2 1 2 4; do
  rm -rf -- "$1" 2>/dev/null && exit 0
  sleep "$pause"
done
"#;

/// A running component. Dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct Process {
    program: &'static str,
    keeper: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `binary` with `args`; what it prints is appended to `log`.
    pub fn start(
        program: &'static str,
        binary: &Path,
        args: &[String],
        log: PathBuf,
    ) -> Result<Self> {
        let open = || -> io::Result<(File, File)> {
            let out = File::options().create(true).append(true).open(&log)?;
            let err = out.try_clone()?;
            Ok((out, err))
        };
        let (out, err) = open().map_err(Error::io(format!("open the log {}", log.display())))?;
        let keeper = Command::new("/bin/sh")
            .args(["-c", KEEPER, program])
            .arg(binary)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(err)
            // A terminal's Ctrl-C is for the owner, which ends its components in order.
            .process_group(0)
            .spawn()
            .map_err(Error::io(format!("start {program}")))?;
        Ok(Self {
            program,
            keeper,
            log,
        })
    }

    /// Its log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines that the component printed.
    pub fn log_end(&self) -> String {
        log_end(&self.log)
    }

    /// An error if the component has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        match self.keeper.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Error::Ended {
                program: self.program,
                status,
                log: self.log.clone(),
                log_end: self.log_end(),
            }),
            Err(error) => Err(Error::io(format!("wait for {}", self.program))(error)),
        }
    }

    /// Waits until `probe` succeeds. Fails if the component has ended, or after `deadline`.
    pub async fn ready<P: Future<Output = Result<(), String>>>(
        &mut self,
        deadline: Duration,
        probe: impl Fn() -> P,
    ) -> Result<()> {
        const EVERY: Duration = Duration::from_millis(20);
        const PROBE_TIME: Duration = Duration::from_secs(5);
        let end = Instant::now() + deadline;
        loop {
            let last = match timeout(PROBE_TIME, probe()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(reason)) => reason,
                Err(_) => "none".to_owned(),
            };
            self.check()?;
            if Instant::now() > end {
                return Err(Error::NotReady {
                    program: self.program,
                    deadline,
                    last,
                    log: self.log.clone(),
                    log_end: self.log_end(),
                });
            }
            sleep(EVERY).await;
        }
    }

    /// Waits until the component listens at a Unix socket; see [`ready`](Self::ready).
    pub async fn listens(&mut self, socket: &Path, deadline: Duration) -> Result<()> {
        let connect = || async {
            let connected = UnixStream::connect(socket).await;
            connected.map(drop).map_err(|error| error.to_string())
        };
        self.ready(deadline, connect).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Waiting closes the pipe first; a kill -9 is a matter of milliseconds.
        let _ = self.keeper.wait();
    }
}

/// The last lines of a log.
pub fn log_end(path: &Path) -> String {
    const LINES: usize = 25;
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// A shell that waits for the end of this process, or for its own drop, and then removes files or cgroups.
#[derive(Debug)]
pub struct Sweeper(Child);

impl Sweeper {
    /// `script` starts with a `read` that returns when the pipe closes.
    pub fn start(script: &str, args: impl IntoIterator<Item: AsRef<OsStr>>) -> Result<Self> {
        let sweeper = Command::new("/bin/sh")
            .args(["-c", script, "sweeper"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        sweeper.map(Self).map_err(Error::io("start /bin/sh"))
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        // Waiting closes the pipe first.
        let _ = self.0.wait();
    }
}

/// Runs a command to its end, which `action` names in errors, and returns what it printed.
pub async fn output(
    program: &'static str,
    command: &mut tokio::process::Command,
    action: impl FnOnce() -> String,
) -> Result<String> {
    let command = command.stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await;
    let output = output.map_err(Error::io(format!("run {program}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Command {
        program,
        action: action(),
        status: output.status,
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// A directory that is removed when dropped and, unlike a `TempDir`, when the process is
/// killed as well.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _sweeper: Option<Sweeper>,
}

impl Scratch {
    /// Makes a directory that only its owner may read. With `keep` it stays.
    pub fn new(keep: bool) -> Result<Self> {
        // Short: sockets lie in it, and their paths are limited to about 100 bytes.
        let path = tempfile::Builder::new()
            .prefix("outrigger-")
            .tempdir()
            .map_err(Error::io("make a temporary directory"))?
            .keep();
        let sweeper = (!keep).then(|| Sweeper::start(SWEEPER, [&path]));
        Ok(Self {
            _sweeper: sweeper.transpose()?,
            path,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_process_is_gone_and_a_dropped_scratch_too() {
        let scratch = Scratch::new(false).unwrap();
        let path = scratch.path().to_owned();
        let args = ["-c".into(), "echo $$; exec sleep 1000".into()];
        let log = path.join("log");
        let process = Process::start("sleep", Path::new("/bin/sh"), &args, log.clone()).unwrap();
        let pid = loop {
            let text = fs::read_to_string(&log).unwrap();
            if let Some(pid) = text.strip_suffix('\n') {
                break pid.parse::<i32>().unwrap();
            }
            std::thread::yield_now();
        };
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_ok());
        drop(process);
        assert!(rustix::process::test_kill_process(pid).is_err());
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn a_process_that_ends_by_itself_is_reported_with_its_log() {
        let scratch = Scratch::new(false).unwrap();
        let args = ["-c".into(), "echo no such flag; exit 3".into()];
        let log = scratch.path().join("log");
        let mut process = Process::start("etcd", Path::new("/bin/sh"), &args, log).unwrap();
        let error = loop {
            if let Err(error) = process.check() {
                break error.to_string();
            }
            std::thread::yield_now();
        };
        assert!(
            error.contains("etcd ended by itself (exit status: 3)"),
            "{error}"
        );
        assert!(error.contains("no such flag"), "{error}");
    }
}
