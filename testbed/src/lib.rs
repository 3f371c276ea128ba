//! A real etcd and kube-apiserver for tests, measurements and the demo.
//!
//! ```text
//!  test / bench / demo ──► ControlPlane ──► kube-apiserver ──► etcd
//!          │                    ▲            (built from their Go modules)
//!          └──► FaultProxy ─────┘
//! ```
//!
//! No API server is imitated here: a controller is tested against the program that it will meet.
//! Faults that a healthy API server does not show on demand (410, 429, cut watches, silence) come
//! from a proxy in front of it.
//!
//! - [`binaries`] finds or builds the programs,
//! - [`ControlPlane`] runs them, [`shared()`] runs one for all tests of a process,
//! - [`RealNode`] is a machine with containerd and a kubelet, [`pod_check`] runs controller and provider on it as a Pod,
//! - [`RealCluster`] is several of them in a cloud of network namespaces,
//! - [`nodes`] registers nodes as kubelets do, [`floor`] measures the writes alone,
//! - [`services`] makes Services and measures how long they wait for their addresses,
//! - [`provider_check`] runs a provider in any language behind the controller,
//! - [`faults`] stands in front of the API server,
//! - [`prometheus`] reads a scrape as Prometheus does,
//! - [`demo`] is `cargo demo`.
//!
//! No process outlives its owner, even one that is killed: see [`ControlPlane`].

pub mod binaries;
mod calls;
mod check;
pub mod cli;
mod control_plane;
mod creation;
pub mod dead_way;
pub mod demo;
mod error;
pub mod faults;
pub mod floor;
mod follow;
mod identity;
mod incident;
pub mod nodes;
mod pair;
pub mod pod_check;
mod process;
pub mod prometheus;
pub mod provider_check;
pub mod providers;
mod real_cluster;
mod real_node;
mod script;
pub mod services;
mod shared;
mod signals;
mod sweep;
mod wire;

pub use check::Passed;
pub use control_plane::{ControlPlane, Options};
pub use error::Error;
pub use real_cluster::RealCluster;
pub use real_node::{Network, RealNode};
pub use shared::shared;

/// The results of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles or does not: callers put these on task sets.
    #[expect(dead_code, reason = "it is compiled, never run")]
    fn futures_can_be_spawned(plane: &ControlPlane, client: &kube::Client) {
        fn spawn(_: impl Future<Output: Send> + Send) {}
        spawn(shared());
        spawn(ControlPlane::start(Options::default()));
        spawn(plane.kill_apiserver());
        spawn(plane.start_apiserver());
        spawn(faults::FaultProxy::start(plane));
        let machines = nodes::Machine::numbered("n", 1);
        spawn(nodes::register_all(
            client,
            machines,
            nodes::Load::default(),
            |_| {},
        ));
        let writes = (floor::Writes::Ready, floor::Form::default());
        spawn(floor::measure(client, "n", 1, writes, |_| {}));
    }
}
