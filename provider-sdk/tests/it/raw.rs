//! Requests that no well-behaved client sends, over plain HTTP/2.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use outrigger_api::v1::Node;
use outrigger_provider_sdk::{Context, Error, Lookup, Server};
use prost::Message;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use crate::harness::{Each, Named, Rig, ask};

struct Client {
    send: SendRequest<Full<Bytes>>,
    _connection: JoinSet<Result<(), hyper::Error>>,
}

impl Client {
    async fn dial(rig: &Rig) -> Self {
        let io = TokioIo::new(rig.dial_raw().await);
        let (send, connection) = handshake(TokioExecutor::new(), io).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(connection);
        Self {
            send,
            _connection: tasks,
        }
    }

    async fn call(&mut self, uri: &str, timeout: &str, message: &impl Message) -> Status {
        let message = message.encode_to_vec();
        let mut body = vec![0];
        body.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        body.extend_from_slice(&message);
        let request = Request::post(uri)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-timeout", timeout)
            .body(Full::new(body.into()))
            .unwrap();
        let response: Response<Incoming> = self.send.send_request(request).await.unwrap();
        if let Some(status) = Status::from_header_map(response.headers()) {
            return status;
        }
        let trailers = response
            .into_body()
            .collect()
            .await
            .unwrap()
            .trailers()
            .cloned()
            .unwrap();
        Status::from_header_map(&trailers).unwrap()
    }
}

const BATCH_GET: &str = "/cloudprovider.v1.InstancesService/BatchGetInstances";

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_here_is_called_so() {
    let rig = Rig::serve(
        Server::new(Named::new()).instances(Each(8, async |_: Context, _: Node| {
            std::future::pending::<Result<Lookup, Error>>().await
        })),
    );
    rig.instances().await;
    let mut client = Client::dial(&rig).await;
    // tonic's own timer would answer CANCELLED; which of the two fires first must not be chance.
    // Longer ones leave the time for an answer without the rest.
    for timeout in ["1n", "1m", "3m", "999u"] {
        let uri = format!("http://localhost{BATCH_GET}");
        let request = ask(&["a"]);
        let call = client.call(&uri, timeout, &request);
        let status = tokio::time::timeout(Duration::from_secs(6), call)
            .await
            .unwrap();
        assert_eq!(
            status.code(),
            Code::DeadlineExceeded,
            "{timeout}: {status:?}"
        );
    }
}
