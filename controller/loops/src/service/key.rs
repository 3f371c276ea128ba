//! Key of a Service in the queue and in the state of a lease term.

use std::{fmt, sync::Arc};

use outrigger_core::service::ServiceView;

/// One Service. A second one of the same name has a key of its own, so that the first is finished
/// beside it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Namespace and name.
    pub(super) name: Arc<str>,
    pub(super) uid: Arc<str>,
}

impl ServiceKey {
    pub(super) fn of(service: &ServiceView) -> Self {
        Self {
            name: Arc::clone(&service.key),
            uid: Arc::from(&*service.uid),
        }
    }

    /// Not after any key of the name.
    pub(super) fn first(name: &Arc<str>) -> Self {
        Self {
            name: Arc::clone(name),
            uid: Arc::default(),
        }
    }
}

impl fmt::Debug for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.uid)
    }
}
