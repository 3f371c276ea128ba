//! The identity of a process among the replicas.

use uuid::Uuid;

/// `<hostname>_<random UUID>` (PROC-20), new at every call: a process asks once.
pub fn identity() -> String {
    format!("{}_{}", host(), Uuid::new_v4())
}

/// The name of the host: in a Pod without the host's network the Pod's own name.
pub fn host() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}
