//! The limit of open files of this process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, as Go does at the start of each program: the soft one is 1,024 where
/// systemd starts the container runtime, for programs that call select(2), and this one does not. Returns what it
/// is then; none: no limit.
///
/// # Errors
/// If the kernel does not take it: the limit stays as it was.
pub fn raise_limit() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(limit.maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let before = getrlimit(Resource::Nofile);
        let low = Rlimit {
            current: Some(before.maximum.map_or(4096, |most| most.min(4096) - 1)),
            maximum: before.maximum,
        };
        setrlimit(Resource::Nofile, low).unwrap();
        assert_eq!(raise_limit().unwrap(), before.maximum);
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
    }
}
