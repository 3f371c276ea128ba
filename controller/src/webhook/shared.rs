//! Keeps the certificate that replicas share: reads it, makes and renews it, and has the API server trust it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    certificate::{self, Contents},
    configuration::Registration,
    secret::Stored,
};
use crate::{
    kube::{api::Api, error::ApiError},
    serving::{Certificates, Pem, TlsError},
};

/// Secret and configuration are read in this period.
const PERIOD: Duration = Duration::from_secs(10);

/// A write that another replica was faster with is decided again after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// Inputs of [`SharedCertificate`].
pub(crate) struct SharedParts {
    pub(crate) api: Api,
    /// Of the server.
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) registration: Registration,
}

/// The certificate of all replicas, on every replica.
pub(crate) struct SharedCertificate {
    parts: SharedParts,
    names: Vec<String>,
    served: Mutex<Result<Pem, String>>,
}

#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("no key can be made: {0}")]
    Key(#[from] rcgen::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl SharedCertificate {
    /// Nothing is read yet.
    pub(crate) fn new(parts: SharedParts) -> Arc<Self> {
        let address = &parts.registration.address;
        let mut names = vec![format!("{}.{}.svc", address.name, address.namespace)];
        names.extend(address.url.as_ref().map(|(_, host)| host.clone()));
        Arc::new(Self {
            parts,
            names,
            served: Mutex::new(Err("the Secret was not read yet".to_owned())),
        })
    }

    /// Ok once a certificate is served.
    ///
    /// # Errors
    /// Why none is.
    pub(crate) fn check(&self) -> Result<(), String> {
        let served = self.served.lock();
        served.as_ref().map(drop).map_err(Clone::clone)
    }

    /// Keeps it until `stop`.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let keep = async {
            let mut last = None;
            loop {
                let pause = match self.pass(Timestamp::now()).await {
                    Ok(()) => {
                        last = None;
                        PERIOD
                    }
                    // 422: another client has changed the configuration.
                    Err(PassError::Api(error)) if matches!(error.code(), Some(409 | 422)) => AGAIN,
                    Err(error) => {
                        let error = error.to_string();
                        if last.as_ref() != Some(&error) {
                            warn!(error, "certificate of the webhooks cannot be kept");
                        }
                        let mut served = self.served.lock();
                        if served.is_err() {
                            *served = Err(error.clone());
                        }
                        last = Some(error);
                        PERIOD
                    }
                };
                sleep(pause).await;
            }
        };
        stop.run_until_cancelled(keep).await;
    }

    /// The configuration is read before the Secret: a bundle that is older than the one in it is never
    /// written.
    async fn pass(&self, now: Timestamp) -> Result<(), PassError> {
        let SharedParts {
            api, registration, ..
        } = &self.parts;
        // A certificate is served without it, too.
        let registered = registration.read(api).await;
        let stored = Stored::read(api, &registration.address).await?;
        let mut contents = stored.contents();
        if let Some(contents) = &contents {
            // One that cannot be used is replaced below.
            if let Err(error) = self.serve(&contents.current) {
                warn!(%error, "certificate of the Secret cannot be served");
            }
        }
        let bundle = contents.as_ref().map_or("", |contents| &contents.bundle);
        let trusts = match &registered {
            Ok(Some(registered)) => Some(registered.trusts(registration, bundle)),
            Ok(None) => None,
            Err(_) => Some(false),
        };
        if let Some(planned) = certificate::plan(contents.as_ref(), &self.names, trusts, now)? {
            stored.write(api, &registration.address, &planned).await?;
            info!(
                secret = format!(
                    "{}/{}",
                    registration.address.namespace, registration.address.name
                ),
                has_next = planned.next.is_some(),
                "certificate of the webhooks written"
            );
            self.serve(&planned.current)?;
            contents = Some(planned);
        }
        if let Some(Contents { bundle, .. }) = &contents
            && registration.trust(api, registered?, bundle).await?
        {
            info!(
                configuration = registration.address.name,
                "CAs of the webhooks written"
            );
        }
        Ok(())
    }

    fn serve(&self, pem: &Pem) -> Result<(), TlsError> {
        let mut served = self.served.lock();
        if served.as_ref().ok() != Some(pem) {
            self.parts.certificates.set(pem)?;
            *served = Ok(pem.clone());
            info!("certificate of the webhooks is served");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
