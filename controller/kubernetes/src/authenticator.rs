//! The identity of a client at the API server: a kubeconfig's user, the Pod's service account, or that of a controller.
//!
//! An [`Authenticator`] serves all clients of a user, so that a credential plugin runs once for all of
//! them. A credential is used, as in client-go, until it expires or the API server refuses it
//! (401). The kubeconfig and the files with tokens, certificates and keys are read again, so that a Secret that is
//! mounted as one may change. A certificate that changed begins a new generation: connections with the former certificate
//! are not used any more.
//!
//! kube's own authentication does less: it reads a client certificate once, whether from a file or from a plugin, gives
//! a plugin no time limit, even where it runs on the caller's thread, asks for a credential again only when it expires,
//! not after a 401, and runs the plugin once for each client.

mod exec;
mod files;
pub(super) mod material;
pub(super) mod metrics;
mod tls;

use std::{collections::HashMap, sync::Arc, time::Duration};

use http::HeaderValue;
use jiff::Timestamp;
use kube::config::AuthInfo;
use parking_lot::{Mutex, RwLock};
use rustls::{client::ResolvesClientCert, sign::CertifiedKey};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use self::material::Material;
pub(super) use self::material::basic;
use self::{exec::Plugin, files::Files, metrics::ExecMetrics, tls::Presented};
use super::{
    api::Api,
    certificate::validity,
    kubeconfig::Kubeconfig,
    service_account::{Account, NoToken},
};
use outrigger_runtime::telemetry::Repeats;

/// A plugin's credential is replaced so long before it expires, or a tenth of its life before.
const EARLY: Duration = Duration::from_secs(10);

/// Shortest pause between two runs of a plugin, two requests for a token, or two reads after a 401.
const PAUSE: Duration = Duration::from_secs(5);

/// Files are looked at again after so long.
const FILES: Duration = Duration::from_secs(10);

/// No credential can be had.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no credential for the API server: {0}")]
pub(super) struct NoCredential(String);

/// Credential of one request.
#[derive(Clone, Default)]
pub(super) struct Credential {
    /// Value of `Authorization`.
    pub(super) header: Option<HeaderValue>,
    /// Counts client certificates; a connection is good for requests of its generation.
    pub(super) generation: u64,
    /// Counts credentials: one that was refused is another than its successor.
    serial: u64,
}

/// The authenticators of a process, so that clients with the same plugin share its credential. Clones
/// are the same set.
#[derive(Clone, Default)]
pub struct Authenticators {
    plugins: Arc<Mutex<HashMap<String, Authenticator>>>,
    metrics: ExecMetrics,
}

impl Authenticators {
    /// Absent yet; plugins are counted in `metrics`.
    pub fn new(metrics: &super::metrics::ClientMetrics) -> Self {
        Self {
            plugins: Arc::default(),
            metrics: metrics.exec.clone(),
        }
    }

    /// The authenticator of `user`, of this kubeconfig if it is of one. Reads files, runs no plugin.
    ///
    /// # Errors
    /// A file or an entry that cannot be used, as a sentence.
    pub(super) fn of(
        &self,
        user: &AuthInfo,
        kubeconfig: Option<Kubeconfig>,
    ) -> Result<Authenticator, String> {
        let files = Files::of(user)?;
        let Some(exec) = files.exec(user) else {
            return Authenticator::from_files(files.in_kubeconfig(kubeconfig));
        };
        let key = exec::key(exec, &files);
        let mut plugins = self.plugins.lock();
        if let Some(authenticator) = plugins.get(&key) {
            return Ok(authenticator.clone());
        }
        let plugin = Plugin::new(exec, self.metrics.clone())?;
        let made = Authenticator::new(Source::Plugin(Box::new(plugin), files), None);
        plugins.insert(key, made.clone());
        Ok(made)
    }
}

/// Yields the credential of the moment. Clones share it.
#[derive(Clone)]
pub struct Authenticator(Arc<Shared>);

struct Shared {
    source: Source,
    state: RwLock<CredentialState>,
    presented: Arc<Presented>,
    /// Held by the one task that reads the source.
    turn: Arc<tokio::sync::Mutex<()>>,
    failures: Repeats,
    refusals: Repeats,
}

