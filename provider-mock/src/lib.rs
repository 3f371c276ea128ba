//! A whole fake cloud behind Outrigger's contract, to play with and to test against.
//!
//! ```text
//!   controller ── gRPC ──► faulty ──────► MockProvider ──► Cloud: instances, load balancers, routes,
//!                          errors, hangs,  a correct         ▲      what a call costs
//!                          bad answers     provider          │ create, stop, delete, faults, counters
//!   provider-mock ctl ── HTTP and JSON ──► control ──────────┘
//! ```
//!
//! The binary `provider-mock` serves it on a socket; tests build a [`Cloud`], hand it to
//! [`MockProvider`], serve what [`MockProvider::into_server`] makes of it in-process, and script what
//! goes wrong with [`Cloud::inject`].

#[macro_use]
mod choice;
pub mod cidr;
pub mod cloud;
pub mod connections;
pub mod control;
#[cfg(feature = "defects")]
pub mod defects;
pub mod duration;
pub mod faults;
pub mod instances;
pub mod journal;
pub mod load_balancers;
pub mod routes;
pub mod state;
pub mod volumes;

mod exchange;
mod faulty;
mod message;
mod provider;

pub use cloud::{Cloud, CloudConfig};
pub use provider::{
    ListedTarget, MockProvider, ProviderOptions, Respelled, ServedLoadBalancers, ServedRoutes,
    ServedVolumes,
};
