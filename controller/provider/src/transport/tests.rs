use std::{path::Path, time::Duration};

use http::Uri;
use outrigger_api::v1::{GetStatusRequest, provider_service_client::ProviderServiceClient};
use tokio::{net::UnixListener, time::timeout};

use super::*;
use crate::ProviderSocket;

const SOON: Duration = Duration::from_secs(10);

fn socket(path: &Path) -> ProviderSocket {
    let endpoint = format!("unix://{}", path.display()).parse().unwrap();
    ProviderSocket::new(endpoint, [])
}

#[tokio::test]
async fn the_end_of_a_real_socket_is_signalled_and_no_second_connection_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("provider.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let socket = socket(&path);
    let tasks = TaskTracker::new();
    let cancel = CancellationToken::new();
    let connection = ProviderConnection::dial(&socket, &tasks, &cancel)
        .await
        .unwrap();
    let (peer, _) = listener.accept().await.unwrap();
    {
        let closed = connection.closed();
        tokio::pin!(closed);
        assert!(futures::poll!(&mut closed).is_pending());
        drop(peer);
        timeout(SOON, closed).await.unwrap();
    }
    // A channel of tonic would connect again for this call; the listener is still there.
    let origin = Uri::from_static("http://localhost");
    let mut client = ProviderServiceClient::with_origin(connection.channel(), origin);
    timeout(SOON, client.get_status(GetStatusRequest {}))
        .await
        .unwrap()
        .unwrap_err();
    let accept = listener.accept();
    tokio::pin!(accept);
    assert!(futures::poll!(&mut accept).is_pending());
    drop((client, connection));
    tasks.close();
    timeout(SOON, tasks.wait()).await.unwrap();
}

#[tokio::test]
async fn an_aborted_connection_closes_the_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("provider.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let socket = socket(&path);
    let tasks = TaskTracker::new();
    let connection = ProviderConnection::dial(&socket, &tasks, &CancellationToken::new())
        .await
        .unwrap();
    // Never read from: a provider that hangs.
    let (_peer, _) = listener.accept().await.unwrap();
    let origin = Uri::from_static("http://localhost");
    let mut client = ProviderServiceClient::with_origin(connection.channel(), origin);
    let call = client.get_status(GetStatusRequest {});
    let abort = async {
        tokio::task::yield_now().await;
        connection.abort();
    };
    let (ended, ()) = timeout(SOON, async { tokio::join!(call, abort) })
        .await
        .unwrap();
    ended.unwrap_err();
    timeout(SOON, connection.closed()).await.unwrap();
    drop((client, connection));
    tasks.close();
    timeout(SOON, tasks.wait()).await.unwrap();
}

#[tokio::test]
async fn a_socket_without_a_listener_is_an_error_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("provider.sock");
    let socket = socket(&path);
    let tasks = TaskTracker::new();
    let dial = ProviderConnection::dial(&socket, &tasks, &CancellationToken::new()).await;
    let error = dial.err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}
