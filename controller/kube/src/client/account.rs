//! A service account for each controller (`--use-service-account-credentials`), so that the audit
//! log names the controller of each request, and each has the rights it needs alone.
//!
//! RBAC, in `kube-system`: `create` on `serviceaccounts/token`, and on `serviceaccounts` unless an
//! administrator makes them.

use std::time::Duration;

use http::HeaderValue;
use outrigger_core::error_class::ErrorClass;
use serde_json::{Value, json};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use tracing::{debug, info, warn};

use crate::{api::Api, error::ApiError};

/// Where the accounts live.
pub(super) const NAMESPACE: &str = "kube-system";

/// How long a token is to last, in seconds. The API server may give another one.
const LIFE: u32 = 3600;

/// A token is replaced after this share of its life: the API server may be away for minutes.
const REFRESH: f64 = 0.8;

/// Pauses between the tries to get the first token.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// Shortest pause between two requests for a later token.
const PAUSE: Duration = Duration::from_secs(5);

/// A service account, whose tokens are requested with the process's own rights.
pub(super) struct Account {
    api: Api,
    name: &'static str,
    token: Mutex<Token>,
}

struct Token {
    header: HeaderValue,
    obtained: Instant,
    refresh_at: Instant,
}

impl Account {
    /// The service account `name`, which is made if there is none. Tries four times to get its first token.
    ///
    /// # Errors
    /// The last failure to get the token.
    pub(super) async fn open(api: Api, name: &'static str) -> Result<Self, ApiError> {
        let mut token = obtain(&api, name).await;
        for pause in PAUSES {
            match &token {
                Err(error) if error.class() != ErrorClass::Invalid => {
                    debug!(account = name, %error, "service account has no token yet");
                    sleep(pause).await;
                    token = obtain(&api, name).await;
                }
                _ => break,
            }
        }
        let token = Mutex::new(token?);
        info!(account = name, "acting as a service account of {NAMESPACE}");
        Ok(Self { api, name, token })
    }

    /// Value of `Authorization`. A request that comes when the token is due waits for another one; where there is
    /// none, the former is used on.
    pub(super) async fn header(&self) -> HeaderValue {
        let mut token = self.token.lock().await;
        if token.refresh_at <= Instant::now() {
            match obtain(&self.api, self.name).await {
                Ok(newest) => *token = newest,
                Err(error) => {
                    warn!(account = self.name, %error, "no other token for the service account");
                    token.refresh_at = Instant::now() + PAUSE;
                }
            }
        }
        token.header.clone()
    }

    /// The API server does not accept the token. A late answer about a former one may cost one more token.
    pub(super) fn refused(&self) {
        if let Ok(mut token) = self.token.try_lock() {
            token.refresh_at = token.refresh_at.min(token.obtained + PAUSE);
        }
    }
}

/// A token of the account `name`, which is made if there is none.
async fn obtain(api: &Api, name: &str) -> Result<Token, ApiError> {
    match request(api, name).await {
        Err(error) if error.is_not_found() => {
            create(api, name).await?;
            request(api, name).await
        }
        other => other,
    }
}

async fn request(api: &Api, name: &str) -> Result<Token, ApiError> {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": LIFE},
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token");
    let answer: Value = api.create(&path, &request).await?;
    // The lifetime may be another one than that of the request.
    let life = answer["spec"]["expirationSeconds"].as_u64();
    let (Some(token), Some(life)) = (answer["status"]["token"].as_str(), life) else {
        return Err(ApiError::Decode("it holds no token".to_owned()));
    };
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|error| ApiError::Decode(error.to_string()))?;
    header.set_sensitive(true);
    let life = Duration::from_secs(life);
    let obtained = Instant::now();
    Ok(Token {
        header,
        obtained,
        refresh_at: obtained + life.mul_f64(REFRESH),
    })
}

async fn create(api: &Api, name: &str) -> Result<(), ApiError> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": NAMESPACE},
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    match api.create_unread(&path, &object).await {
        // Another replica was quicker.
        Err(error) if error.code() == Some(409) => Ok(()),
        created => created,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;
    use crate::fixture::scripted;
    use futures::FutureExt;
    use http::Method;

    type Log = Arc<parking_lot::Mutex<Vec<String>>>;

    /// An API server without the account, whose tokens are numbered; `refuse` says no for so long.
    fn api(refuse: Arc<AtomicU32>) -> (Api, Log) {
        let (log, created_objects) = (Log::default(), Log::default());
        let requests = Arc::clone(&log);
        let client = scripted::client(move |request| {
            let path = request.uri().path().to_owned();
            let what = path.rsplit('/').next().unwrap().to_owned();
            requests.lock().push(format!("{} {what}", request.method()));
            assert_eq!(request.method(), Method::POST);
            let mut created_objects = created_objects.lock();
            let left = refuse.load(Ordering::Relaxed);
            let answer = if left > 0 {
                refuse.store(left - 1, Ordering::Relaxed);
                scripted::refusal(503, "ServiceUnavailable")
            } else if what == "serviceaccounts" {
                created_objects.push(what);
                scripted::json(201, &json!({}))
            } else if created_objects.is_empty() {
                scripted::refusal(404, "NotFound")
            } else {
                created_objects.push(what);
                let token = format!("token-{}", created_objects.len() - 1);
                let answer =
                    json!({"spec": {"expirationSeconds": 1000}, "status": {"token": token}});
                scripted::json(201, &answer)
            };
            async move { answer }.boxed()
        });
        (Api::new(client), log)
    }

    async fn token(account: &Account) -> String {
        let header = account.header().await;
        assert!(header.is_sensitive());
        header.to_str().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_is_missing_is_made() {
        let (api, log) = api(Arc::default());
        let account = Account::open(api, "node-controller").await.unwrap();
        assert_eq!(token(&account).await, "Bearer token-1");
        assert_eq!(
            *log.lock(),
            ["POST token", "POST serviceaccounts", "POST token"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn four_failures_in_a_row_are_the_end() {
        let (api, _) = api(Arc::new(3.into()));
        assert!(Account::open(api, "node-controller").await.is_ok());
        let (api, log) = self::api(Arc::new(4.into()));
        let error = Account::open(api, "node-controller").await.err().unwrap();
        assert_eq!(error.code(), Some(503));
        assert_eq!(log.lock().len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_replaced_before_it_ends_and_when_it_is_refused() {
        let refuse = Arc::new(AtomicU32::new(0));
        let (api, log) = api(Arc::clone(&refuse));
        let account = Account::open(api, "node-controller").await.unwrap();
        // A request each second.
        let after = async |seconds| {
            let mut used = String::new();
            for _ in 0..seconds {
                sleep(Duration::from_secs(1)).await;
                used = token(&account).await;
            }
            used
        };
        assert_eq!(after(799).await, "Bearer token-1");
        // The API server is away for a while when a fifth of the life is left.
        refuse.store(5, Ordering::Relaxed);
        assert_eq!(after(2).await, "Bearer token-1");
        assert_eq!(after(60).await, "Bearer token-2");
        account.refused();
        assert_eq!(after(1).await, "Bearer token-3");
        // Not more often than that, however often it is refused.
        for _ in 0..100 {
            account.refused();
        }
        assert_eq!(after(3).await, "Bearer token-3");
        assert_eq!(after(3).await, "Bearer token-4");
        // Without a request there is no need of a token; the one that follows waits for it.
        sleep(Duration::from_hours(2)).await;
        assert_eq!(token(&account).await, "Bearer token-5");
        assert_eq!(log.lock().len(), 12);
    }
}