enum Source {
    Files(Files),
    /// A plugin, and the certificate that the files hold beside it.
    Plugin(Box<Plugin>, Files),
    /// A service account's tokens.
    Account(Account),
}

#[derive(Default)]
struct CredentialState {
    /// Absent until the source yielded one.
    credential: Option<Credential>,
    /// To be replaced from then on; it is good all the same.
    refresh_at: Option<Instant>,
    /// Not good from then on.
    ends_at: Option<Instant>,
    /// The source is left alone until then.
    not_before: Option<Instant>,
    /// The API server refused it.
    refused: bool,
    /// Why the source yielded nothing the last time.
    failure: Option<NoCredential>,
}

/// Action needed before a credential can be used.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// It is good, and to be replaced meanwhile.
    Soon,
    /// There is none that is good.
    Now,
}

impl CredentialState {
    fn due(&self, now: Instant) -> Due {
        let past = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        if self.not_before.is_some_and(|time| now < time) {
            return Due::Nothing;
        }
        if self.credential.is_none() || self.refused || past(self.ends_at) {
            return Due::Now;
        }
        if past(self.refresh_at) {
            return Due::Soon;
        }
        Due::Nothing
    }

    fn answer(&self, now: Instant) -> Result<Credential, NoCredential> {
        let ended = self.ends_at.is_some_and(|time| time <= now);
        match (&self.credential, &self.failure) {
            (None, None) => Err(NoCredential("the plugin has not answered yet".into())),
            (None, Some(failure)) => Err(failure.clone()),
            (Some(_), Some(failure)) if ended => Err(failure.clone()),
            (Some(credential), _) => Ok(credential.clone()),
        }
    }
}

impl Authenticator {
    fn from_files(files: Files) -> Result<Self, String> {
        let material = files.read()?;
        Ok(Self::new(Source::Files(files), Some(material)))
    }

    /// The identity of the service account `name`, which is made if there is none, at the API server of `api`.
    ///
    /// # Errors
    /// The last failure to get its first token.
    pub async fn of_service_account(api: Api, name: &'static str) -> Result<Self, NoToken> {
        let (account, material) = Account::open(api, name).await?;
        Ok(Self::new(Source::Account(account), Some(material)))
    }

    fn new(source: Source, material: Option<Material>) -> Self {
        let this = Self(Arc::new(Shared {
            source,
            state: RwLock::default(),
            presented: Arc::default(),
            turn: Arc::default(),
            failures: Repeats::default(),
            refusals: Repeats::default(),
        }));
        if let Some(material) = material {
            this.0.state.write().put(&this.0, material, Instant::now());
        }
        this
    }

    /// Presents the client certificate of the moment in TLS handshakes.
    pub(super) fn certificate(&self) -> Arc<dyn ResolvesClientCert> {
        Arc::clone(&self.0.presented) as _
    }

    /// The credential for a request. Waits for the source where there is none that is good, at most as
    /// long as a plugin may run. Cancelling it cancels nothing: the source is read by a task.
    pub(super) async fn current(&self) -> Result<Credential, NoCredential> {
        let due = self.0.state.read().due(Instant::now());
        match due {
            Due::Nothing => {}
            Due::Soon => {
                if let Ok(turn) = Arc::clone(&self.0.turn).try_lock_owned() {
                    drop(self.renew(turn));
                }
            }
            Due::Now => {
                let turn = Arc::clone(&self.0.turn).lock_owned().await;
                // The turn may have been waited for while another task did the work.
                if self.0.state.read().due(Instant::now()) == Due::Now {
                    let _ = self.renew(turn).await;
                }
            }
        }
        let state = self.0.state.read();
        state.answer(Instant::now())
    }

    /// The API server at `server` answered 401 to `credential`. Says once a minute what may be wrong with it, since the
    /// API server's own answer is no more than "Unauthorized".
    pub(super) fn refused(&self, credential: &Credential, server: &str) {
        if let Some(others) = self.0.refusals.due("") {
            let hint = self.hint(Timestamp::now());
            warn!(
                server,
                others,
                "the API server does not accept this process's credentials (HTTP 401); {hint}"
            );
        }
        let mut state = self.0.state.write();
        let current = state.credential.as_ref();
        if self.0.source.changes()
            && current.is_some_and(|current| current.serial == credential.serial)
        {
            state.refused = true;
        }
    }

