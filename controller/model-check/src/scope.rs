//! How many faults of each kind a search combines.

/// The faults and the edits of users that may still come.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Scope {
    /// A process dies; another begins in its place, with nothing in memory.
    pub crashes: u8,
    /// The answer to a call or to a write is lost, or the request.
    pub lost_answers: u8,
    /// An answer of the cloud or of the API server is from before.
    pub stale_reads: u8,
    /// A user, an operator or the cloud changes something.
    pub edits: u8,
    /// Another replica leads.
    pub leader_changes: u8,
    /// A write of an earlier term of service-lb arrives, or is shown by the store, after the next term has begun.
    pub late_writes: u8,
}

impl Scope {
    /// So many of each kind, and no [late write](Self::late_writes).
    pub const fn of_each(faults: u8) -> Self {
        Self {
            crashes: faults,
            lost_answers: faults,
            stale_reads: faults,
            edits: faults,
            leader_changes: faults,
            late_writes: 0,
        }
    }

    /// No fault, and no user changes anything.
    pub(crate) const NONE: Self = Self::of_each(0);
}
