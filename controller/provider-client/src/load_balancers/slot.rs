//! The right to begin one call about load balancers.

use std::sync::Arc;

use crate::{Session, admission::Permit};

/// The right to begin one call that changes load balancers. The call is to be made at once: others wait for it.
#[derive(Debug)]
pub struct Slot {
    pub(crate) permit: Permit,
    pub(crate) session: Arc<Session>,
}
