use outrigger_api::v1;

use crate::setters::setters;

/// How routes are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoutesCapability {
    /// Routes that are changed at one time, creations and deletions together, at most 256; 0 leaves it to
    /// the controller (16). The server keeps to it too: beyond the end of a call whose caller went away.
    pub max_in_flight: u32,
}

impl RoutesCapability {
    pub(crate) fn to_wire(&self) -> v1::RoutesCapability {
        v1::RoutesCapability {
            max_in_flight: self.max_in_flight,
        }
    }
}

setters! { plain RoutesCapability {
    with_max_in_flight => max_in_flight: u32,
} }
