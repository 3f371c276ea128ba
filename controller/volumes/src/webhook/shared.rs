//! Keeps the certificate that replicas share: reads it, makes and renews it, and has the API server trust it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use outrigger_core::error_class::ErrorClass;
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{certificate, configuration::Registration, secret::Stored};
use outrigger_kubernetes::{api::Api, error::ApiError};
use outrigger_server::{Certificates, Pem, TlsError};

/// Secret and configuration are read in this period.
const PERIOD: Duration = Duration::from_secs(10);

/// A write that another replica was faster with is decided again after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// So often in a row another client changes the CAs before there is a warning.
const REWRITTEN: u32 = 3;

/// So often in a row: more is no race, but a client that writes all the time.
const RACES: u32 = 5;

/// Inputs of [`SharedCertificate`].
pub struct SharedParts {
    /// Requests for the Secret and the configuration.
    pub api: Api,
    /// The certificates of the webhook server.
    pub certificates: Arc<Certificates>,
    /// The configuration that names the CA.
    pub registration: Registration,
}

/// The certificate of all replicas, on every replica.
pub struct SharedCertificate {
    parts: SharedParts,
    names: Vec<String>,
    served: Mutex<Result<Pem, String>>,
    /// The next certificate about which there was a warning, since nothing shows that it is trusted.
    warned: Mutex<Option<Pem>>,
    /// How often in a row the CAs had to be written.
    rewritten: AtomicU32,
}

#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(
        "there is no Secret {0}: make it, empty, as docs/rbac.md has it; the controller fills it"
    )]
    NoSecret(String),
    #[error("no key can be made: {0}")]
    Key(#[from] rcgen::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl SharedCertificate {
    /// Nothing is read yet.
    pub fn new(parts: SharedParts) -> Arc<Self> {
        let address = &parts.registration.address;
        let mut names = vec![format!("{}.{}.svc", address.name, address.namespace)];
        names.extend(address.url.as_ref().map(|(_, host)| host.clone()));
        Arc::new(Self {
            parts,
            names,
            served: Mutex::new(Err("the Secret was not read yet".to_owned())),
            warned: Mutex::default(),
            rewritten: AtomicU32::new(0),
        })
    }

    /// Ok once a certificate is served.
    ///
    /// # Errors
    /// Why none is.
    pub fn check(&self) -> Result<(), String> {
        let served = self.served.lock();
        served.as_ref().map(drop).map_err(Clone::clone)
    }

    /// Keeps it until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let keep = async {
            let mut last = None;
            let mut races = 0;
            loop {
                let pause = match self.pass(Timestamp::now()).await {
                    Ok(()) => {
                        (last, races) = (None, 0);
                        PERIOD
                    }
                    // Another client has changed the Secret or the configuration.
                    Err(PassError::Api(error))
                        if error.class() == ErrorClass::Conflict && races < RACES =>
                    {
                        races += 1;
                        AGAIN
                    }
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
        let stored = Stored::read(api, &registration.address).await;
        let stored = stored.map_err(|error| {
            if error.is_not_found() {
                PassError::NoSecret(self.secret())
            } else {
                error.into()
            }
        })?;
        let mut contents = stored.contents();
        if let Some(contents) = &contents {
            // A certificate that cannot be used is replaced below.
            if let Err(error) = self.serve(&contents.current) {
                warn!(%error, "certificate of the Secret cannot be served");
            }
        }
        let trusted = match &registered {
            Ok(Some(registered)) => registered.bundle(registration),
            Ok(None) | Err(_) => None,
        };
        let planned = certificate::plan(contents.as_ref(), &self.names, trusted.as_deref(), now)?;
        if let Some(planned) = planned {
            stored.write(api, &registration.address, &planned).await?;
            info!(
                secret = self.secret(),
                has_next = planned.next.is_some(),
                "certificate of the webhooks written"
            );
            contents = Some(planned);
        }
        let Some(contents) = &contents else {
            return Ok(());
        };
        if trusted.is_none()
            && registered.is_ok()
            && let Some(next) = &contents.next
        {
            self.warn_unseen(next, &contents.current);
        }
        let trust = async { registration.trust(api, registered?, &contents.bundle).await };
        let written = trust.await;
        // A certificate of a new CA is served after that, but also without it.
        self.serve(&contents.current)?;
        if !written? {
            self.rewritten.store(0, Ordering::Relaxed);
            return Ok(());
        }
        let configuration = &registration.address.name;
        info!(configuration, "CAs of the webhooks written");
        if self.rewritten.fetch_add(1, Ordering::Relaxed) + 1 == REWRITTEN {
            warn!(
                configuration,
                "CAs of the webhooks are changed by another client each time, such as cert-manager's cainjector, and \
                 requests fail in between: remove its annotation, or give the controller its certificate"
            );
        }
        Ok(())
    }

    /// Once for each certificate.
    fn warn_unseen(&self, next: &Pem, current: &Pem) {
        let mut warned = self.warned.lock();
        if warned.as_ref() != Some(next) {
            *warned = Some(next.clone());
            let until = certificate::end(current).map(|end| end.to_string());
            warn!(
                secret = self.secret(),
                until,
                "the next certificate of the webhooks is served when the present one expires, since it cannot be seen \
                 whether the API server trusts its CA: copy ca.crt of the Secret into caBundle of the webhook's \
                 configuration before that"
            );
        }
    }

    fn secret(&self) -> String {
        let address = &self.parts.registration.address;
        format!("{}/{}", address.namespace, address.name)
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
