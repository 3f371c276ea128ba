//! The commands `ip`, `nft` and `conntrack`, by which the kernel is read and changed.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

/// Time limit of one command. They take milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

/// Where named network namespaces are.
pub const NAMESPACES: &str = "/run/netns";

/// Why a command has not done its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The program is not there.
    #[error("{program} is not installed: it is in Debian's package {package}")]
    Missing {
        /// Its name.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// This process may not change the network.
    #[error(
        "`{command}` is not permitted: the process needs root, with CAP_NET_ADMIN in the namespace, and CAP_SYS_ADMIN to enter others"
    )]
    Denied {
        /// The command.
        command: String,
    },
    /// The command ended with an error, or was not answered.
    #[error("`{command}` failed: {text}")]
    Failed {
        /// The command.
        command: String,
        /// Its words.
        text: String,
    },
}

impl Failure {
    /// Returns whether the command said so.
    pub fn says(&self, words: &str) -> bool {
        matches!(self, Self::Failed { text, .. } if text.contains(words))
    }
}

/// Runs a program with this input, and returns its output.
///
/// # Cancellation
///
/// Dropped, it kills the program. A batch of `nft` is one transaction: it is done or not.
pub async fn run(program: &'static str, args: &[&str], input: &str) -> Result<String, Failure> {
    let command = [&[program], args].concat().join(" ");
    let failed = |text: String| Failure::Failed {
        command: command.clone(),
        text,
    };
    let work = async {
        let mut child = Command::new(program)
            .args(args)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read its input says why on its stderr.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = match timeout(LIMIT, work).await {
        Err(_) => return Err(failed(format!("no answer within {} s", LIMIT.as_secs()))),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            let package = match program {
                "nft" => "nftables",
                "ip" => "iproute2",
                other => other,
            };
            return Err(Failure::Missing { program, package });
        }
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Ok(Ok(output)) => output,
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if text.is_empty() {
        text = output.status.to_string();
    }
    if text.contains("Operation not permitted") || text.contains("Permission denied") {
        return Err(Failure::Denied { command });
    }
    Err(failed(text))
}

/// Runs these commands of `ip`, one a line, and ends at the first that fails; with `-force` among the arguments it runs all
/// of them.
pub async fn ip_batch(args: &[&str], lines: &[String]) -> Result<(), Failure> {
    if lines.is_empty() {
        return Ok(());
    }
    let all = [args, &["-batch", "-"]].concat();
    let ended = run("ip", &all, &(lines.join("\n") + "\n")).await;
    ended.map(drop).map_err(|failure| match failure {
        Failure::Failed { text, .. } => {
            // It ends with "Command failed -:3": the line.
            let number = text
                .rsplit_once("-:")
                .and_then(|(_, line)| line.parse::<usize>().ok());
            let line = number.and_then(|number| lines.get(number.checked_sub(1)?));
            let line = line.map_or("-batch -", String::as_str);
            Failure::Failed {
                command: [&["ip"], args, &[line]].concat().join(" "),
                text: text.lines().next().unwrap_or_default().to_owned(),
            }
        }
        other => other,
    })
}

/// Reads a list that `ip -j` prints.
pub async fn ip_list<T: DeserializeOwned>(args: &[&str]) -> Result<Vec<T>, Failure> {
    let args = [&["-j"], args].concat();
    let printed = match run("ip", &args, "").await {
        // A kernel without IPv6.
        Err(failure) if failure.says("Address family not supported") => String::new(),
        printed => printed?,
    };
    if printed.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&printed).map_err(|error| Failure::Failed {
        command: ["ip"]
            .iter()
            .chain(&args)
            .copied()
            .collect::<Vec<_>>()
            .join(" "),
        text: format!("its JSON cannot be read: {error}"),
    })
}

/// A lock among all processes of this host that change one network namespace.
///
/// The kernel holds it on the namespace itself, so that it goes with the process and leaves no file. Commands that run
/// inherit it: those of a process that is killed go on, and the next process waits until they have ended.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Waits for the lock of the namespace at this path, at most as long as for a command.
    pub async fn of(path: &str) -> Result<Self, Failure> {
        let failed = |text: String| Failure::Failed {
            command: format!("flock {path}"),
            text,
        };
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        fcntl_setfd(&file, FdFlags::empty()).map_err(|error| failed(error.to_string()))?;
        let wait = async {
            loop {
                match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    Err(Errno::WOULDBLOCK) => sleep(Duration::from_millis(5)).await,
                    ended => return ended,
                }
            }
        };
        match timeout(LIMIT, wait).await {
            Ok(Ok(())) => Ok(Self { file }),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed("another process holds the lock".to_owned())),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // For those too that have inherited it. It cannot fail: the lock is held.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Moves this thread, and each that it starts from then on, into a named network namespace. To be called before there is
/// another thread.
///
/// # Errors
///
/// There is no such namespace, or the process has no `CAP_SYS_ADMIN`.
pub fn enter(namespace: &str) -> Result<(), String> {
    let path = format!("{NAMESPACES}/{namespace}");
    let file = File::open(&path)
        .map_err(|error| format!("there is no network namespace {namespace}: {path}: {error}"))?;
    let kind = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind)
        .map_err(|error| format!("cannot enter the network namespace {namespace}: {error}"))
}
