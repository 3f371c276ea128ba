//! All cases, one file for each area. To add one: an entry in `cases()` of its area, and its check below.

mod errors;
mod handshake;
mod instances;
mod lists;
mod load_balancers;
mod node_sets;
mod resilience;
mod routes;
mod transport;
mod volumes;

pub use crate::case::Case;

/// All cases, in the order in which they are run. Cases that judge the whole run come last.
pub fn all() -> Vec<Case> {
    [
        transport::cases(),
        handshake::cases(),
        instances::cases(),
        load_balancers::cases(),
        node_sets::cases(),
        routes::cases(),
        volumes::cases(),
        resilience::cases(),
        load_balancers::of_the_run(),
        resilience::of_the_run(),
        errors::cases(),
    ]
    .concat()
}
