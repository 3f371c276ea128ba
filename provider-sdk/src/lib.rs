//! Write a cloud provider for Outrigger in Rust.
//!
//! A provider is a process beside Outrigger's controller that answers its questions about one
//! cloud. Implement [`Provider`] and a trait for each thing the cloud has, hand them to a
//! [`Server`], and let [`main`] run it:
//!
//! ```text
//!  controller ── gRPC over a Unix socket ──► Server ──► your Provider, Instances, LoadBalancers, Routes, Volumes
//!                                            socket, handshake, health, deadlines, panics,
//!                                            locks, targets, errors, logs, shutdown
//! ```
//!
//! The server has what every provider needs and none should write again; a vendor's code sees typed input and returns typed
//! results. Nothing here knows a cloud or talks to Kubernetes. The only state is a cache, the node set, which the
//! controller sends again after a restart. Answers are not checked here: the controller refuses illegal ones, and
//! `provider-conformance` finds them before.
//!
//! # The smallest provider
//!
#![cfg_attr(feature = "cli", doc = concat!("```no_run\n", include_str!("../examples/minimal.rs"), "\n```"))]
//!
//! # A provider with load balancers
//!
#![cfg_attr(feature = "cli", doc = concat!("```no_run\n", include_str!("../examples/load_balancers.rs"), "\n```"))]
//!
//! # A provider with routes
//!
#![cfg_attr(feature = "cli", doc = concat!("```no_run\n", include_str!("../examples/routes.rs"), "\n```"))]
//!
//! # Rules for every call
//!
//! - A lookup that answers [`Outcome::absent`] may delete a Node; see [`Instances`].
//! - The key of a load balancer is [`uid`](v1::Service::uid); see [`LoadBalancers`].
//! - The key of a route is [`destination_cidr`](v1::Route::destination_cidr); see [`Routes`].
//! - An error's constructor decides what the controller does next; see [`Error`].
//! - A handler whose caller goes away is not dropped between two changes; see [`Context`].
//! - All methods run on tokio, in a task for each call. A method that blocks its thread delays others.
//!
//! # Features
//!
//! | feature | default | addition |
//! |---|---|---|
//! | `cli` | yes | [`main`], [`main_with_args`], [`EndpointArgs`] and [`ProbeArgs`], made with clap |
//! | `logging` | yes | [`init_logging`], made with tracing-subscriber; [`main`] calls it |
//! | `tonic` | no | `Server::wrap`, whose types are tonic's |
//!
//! Without `cli` a provider calls [`Server::serve`] with [`Endpoint::from_env`], and [`probe`] for its probes.
//! The SDK logs through [tracing](https://docs.rs/tracing) whether or not `logging` is on.
//!
//! # Versions
//!
//! Requests and answers are the messages of the contract, in [`v1`], as prost makes them: a minor revision may add
//! fields, so end a literal with `..Default::default()`. tokio, futures' `Stream`, clap (with `cli`) and
//! [`CancellationToken`] of other crates are part of the surface too.

mod batcher;
mod context;
mod each;
mod error;
mod instances;
mod load_balancers;
#[cfg(feature = "logging")]
mod logging;
mod node_sets;
mod outcome;
mod probe;
mod provider;
mod routes;
#[cfg(feature = "cli")]
mod runner;
mod serve_error;
mod server;
mod signals;
mod sink;
mod socket;
mod volumes;

pub use batcher::Batcher;
pub use context::Context;
pub use error::{Error, ErrorReason};
pub use instances::*;
pub use load_balancers::*;
#[cfg(feature = "logging")]
pub use logging::init_logging;
pub use node_sets::Targets;
pub use outcome::{Outcome, WithEffects};
/// The messages of the contract, as documented in its `.proto` files.
pub use outrigger_api::v1;
pub use probe::{Probe, ProbeFailure, probe};
pub use provider::{Provider, ProviderInfo};
pub use routes::*;
#[cfg(feature = "cli")]
pub use runner::{EndpointArgs, ProbeArgs, main, main_with_args};
pub use serve_error::ServeError;
pub use server::Server;
pub use sink::Sink;
pub use socket::{Endpoint, InvalidEndpoint, Listener, SocketError};
/// Returned by [`Context::cancellation`], accepted by [`Context::detached`].
pub use tokio_util::sync::CancellationToken;
pub use volumes::*;

/// Any error that a vendor's start-up code may end with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The examples of the guide, compiled.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../README.md")]
struct Guide;
