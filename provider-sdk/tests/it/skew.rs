//! A controller of a later minor: what it says beyond ours is ignored.

use std::sync::Arc;

use outrigger_api::v1::{
    BatchGetInstancesRequest, CallContext, ClusterInfo, HandshakeRequest, Node,
};
use outrigger_provider_sdk::{Context, Server};
use parking_lot::Mutex;
use prost::{Message, encoding};
use tonic::Code;

use crate::harness::{Each, Named, Rig, finds_all, found, handshake, node};
use crate::raw::{BATCH_GET, Client};

const HANDSHAKE: &str = "/cloudprovider.v1.ProviderService/Handshake";

/// The message with fields that no message of ours has.
fn later(message: &impl Message) -> Vec<u8> {
    let mut bytes = message.encode_to_vec();
    encoding::int32::encode(1000, &99, &mut bytes);
    encoding::string::encode(1001, &"later".to_owned(), &mut bytes);
    bytes
}

#[tokio::test]
async fn the_highest_minor_of_both_is_ours() {
    let rig = Rig::serve(finds_all());
    for highest in [1, 2, 9, u32::MAX] {
        let answer = handshake(rig.dial().await, 1, highest).await.unwrap();
        assert_eq!(answer.minor, 1, "1 to {highest}");
    }
}

#[tokio::test]
async fn fields_of_a_later_minor_are_ignored_in_each_message_of_a_call() {
    let minors = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&minors);
    let instances = Each(8, move |_: Context, node: Node| {
        writer.lock().push(node.name.clone());
        async move { Ok(found(&node.name)) }
    });
    let rig = Rig::serve(Server::new(Named::new()).instances(instances));
    let mut client = Client::dial(&rig).await;

    let cluster = ClusterInfo {
        name: "prod".to_owned(),
        ..ClusterInfo::default()
    };
    let mut request = later(&HandshakeRequest {
        min_minor: 1,
        max_minor: 9,
        ..HandshakeRequest::default()
    });
    encoding::bytes::encode(6, &later(&cluster), &mut request);
    let uri = format!("http://localhost{HANDSHAKE}");
    assert_eq!(client.send(&uri, "1S", &request).await.code(), Code::Ok);

    let context = CallContext {
        request_id: "r".to_owned(),
        cluster_name: "prod".to_owned(),
        ..CallContext::default()
    };
    let mut request = later(&BatchGetInstancesRequest {
        // A view of a later minor.
        view: 99,
        ..BatchGetInstancesRequest::default()
    });
    encoding::bytes::encode(1, &later(&context), &mut request);
    encoding::bytes::encode(2, &later(&node("a")), &mut request);
    let uri = format!("http://localhost{BATCH_GET}");
    let status = client.send(&uri, "1S", &request).await;
    assert_eq!(status.code(), Code::Ok, "{status:?}");
    assert_eq!(*minors.lock(), ["a"]);
}
