//! The program under test.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use crate::wait::{DEADLINE, until};

/// The one that is built with the tests, or that `OUTRIGGER_TEST_CONTROLLER` names.
pub(crate) fn program() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_cloud-controller-manager").into();
    env::var_os("OUTRIGGER_TEST_CONTROLLER").map_or_else(built, PathBuf::from)
}

/// The output of a command that has ended, and its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Runs `command` to its end.
    pub(crate) async fn of(command: &mut Command) -> Self {
        let ran = command.output().await.unwrap();
        Self {
            code: ran.status.code(),
            out: String::from_utf8(ran.stdout).unwrap(),
            err: String::from_utf8(ran.stderr).unwrap(),
        }
    }
}

/// A running `cloud-controller-manager`. Dropping it kills it.
pub(crate) struct Controller {
    child: Child,
    log: PathBuf,
}

/// A log in klog's format with severities as words, and quotes as they were before the format escaped them.
pub(crate) fn plain(log: &str) -> String {
    let lines = log.lines().map(|line| {
        let severity = match line.split_once(' ').map(|(head, _)| head.as_bytes()) {
            Some([b'W', b'0' | b'1', _, _, _]) => "WARN ",
            Some([b'E', b'0' | b'1', _, _, _]) => "ERROR ",
            Some([b'I', b'0' | b'1', _, _, _]) => "INFO ",
            _ => return format!("{line}\n"),
        };
        let line = line.replace(r#"\""#, "\"").replace(r"\\", r"\");
        format!("{severity}{line}\n")
    });
    lines.collect()
}

impl Controller {
    /// Starts it with an empty environment; what it prints goes to `log`.
    pub(crate) fn start<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>, log: &Path) -> Self {
        Self::start_program(&program(), args, log)
    }

    /// The same of another version.
    pub(crate) fn start_program<A: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = A>,
        log: &Path,
    ) -> Self {
        let out = File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new(program)
            .args(args)
            .env_clear()
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = log.to_owned();
        Self { child, log }
    }

    /// The process id; fails the test if the process has ended.
    pub(crate) fn pid(&mut self) -> u32 {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "the controller ended: {ended:?}");
        self.child.id().unwrap()
    }

    /// Everything that it has printed, as [`plain`].
    pub(crate) fn log(&self) -> String {
        plain(&fs::read_to_string(&self.log).unwrap())
    }

    /// How many lines have `text`.
    pub(crate) fn lines(&self, text: &str) -> usize {
        self.log()
            .lines()
            .filter(|line| line.contains(text))
            .count()
    }

    /// Waits until a line has all of `texts`, and returns the first.
    pub(crate) async fn says(&mut self, texts: &[&str]) -> String {
        until(&format!("a line with {texts:?}"), async || {
            self.pid();
            let log = self.log();
            let mut lines = log.lines();
            let line = lines.find(|line| texts.iter().all(|text| line.contains(text)));
            line.map(str::to_owned)
                .ok_or_else(|| "nothing of the kind in the log".to_owned())
        })
        .await
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let ended = timeout(DEADLINE, self.child.wait()).await;
        ended.expect("it ends").unwrap()
    }

    /// `kill -9`. Returns when it is gone.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// SIGTERM, to which it must end well.
    pub(crate) async fn terminate(&mut self) {
        self.signal(Signal::TERM);
        let status = self.ended().await;
        assert!(status.success(), "{status}");
    }
}