    fn hint(&self, now: Timestamp) -> String {
        let certificate = self.0.presented.current();
        match certificate.and_then(|pair| validity(&pair.cert)) {
            Some((_, end)) if end < now => {
                format!("the client certificate expired on {end}: renew it")
            }
            Some((_, end)) => format!(
                "the client certificate is valid until {end}: check that the API server trusts its CA"
            ),
            None => "check that its credentials have not expired or been revoked".to_owned(),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "no caller may own it, since none may cancel it; a task that dies releases the turn, and the \
                  next request reads the source again"
    )]
    fn renew(&self, turn: tokio::sync::OwnedMutexGuard<()>) -> tokio::task::JoinHandle<()> {
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let yielded = match &shared.source {
                Source::Files(files) => files.read_again().await,
                Source::Plugin(plugin, files) => plugin.run(files).await,
                Source::Account(account) => account.token().await,
            };
            shared.replace(yielded);
            drop(turn);
        })
    }
}

impl Source {
    /// True if it can yield another credential than the first.
    fn changes(&self) -> bool {
        match self {
            Self::Files(files) => files.change(),
            Self::Plugin(..) | Self::Account(_) => true,
        }
    }

    /// When a credential with this `life` is to be replaced, after so long.
    fn refresh_after(&self, life: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Files(_) => self.changes().then_some(FILES),
            Self::Plugin(..) => life.map(|life| life.saturating_sub(EARLY.min(life / 10))),
            // The API server may be away for minutes.
            Self::Account(_) => life.map(|life| life.mul_f64(0.8)),
        }
    }
}

impl Shared {
    fn replace(&self, yielded: Result<Material, String>) {
        let now = Instant::now();
        let mut state = self.state.write();
        state.not_before = Some(now + PAUSE);
        let reason = match yielded {
            Ok(material) => return state.put(self, material, now),
            Err(reason) => reason,
        };
        let failure = NoCredential(reason);
        let last = state.failure.as_ref();
        let is_repeated = last.is_some_and(|last| last.0 == failure.0);
        // Without a credential each request fails with this text. Its words may differ each time, as
        // with a time or an id in them.
        if !is_repeated
            && state.credential.is_some()
            && let Some(others) = self.failures.due("")
        {
            warn!(
                others,
                error = %failure,
                "the former credential is used on, as long as it is good"
            );
        }
        let is_file = matches!(self.source, Source::Files(_));
        state.refresh_at = Some(now + if is_file { FILES } else { PAUSE });
        state.failure = Some(failure);
    }
}

impl CredentialState {
    /// Takes what the source yielded.
    fn put(&mut self, shared: &Shared, material: Material, now: Instant) {
        let former = self.credential.take();
        let is_first = former.is_none();
        let former = former.unwrap_or_default();
        let former_pair = shared.presented.current();
        let changed = chain(former_pair.as_ref()) != chain(material.certificate.as_ref());
        if changed {
            if let (Source::Plugin(plugin, _), Some(former_pair)) = (&shared.source, former_pair) {
                plugin.rotated(&former_pair);
            }
            shared.presented.set(material.certificate);
            if !is_first {
                info!("the client certificate for the API server is new");
            }
        }
        if changed || former.header != material.header {
            debug!("the credential for the API server is new");
        }
        self.failure = None;
        self.refused = false;
        self.credential = Some(Credential {
            header: material.header,
            generation: former.generation + u64::from(changed),
            serial: former.serial + 1,
        });
        self.ends_at = material.life.map(|life| now + life);
        let refresh = shared.source.refresh_after(material.life);
        self.refresh_at = refresh.map(|after| now + after);
    }
}

fn chain(
    pair: Option<&Arc<CertifiedKey>>,
) -> Option<&[rustls::pki_types::CertificateDer<'static>]> {
    pair.map(|pair| &*pair.cert)
}

#[cfg(test)]
mod tests;
