//! `LoadBalancersService`.

mod lifecycle;
mod queries;
mod refusals;
mod rules;
mod targets;

use crate::case::Case;

const FILE: &str = "load_balancers.proto";

/// A class that no provider declares.
const NOT_SERVED: &str = "conformance.example/not-served";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = queries::cases();
    cases.extend(lifecycle::cases());
    cases.extend(targets::cases());
    cases.extend(refusals::cases());
    cases
}

/// Cases that judge all answers of the run.
pub(super) fn of_the_run() -> Vec<Case> {
    rules::cases()
}
