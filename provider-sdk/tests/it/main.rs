//! A provider on this SDK, seen from the other end of the wire.

// clippy knows tests, but not what they are made of.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod calls;
mod handshake;
mod harness;
mod health;
mod list;
mod load_balancers;
mod lookups;
mod process;
mod raw;
mod routes;
mod sockets;
mod vectors;
