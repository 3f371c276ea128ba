//! CAs in one file, for a server that only their clients may use.

use std::{path::PathBuf, time::Duration};

use parking_lot::RwLock;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    AccessError,
    anchors::{Verifier, file, verified},
};
use crate::server::Peer;

/// The file is read again in this period.
const REREAD: Duration = Duration::from_mins(1);

/// The CAs of a flag's file.
pub struct ClientCa {
    flag: &'static str,
    path: PathBuf,
    verifier: RwLock<Verifier>,
}

impl ClientCa {
    /// Reads the file.
    pub fn read(flag: &'static str, path: PathBuf) -> Result<Self, AccessError> {
        let verifier = RwLock::new(file(flag, &path)?);
        Ok(Self {
            flag,
            path,
            verifier,
        })
    }

    /// Ok if a CA of the file has signed the certificate of `peer`.
    ///
    /// # Errors
    /// A sentence for the client.
    pub fn check(&self, peer: &Peer) -> Result<(), String> {
        if peer.certificates.is_empty() {
            return Err(format!("a client certificate is required: {}", self.flag));
        }
        let verifier = self.verifier.read().clone();
        verified(&verifier, &peer.certificates).map(drop)
    }

    /// Follows the file until `stop`; one that cannot be read leaves the former CAs in use.
    pub async fn keep_fresh(&self, stop: CancellationToken) {
        while stop.run_until_cancelled(sleep(REREAD)).await.is_some() {
            match file(self.flag, &self.path) {
                Ok(verifier) => *self.verifier.write() = verifier,
                Err(error) => warn!(%error, "CAs of clients stay the former"),
            }
        }
    }
}
