//! A cloud of namespaces for one test.

use std::process::Command;

use outrigger_provider_linux::cloud::{Cloud, Machine, NewMachine};
use tokio::runtime::Runtime;

/// A cloud that goes with this value.
pub(crate) struct Rig {
    pub(crate) cloud: Cloud,
    pub(crate) runtime: Runtime,
}

impl Rig {
    /// A cloud without machines, not connected to the host. `None`, with the reason on stderr: this host cannot have one.
    pub(crate) fn new(name: &str) -> Option<Self> {
        if let Some(reason) = missing() {
            eprintln!("skipped: {reason}");
            return None;
        }
        let runtime = Runtime::new().unwrap();
        let cloud = Cloud::named(name).unwrap();
        runtime.block_on(cloud.down()).unwrap();
        let networks = [
            "10.77.0.0/16".parse().unwrap(),
            "fd00:77::/48".parse().unwrap(),
        ];
        runtime.block_on(cloud.up(&networks, None)).unwrap();
        Some(Self { cloud, runtime })
    }

    pub(crate) fn machine(&self, name: &str) -> Machine {
        let new = NewMachine {
            name: name.to_owned(),
            zone: "zone-a".to_owned(),
            kind: "small".to_owned(),
        };
        self.runtime.block_on(self.cloud.add(&new)).unwrap()
    }

    pub(crate) fn machines(&self) -> Vec<Machine> {
        self.runtime.block_on(self.cloud.machines()).unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.runtime.block_on(self.cloud.down()).unwrap();
    }
}

/// Why this host cannot have namespaces.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces need root".to_owned());
    }
    let is_missing = |program: &&&str| Command::new(program).arg("-V").output().is_err();
    let missing = ["ip", "nft", "conntrack"].iter().find(is_missing)?;
    Some(format!("{missing} is not installed"))
}

/// Runs a program in a namespace; its output, or its error.
pub(crate) fn inside(namespace: &str, command: &[&str]) -> Result<String, String> {
    let output = Command::new("ip")
        .args(["netns", "exec", namespace])
        .args(command)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}
