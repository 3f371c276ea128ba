//! The conditions of a Service that show the state of its load balancer; usable with
//! `kubectl wait`, removed with the finalizer.

/// Whether the provider accepted the Service: `False` for one that it does not manage or that is
/// wrong in itself.
pub const ACCEPTED: &str = "outrigger.dev/Accepted";

/// Whether the load balancer is what the Service wants, and ready.
pub const PROVISIONED: &str = "outrigger.dev/Provisioned";

/// Whether the load balancer has the current targets. `False` only after some time of failure.
pub const TARGETS_IN_STEP: &str = "outrigger.dev/TargetsInStep";

/// `True` as long as nothing is done for the Service though it wants something; the reason says why,
/// the message what to do. Removed with the wait.
pub const WAITING: &str = "outrigger.dev/Waiting";

/// All of ours.
pub const OURS: [&str; 4] = [ACCEPTED, PROVISIONED, TARGETS_IN_STEP, WAITING];
