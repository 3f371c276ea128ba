//! The adapter against a scripted provider, over pipes, on the paused clock.

mod alone;
mod balancer_trouble;
mod calls;
mod connecting;
mod dump;
mod fuzz;
mod hanging;
mod heartbeats;
mod identity;
mod instances;
mod lists;
mod load_balancers;
mod lookups;
mod node_sets;
mod preconditions;
mod reports;
pub(super) mod rig;
mod route_calls;
mod route_lists;
mod route_results;
mod seen;
mod skew;
mod split_batches;
mod untrusted;
mod updates;
mod urgency;
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
