//! Holds a provider, in any language, against the contract `cloudprovider.v1`: plays the controller on its
//! socket, without a cluster.
//!
//! ```text
//!   cases ── check ──► Subject ──► Client ── gRPC ──► provider under test
//!     │                   │           └► Ledger: every error, effect and answer of the run
//!     │                   └► Leftovers: what the run made, deleted after each case
//!     └► run ──► Report: text, `JUnit` XML
//! ```
//!
//! A case is one entry in a table of `cases/`: id, level, clause of the contract, and a check.

pub mod call_error;
pub mod capability;
pub mod case;
pub mod cases;
pub mod cli;
pub mod client;
pub mod explore;
pub mod inputs;
pub mod project;
pub mod report;
pub mod run;
pub mod subject;
pub mod verdict;
pub mod waivers;

mod commands;
mod connection;
mod labels;
mod ledger;
mod leftovers;
mod log;
mod needs;
