//! A real etcd and kube-apiserver for tests, measurements and the demo.
//!
//! ```text
//!  test / bench / demo ──► ControlPlane ──► kube-apiserver ──► etcd
//!          │                    ▲            (built from their Go modules)
//!          └──► FaultProxy ─────┘
//! ```
//!
//! No API server is imitated here: a controller is tested against the program that it will meet. Faults that a healthy API
//! server does not show on demand (410, 429, cut watches, silence) come from a proxy in front of it.
//!
//! - [`binaries`] finds or builds the programs,
//! - [`ControlPlane`] runs them, [`shared()`] runs one for all tests of a process,
//! - [`nodes`] registers nodes as kubelets do,
//! - [`services`] makes Services and measures how long they wait for their addresses,
//! - [`provider_check`] runs a provider in any language behind the controller,
//! - [`pair`] is a provider with the controller in front of it, [`check`] the steps of a check of both,
//! - [`providers`] builds and starts the providers of this repository,
//! - [`process`] starts components, [`signals`] catches the signals that would kill their owner,
//! - [`faults`] stands in front of the API server,
//! - [`wire`] sends single requests, for load generators,
//! - [`prometheus`] reads a scrape as Prometheus does,
//! - [`cli`] has the commands, [`demo`] is `cargo demo`.
//!
//! No process outlives its owner, even one that is killed: see [`ControlPlane`]. A wait for a component or an object has a
//! time limit, and its error names the component or the object, its last state, and the end of the log. Nothing here knows
//! the controller's code: to the testbed it is a program with flags.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Node;
//! use kube::Api;
//! use outrigger_testbed::{
//!     ControlPlane, Options,
//!     faults::{Fault, FaultProxy, Rule},
//!     nodes::{self, Machine},
//! };
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let plane = ControlPlane::start(Options::default()).await?;
//! nodes::register(&plane.client()?, &Machine::new("node-1")).await?;
//!
//! // A controller that is started with this kubeconfig has its first write refused.
//! let proxy = FaultProxy::start_as(&plane, "controller", None).await?;
//! let refused = proxy.inject(Rule::new(Fault::conflict()).writes().times(1));
//! println!("--kubeconfig={}", proxy.kubeconfig().display());
//!
//! let node = Api::<Node>::all(plane.client()?).get("node-1").await?;
//! println!("{:?}, refused: {}", node.spec, refused.hits());
//! plane.stop().await?;
//! # Ok(())
//! # }
//! ```

pub mod binaries;
pub mod check;
pub mod cli;
mod control_plane;
mod creation;
pub mod demo;
mod error;
pub mod faults;
mod follow;
mod identity;
pub mod nodes;
pub mod pair;
pub mod process;
pub mod prometheus;
pub mod provider_check;
pub mod providers;
pub mod services;
mod shared;
pub mod signals;
pub mod wire;

pub use check::Passed;
pub use control_plane::{ControlPlane, MASTERS, Options};
pub use error::Error;
pub use shared::shared;

/// The results of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
