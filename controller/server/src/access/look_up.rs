//! CAs that only the cluster knows: asked for at the start, and again and again (AUTH-2).

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Access, AccessError, anchors::RereadError};

/// The CAs are read again after so long; upstream watches them, which a rotation of CAs, where old
/// and new overlap for days, does not need.
const REREAD: Duration = Duration::from_mins(1);

/// The same, as long as they were never read.
const RETRY: Duration = Duration::from_secs(5);

/// How often a failure to reach the API server is logged: once a minute.
const REMIND: u32 = 12;

/// Whether the CAs of the cluster are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaState {
    /// Not read yet.
    Pending,
    /// They could not be read, and requests are answered without them.
    Missing,
    /// They were read, or the flags name them all.
    Loaded,
}

impl Access {
    /// Reads the CAs from the cluster for the first time; from then on requests are decided about.
    /// Waits for an API server that is not there yet, unless a failure is tolerated.
    ///
    /// # Errors
    /// CAs that cannot be read from the cluster, unless `--authentication-tolerate-lookup-failure`.
    pub async fn look_up(&self) -> Result<(), AccessError> {
        let mut tries = 0_u32;
        let cas = loop {
            match self.anchors.reread().await {
                Ok(()) => break CaState::Loaded,
                Err(error) if self.tolerant => {
                    warn!(%error, "Error looking up in-cluster authentication configuration");
                    warn!(
                        "Continuing without authentication configuration. This may treat all \
                         requests as anonymous."
                    );
                    break CaState::Missing;
                }
                Err(RereadError::Useless(error)) => return Err(error),
                Err(RereadError::Away(error)) => {
                    if tries.is_multiple_of(REMIND) {
                        warn!(
                            %error,
                            "CAs of clients cannot be read; trying again until the API server answers (check \
                             --authentication-kubeconfig)"
                        );
                    }
                    tries += 1;
                }
            }
            sleep(RETRY).await;
        };
        self.cas.send_replace(cas);
        Ok(())
    }

    /// Reads the CAs again, from the first time on until `stop`. Runs beside the server.
    pub(crate) async fn keep_fresh(&self, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            let mut cas = self.cas.subscribe();
            // The sender lives in self.
            let _ = cas.wait_for(|now| *now != CaState::Pending).await;
            loop {
                let loaded = *self.cas.borrow() == CaState::Loaded;
                sleep(if loaded { REREAD } else { RETRY }).await;
                match self.anchors.reread().await {
                    Ok(()) => {
                        self.cas.send_replace(CaState::Loaded);
                    }
                    Err(error) if loaded => {
                        warn!(%error, "CAs of clients cannot be read again and stay as they are");
                    }
                    // Said once, when it was tolerated.
                    Err(_) => {}
                }
            }
        })
        .await;
    }
}
