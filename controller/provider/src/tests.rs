//! The adapter against a scripted provider, over pipes, on the paused clock.

mod batches;
mod calls;
mod connecting;
mod heartbeats;
mod identity;
mod instances;
mod load_balancers;
mod lookups;
mod more_load_balancers;
mod node_sets;
mod operators;
mod preconditions;
pub(super) mod rig;
mod routes;
mod skew;
mod untrusted;
mod volumes;

use crate::fixture as fake;
use std::time::Duration;

use super::{DownCause, ProviderState};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn is_down(cause: DownCause) -> impl Fn(&ProviderState) -> bool {
    move |state| state.cause() == Some(cause)
}
