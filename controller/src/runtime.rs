//! The runtime of the process.

use std::{future::Future, io};

use tokio::runtime::Runtime;

/// Runs `work` to its end on a runtime of its own. Blocking work that it leaves behind does not delay
/// the return: a name that no DNS server resolves keeps a thread in `getaddrinfo` for many seconds.
///
/// # Errors
/// If no runtime can be made: out of threads or file descriptors.
pub fn run_to_end<F: Future>(work: F) -> io::Result<F::Output> {
    let runtime = Runtime::new()?;
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn blocking_work_that_is_left_behind_does_not_delay_the_end() {
        let (release, released) = mpsc::channel::<()>();
        let ended = run_to_end(async {
            drop(tokio::task::spawn_blocking(move || {
                let _ = released.recv_timeout(Duration::from_secs(20));
            }));
            7
        });
        assert_eq!(ended.unwrap(), 7);
        assert!(release.send(()).is_ok(), "the blocking work was waited for");
    }
}
