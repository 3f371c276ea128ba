//! One control plane for all tests of a process, since a start takes seconds.

use tokio::sync::OnceCell;

use crate::{ControlPlane, Options, Result};

static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();

/// The control plane that all tests of this process share, started by the first caller.
///
/// Each test uses its own namespace or name prefix. A test that kills the API
/// server, or whose nodes would disturb others, starts its own control plane.
///
/// Statics are never dropped; the control plane still ends with the process, see
/// [`ControlPlane`]. A runner with one process per test (nextest) starts one each.
pub async fn shared() -> Result<&'static ControlPlane> {
    SHARED
        .get_or_try_init(|| ControlPlane::start(Options::default()))
        .await
}
