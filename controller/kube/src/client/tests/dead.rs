//! Connections that go dead without a close, as when a host loses its power.

use futures::StreamExt;
use serde_json::Value;
use tokio::time::{self, Instant};

use super::{
    server::{Fate, Relay, Server},
    *,
};

/// Within which client-go notices it.
const NOTICED: Duration = Duration::from_secs(45);

struct Way {
    api: Api,
    relay: Relay,
    _server: Server,
    _directory: tempfile::TempDir,
}

async fn way() -> Way {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let relay = Relay::to(server.address).await;
    let cluster = json!({
        "server": format!("https://{}", relay.address),
        "certificate-authority-data": BASE64_STANDARD.encode(&server.ca),
    });
    let api = api(&kubeconfig(directory.path(), &cluster, &json!({}))).await;
    Way {
        api,
        relay,
        _server: server,
        _directory: directory,
    }
}

#[tokio::test]
async fn a_watch_whose_connection_went_dead_ends() {
    let Way { api, relay, .. } = &way().await;
    let watch = api.watch::<Value>("/api/v1/nodes", None, "1", WAIT).await;
    let mut events = std::pin::pin!(watch.unwrap());
    relay.meet(Fate::Dead);
    // Nothing comes any more that real time would have to bring.
    time::pause();
    let began = Instant::now();
    let ended = timeout(NOTICED * 2, events.next()).await;
    let took = began.elapsed();
    assert!(took < NOTICED + Duration::from_secs(1), "{took:?}");
    let error = ended.unwrap().unwrap().unwrap_err();
    assert!(
        error.to_string().contains("did not answer a ping"),
        "{error}"
    );
    time::resume();
    get(api).await.unwrap();
    assert_eq!(relay.opened(), 2);
}

/// The API server ends a watch by itself; without that it, or something on the way, was lost.
#[tokio::test]
async fn a_watch_whose_connection_is_closed_says_so() {
    let Way { api, relay, .. } = &way().await;
    let watch = api.watch::<Value>("/api/v1/nodes", None, "1", WAIT).await;
    let mut events = std::pin::pin!(watch.unwrap());
    relay.meet(Fate::Closed);
    let error = timeout(WAIT, events.next())
        .await
        .unwrap()
        .unwrap()
        .unwrap_err();
    assert!(
        error.to_string().contains("its connection was lost"),
        "{error}"
    );
}

/// The renewal of a Lease cannot wait until a ping is missed.
#[tokio::test]
async fn a_request_that_is_given_up_takes_its_connection_out_of_use() {
    let Way { api, relay, .. } = &way().await;
    get(api).await.unwrap();
    relay.meet(Fate::Dead);
    let hasty = api.clone().limited(Duration::from_millis(300));
    let error = hasty.get::<Value>("/version").await.unwrap_err();
    assert!(matches!(error, ApiError::Timeout(_)), "{error}");
    hasty.limited(WAIT).get::<Value>("/version").await.unwrap();
    assert_eq!(relay.opened(), 2);
}

#[tokio::test]
async fn an_answer_without_an_end_is_an_error() {
    let Way { api, .. } = &way().await;
    let error = api.get::<Value>("/endless").await.unwrap_err();
    assert!(error.to_string().contains("length limit"), "{error}");
}

#[tokio::test]
async fn all_requests_of_a_client_share_one_connection() {
    let Way { api, relay, .. } = &way().await;
    let watch = api.watch::<Value>("/api/v1/nodes", None, "1", WAIT).await;
    let _events = std::pin::pin!(watch.unwrap());
    let gets = futures::future::join_all((0..20).map(|_| get(api))).await;
    assert!(gets.iter().all(Result::is_ok), "{gets:?}");
    assert_eq!(relay.opened(), 1);
}

#[tokio::test]
async fn a_server_that_speaks_http_1_1_alone_is_spoken_to() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::speaking(&["http/1.1"]).await;
    let api = api(&of(directory.path(), &server, &json!({}))).await;
    let watch = api.watch::<Value>("/api/v1/nodes", None, "1", WAIT).await;
    let _events = std::pin::pin!(watch.unwrap());
    get(&api).await.unwrap();
}
