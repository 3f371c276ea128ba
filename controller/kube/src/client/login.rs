//! The login of an identity: TLS with its certificate, headers, token. Built again when a file that it rests on changes.
//!
//! kube re-reads a token file and runs a credential plugin again before its token expires, and does neither for
//! certificates. So the kubeconfig, with all files that it names, is read again by this module, and the stack of kube's
//! layers is built again when anything in it is different. Connections of the former login end with their last request.

use std::{fs, sync::Arc, time::Duration};

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::proxy::matcher::Intercept;
use jiff::Timestamp;
use kube::{
    Config,
    client::{
        Body, ConfigExt,
        middleware::{AuthLayer, ExtraHeadersLayer},
    },
};
use outrigger_runtime::{fence::Fence, log_repeated, telemetry::Repeats};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout},
};
use tower::{ServiceBuilder, ServiceExt};
use tracing::info;

use super::{
    HttpService,
    proxy::{Dialer, dialer},
    source::ApiServer,
    transport::{Connector, HttpClient},
};
use crate::{
    certificate::end,
    error::{ApiError, login_fault},
};

/// How often the files are read again.
const LOOK: Duration = Duration::from_secs(10);

/// A plugin's certificate is replaced so long before it ends. A plugin's token is kube's to replace, as early.
const EARLY: Duration = Duration::from_mins(1);

/// How long a plugin may run at the start. Later the next look at the files waits so long for one that runs.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection may take, that of a proxy and TLS included. The fence is asked before it, so this is no
/// longer than the default pause between the end of one leader's term and the beginning of the next.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The login of the moment of one identity.
pub(super) struct CurrentLogin {
    server: ApiServer,
    dialer: Dialer,
    state: Mutex<State>,
    repeats: Repeats,
}

struct State {
    login: Arc<Login>,
    /// When to look at the files; absent if there are none.
    look_at: Option<Instant>,
    /// Looks that go on. A plugin may hang in each of them.
    looks: u32,
    /// The API server answered 401 to `login`.
    is_refused: bool,
}

impl CurrentLogin {
    /// The login of the user of `server` through `proxy`.
    ///
    /// # Errors
    /// A proxy, a certificate or a credential that cannot be used, or a plugin that does not end, as a sentence.
    pub(super) async fn open(server: ApiServer, proxy: Option<Intercept>) -> Result<Self, String> {
        let dialer = dialer(proxy)?;
        let (config, built) = (server.config.clone(), dialer.clone());
        let built = spawn_blocking(move || Login::new(config, built));
        let built = timeout(PLUGIN_TIMEOUT, built).await.map_err(|_| {
            let limit = PLUGIN_TIMEOUT.as_secs();
            format!("the credential plugin did not end within {limit} s")
        })?;
        let login = built.map_err(|died| died.to_string())??;
        let state = State {
            login: Arc::new(login),
            look_at: server.source.is_some().then(|| Instant::now() + LOOK),
            looks: 0,
            is_refused: false,
        };
        Ok(Self {
            server,
            dialer,
            state: Mutex::new(state),
            repeats: Repeats::default(),
        })
    }

    /// The login for a request now. If a look at the files is due, it begins on another thread, and no request waits
    /// for it.
    pub(super) fn get(self: &Arc<Self>) -> Arc<Login> {
        let mut state = self.state.lock();
        if state.look_at.is_some_and(|due| due <= Instant::now()) {
            state.looks += 1;
            // Each that hangs keeps a thread and a process, so the next one comes later.
            state.look_at = Some(Instant::now() + PLUGIN_TIMEOUT * state.looks);
            let (this, former) = (Arc::clone(self), Arc::clone(&state.login));
            let is_refused = state.is_refused;
            drop(spawn_blocking(move || this.look(&former, is_refused)));
        }
        Arc::clone(&state.login)
    }

    /// The API server answered 401 to a request with `login`. Says so once a minute, since the API server's own answer is
    /// no more than "Unauthorized". A plugin runs again with the next look.
    pub(super) fn refused(&self, login: &Arc<Login>) {
        log_repeated!(
            warn, self.repeats, "401", server = %self.server.config.cluster_url,
            "the API server does not accept this process's credentials (HTTP 401): check that its token or certificate has \
             not expired or been revoked, and that the API server trusts the certificate's CA"
        );
        let mut state = self.state.lock();
        state.is_refused |= Arc::ptr_eq(&state.login, login);
    }

