use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{self, GetStatusRequest};
use outrigger_provider_sdk::{Context, Error, InstanceSink, ProviderInfo, Server};

use crate::harness::{AsyncList, List, Named, Rig, finds_all, handshake};

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
