//! Who a process is to the others.

use uuid::Uuid;

/// `<hostname>_<random UUID>` (PROC-20), new at every call: a process asks once.
pub fn identity() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("{host}_{}", Uuid::new_v4())
}