    /// Reads all files again. Blocks on the disk, and on a plugin.
    fn look(&self, former: &Arc<Login>, is_refused: bool) {
        let renewed = self.renewed(former, is_refused);
        let mut state = self.state.lock();
        state.looks -= 1;
        state.look_at = Some(Instant::now() + LOOK);
        state.is_refused = false;
        match renewed {
            // A later look may have been faster.
            Ok(Some(login)) if Arc::ptr_eq(&state.login, former) => {
                info!("the credentials for the API server are new");
                state.login = Arc::new(login);
            }
            Ok(_) => {}
            Err(error) => log_repeated!(
                warn,
                self.repeats,
                "files",
                error,
                "the former credential is used on, as long as it is good"
            ),
        }
    }

    /// Another login, if the files or a plugin have one.
    fn renewed(&self, former: &Login, is_refused: bool) -> Result<Option<Login>, String> {
        let config = self.server.read_again()?;
        let has_plugin = config.auth_info.exec.is_some();
        let ends = former.end.is_some_and(|end| end < Timestamp::now() + EARLY);
        let is_due = has_plugin && (is_refused || ends);
        if !is_due && inputs(&config) == former.inputs {
            return Ok(None);
        }
        Login::new(config, self.dialer.clone()).map(Some)
    }
}

/// TLS, headers and token with which an identity appears before the API server.
pub(super) struct Login {
    pub(super) connector: Connector,
    headers: ExtraHeadersLayer,
    /// Token, or user and password.
    auth: Option<AuthLayer>,
    /// When the client certificate ends.
    end: Option<Timestamp>,
    /// The configuration from which it was built.
    inputs: Value,
}

impl Login {
    /// Blocks on the disk, and on a plugin.
    fn new(mut config: Config, dialer: Dialer) -> Result<Self, String> {
        let inputs = inputs(&config);
        let plugin = config.auth_info.exec.as_ref();
        let plugin = plugin.and_then(|exec| exec.command.clone());
        let refuse = |error: kube::Error| match &plugin {
            Some(command) => format!("exec {command}: {}", login_fault(&error)),
            None => login_fault(&error),
        };
        let headers = config.extra_headers_layer().map_err(refuse)?;
        let auth = config.auth_layer().map_err(refuse)?;
        if auth.is_some() {
            // A plugin that yields tokens need not run for a certificate.
            config.auth_info.exec = None;
        }
        let tls = config.rustls_client_config().map_err(refuse)?;
        let certificate = tls.client_auth_cert_resolver.resolve(&[], &[]);
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http();
        let https = match config.tls_server_name {
            Some(name) => {
                let parsed = name.clone().try_into();
                let name = parsed.map_err(|error| format!("tls-server-name {name:?}: {error}"))?;
                https.with_server_name_resolver(FixedServerNameResolver::new(name))
            }
            None => https,
        };
        let https: HttpsConnector<Dialer> = https.enable_all_versions().wrap_connector(dialer);
        let mut connector = TimeoutConnector::new(https);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        Ok(Self {
            connector,
            headers,
            auth,
            end: certificate.and_then(|pair| end(&pair.cert)),
            inputs,
        })
    }

    /// Sends requests with this login by `http`, and a write only if its [`Fence`] is open after the last wait.
    pub(super) fn around(&self, http: HttpClient) -> HttpService {
        let stack = ServiceBuilder::new()
            .layer(&self.headers)
            .option_layer(self.auth.as_ref())
            .filter(fenced)
            .service(http);
        HttpService::new(stack.map_response(|answer: Response<Incoming>| {
            answer.map(|body| body.map_err(Into::into).boxed_unsync())
        }))
    }
}

/// All that a login is built from, to be compared. Maps have no order in it.
fn inputs(config: &Config) -> Value {
    let user = &config.auth_info;
    let files = [&user.client_certificate, &user.client_key];
    let files = files.map(|path| path.as_ref().map(|path| fs::read(path).ok()));
    json!([
        user,
        config.root_cert,
        config.tls_server_name,
        config.accept_invalid_certs,
        files
    ])
}

/// Lets a write pass only as long as its lease term lasts.
pub(super) fn fenced(request: Request<Body>) -> Result<Request<Body>, ApiError> {
    let fence = request.extensions().get::<Fence>();
    if fence.is_some_and(|fence| !fence.may_write()) {
        return Err(ApiError::Fenced);
    }
    Ok(request)
}
