use outrigger_api::v1;

use crate::setters::setters;

/// How routes are written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoutesCapability {
    /// Routes in one batch, 1 to 500. Default 100.
    pub max_batch_size: u32,
    /// Batches at one time, creations and deletions together, at most 64; 0 leaves it to the
    /// controller (4). The server keeps to it too: beyond the end of a call whose caller went away. With
    /// 1 here and at [`concurrency`](Self::concurrency), routes are changed one at a time.
    pub max_in_flight: u32,
    /// Routes of one batch that are worked on at a time. Not sent; a provider with its own
    /// [`create_routes`](crate::Routes::create_routes) and
    /// [`delete_routes`](crate::Routes::delete_routes) ignores it. Default 8; 0 is 1.
    pub concurrency: usize,
}

impl Default for RoutesCapability {
    fn default() -> Self {
        Self {
            max_batch_size: 100,
            max_in_flight: 0,
            concurrency: 8,
        }
    }
}

impl RoutesCapability {
    pub(crate) fn to_wire(&self) -> v1::RoutesCapability {
        v1::RoutesCapability {
            max_batch_size: self.max_batch_size,
            max_in_flight: self.max_in_flight,
        }
    }
}

setters! { plain RoutesCapability {
    with_max_batch_size => max_batch_size: u32,
    with_max_in_flight => max_in_flight: u32,
    with_concurrency => concurrency: usize,
} }
