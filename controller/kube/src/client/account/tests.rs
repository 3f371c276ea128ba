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
            let answer = json!({"spec": {"expirationSeconds": 1000}, "status": {"token": token}});
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
    let error = error.to_string();
    assert!(error.contains("kube-system/node-controller"), "{error}");
    assert!(
        error.contains("--use-service-account-credentials"),
        "{error}"
    );
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
