use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{self, GetStatusRequest};
use outrigger_provider_sdk::{Context, Error, InstanceSink, ProviderInfo, Server};
use tonic::Code;

use crate::harness::{
    AsyncList, List, Named, Rig, ask, finds_all, handshake, lookup, reason, status,
};

/// Lists nothing.
struct Nothing;

impl AsyncList for Nothing {
    async fn list(&self, _: &Context, _: &mut InstanceSink) -> Result<(), Error> {
        Ok(())
    }
}

#[tokio::test]
async fn a_handshake_tells_who_answers_and_what_is_registered() {
    let mut named = Named::new();
    let limit = v1::RateLimit {
        call_class: v1::CallClass::Instances.into(),
        qps: 2.5,
        burst: 4,
    };
    named.info = ProviderInfo {
        without_cluster_id: true,
        service_annotation_prefixes: vec!["lb.test/".to_owned()],
        node_annotation_prefixes: vec!["node.test/".to_owned()],
        rate_limits: vec![limit],
        effects: Some(v1::EffectsCapability::default()),
        ..ProviderInfo::new("test", "1.2.3")
    };
    let instances = List(true, Nothing);
    let rig = Rig::serve(
        Server::new(named)
            .instances(instances)
            .max_message_bytes(5 << 20),
    );

    let answer = handshake(rig.dial().await, 1, 1).await.unwrap();
    assert_eq!((answer.minor, answer.provider_name.as_str()), (1, "test"));
    assert_eq!(answer.provider_version, "1.2.3");
    assert_eq!(answer.max_receive_message_bytes, 5 << 20);
    assert!(answer.without_cluster_id);
    assert_eq!(answer.service_annotation_prefixes, ["lb.test/"]);
    assert_eq!(answer.node_annotation_prefixes, ["node.test/"]);
    assert_eq!(answer.rate_limits, [limit]);

    let offered = answer.capabilities.unwrap();
    assert!(offered.instances.unwrap().list);
    assert!(offered.effects.is_some());
    assert!(offered.load_balancers.is_none() && offered.routes.is_none());
    assert!(offered.node_sets.is_none());
}

#[tokio::test]
async fn an_unregistered_service_is_neither_offered_nor_served() {
    let rig = Rig::serve(Server::new(Named::new()));
    let channel = rig.dial().await;
    let answer = handshake(channel, 1, 1).await.unwrap();
    assert!(answer.capabilities.unwrap().instances.is_none());

    let refused = lookup(&mut rig.instances().await, ask(&["a"]))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert_eq!(reason(&refused), "CAPABILITY_DISABLED");
}

#[tokio::test]
async fn the_boot_id_is_one_for_a_process_and_new_for_the_next() {
    let (first, second) = (Rig::serve(finds_all()), Rig::serve(finds_all()));
    let boot_id = async |rig: &Rig| handshake(rig.dial().await, 1, 1).await.unwrap().boot_id;
    assert_eq!(boot_id(&first).await, boot_id(&first).await);
    assert_ne!(boot_id(&first).await, boot_id(&second).await);
    assert!(boot_id(&first).await.len() <= 64);
}

#[tokio::test]
async fn the_status_is_the_vendors_with_the_boot_id() {
    let named = Named::new();
    let rig = Rig::serve(Server::new(named.clone()));
    *named.status.lock() = status(v1::Readiness::Degraded);
    let mut client = ProviderServiceClient::new(rig.dial().await);
    let status = client.get_status(GetStatusRequest {}).await.unwrap();
    assert_eq!(status.get_ref().readiness(), v1::Readiness::Degraded);
    assert!(!status.get_ref().boot_id.is_empty());
}

#[cfg(feature = "tonic")]
#[tokio::test]
async fn a_wrapper_sees_every_call_the_last_one_first() {
    use tower::util::MapResponseLayer;
    let mark = |with: &'static str| {
        move |mut routes: tonic::service::Routes| {
            let router = routes.axum_router_mut();
            *router = std::mem::take(router).layer(MapResponseLayer::new(
                move |mut response: http::Response<_>| {
                    response
                        .headers_mut()
                        .append("seen-by", with.parse().unwrap());
                    response
                },
            ));
            routes
        }
    };
    let rig = Rig::serve(finds_all().wrap(mark("inner")).wrap(mark("outer")));
    let mut client = ProviderServiceClient::new(rig.dial().await);
    let answer = client.get_status(GetStatusRequest {}).await.unwrap();
    let values: Vec<_> = answer.metadata().get_all("seen-by").iter().collect();
    assert_eq!(values, ["inner", "outer"]);
}
