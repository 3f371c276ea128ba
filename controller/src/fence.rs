//! Who may still change anything.

use std::sync::Arc;

/// Says whether this process may still change anything, in the cluster or in the cloud. Asked right before
/// each write and each changing call, since a process that was frozen may go on before anything has told
/// it that another one leads.
pub type Fence = Arc<dyn Fn() -> bool + Send + Sync>;
