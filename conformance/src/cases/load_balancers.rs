//! `LoadBalancersService`.

mod lifecycle;
mod options;
mod queries;
mod refusals;
mod rules;
mod targets;

use crate::case::Check;

/// A class that no provider declares.
const NOT_SERVED: &str = "conformance.example/not-served";

pub(super) fn checks() -> Vec<Check> {
    [
        queries::checks(),
        lifecycle::checks(),
        targets::checks(),
        refusals::checks(),
        options::checks(),
        rules::checks(),
    ]
    .concat()
}
