use std::time::{Duration, SystemTime};

use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{
    BatchGetInstancesRequest, CallContext, ClusterInfo, GetStatusRequest, HandshakeRequest,
    Readiness as Wire,
};
use outrigger_provider_sdk::{
    CallClass, Context, Dependency, EffectsCapability, InstancesCapability, LookupPreference, Node,
    ProviderInfo, ProviderStatus, Quota, RateLimit, Readiness, ServeError, Server,
};
use tonic::Code;

use crate::harness::{Each, Named, Rig, ask, context, finds_all, found, handshake, lookup, reason};

const LIMIT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_handshake_tells_who_answers_and_what_is_registered() {
    let mut named = Named::new();
    named.info = ProviderInfo::new("test", "1.2.3")
        .with_no_cluster_id(true)
        .with_service_annotation_prefixes(["lb.test/".to_owned()])
        .with_node_annotation_prefixes(["node.test/".to_owned()])
        .with_rate_limits([RateLimit::new(CallClass::Instances, 2.5, 4)])
        .with_effects(
            EffectsCapability::default().with_node_annotation_prefixes(["node.test/".to_owned()]),
        );
    let capability = InstancesCapability::default()
        .with_max_batch_size(7)
        .with_lookup_preference(LookupPreference::Batch)
        .with_visibility_delay(Duration::from_secs(90));
    let instances = Each(capability, async |_, node: outrigger_provider_sdk::Node| {
        Ok(found(&node.name))
    });
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
    assert_eq!(
        (
            answer.rate_limits[0].call_class,
            answer.rate_limits[0].burst
        ),
        (2, 4)
    );

    let offered = answer.capabilities.unwrap();
    let instances = offered.instances.unwrap();
    assert_eq!(
        (instances.max_batch_size, instances.lookup_preference),
        (7, 2)
    );
    assert_eq!(instances.visibility_delay.unwrap().seconds, 90);
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
async fn without_a_common_minor_both_ranges_are_named() {
    let rig = Rig::serve(finds_all());
    let refused = handshake(rig.dial().await, 7, 9).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(reason(&refused), "VERSION_UNSUPPORTED");
    assert!(
        refused.message().contains("7 to 9"),
        "{}",
        refused.message()
    );
    assert!(
        refused.message().contains("1 to 1"),
        "{}",
        refused.message()
    );
    // It counts for nothing.
    let mut client = ProviderServiceClient::new(rig.dial().await);
    assert_eq!(
        reason(
            &client
                .handshake(HandshakeRequest::default())
                .await
                .unwrap_err()
        ),
        "INVALID_REQUEST"
    );
}

#[tokio::test]
async fn one_handshake_since_the_start_is_enough_for_every_connection() {
    use outrigger_api::v1::instances_service_client::InstancesServiceClient;
    let rig = Rig::serve(finds_all());
    let mut early = InstancesServiceClient::new(rig.dial().await);
    let refused = lookup(&mut early, ask(&["a"])).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(reason(&refused), "NOT_HANDSHAKED");

    handshake(rig.dial().await, 1, 1).await.unwrap();
    assert_eq!(
        lookup(&mut early, ask(&["a"])).await.unwrap().results.len(),
        1
    );
}

#[tokio::test]
async fn a_call_about_another_cluster_than_that_of_the_handshake_is_refused() {
    let rig = Rig::serve(finds_all());
    let other = BatchGetInstancesRequest {
        context: Some(CallContext {
            cluster_name: "test".to_owned(),
            ..context("r")
        }),
        ..ask(&["a"])
    };
    let refused = lookup(&mut rig.instances().await, other).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_HANDSHAKED");
    assert!(
        refused.message().contains("\"prod\""),
        "{}",
        refused.message()
    );
}

/// `--plan` under an identity with fewer rights than the controller beside it.
#[tokio::test]
async fn a_handshake_without_the_clusters_uid_does_not_make_it_another_cluster() {
    let rig = Rig::serve(Server::new(Named::new()).instances(Each(
        InstancesCapability::default(),
        async |ctx: Context, node: Node| {
            assert_eq!(ctx.cluster().uid, "c-uid");
            Ok(found(&node.name))
        },
    )));
    let mut client = rig.instances().await;
    let request = HandshakeRequest {
        min_minor: 1,
        max_minor: 1,
        cluster: Some(ClusterInfo {
            name: "prod".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut provider = ProviderServiceClient::new(rig.dial().await);
    provider.handshake(request).await.unwrap();
    let answer = lookup(&mut client, ask(&["a"])).await.unwrap();
    assert_eq!(answer.results.len(), 1);
}

#[tokio::test]
async fn a_call_that_names_the_clusters_uid_is_about_that() {
    let rig = Rig::serve(Server::new(Named::new()).instances(Each(
        InstancesCapability::default(),
        async |ctx: Context, node: Node| {
            assert_eq!(ctx.cluster().uid, "known-now");
            assert_eq!(ctx.cluster().name, "prod");
            Ok(found(&node.name))
        },
    )));
    let named = BatchGetInstancesRequest {
        context: Some(CallContext {
            cluster_uid: "known-now".to_owned(),
            ..context("r")
        }),
        ..ask(&["a"])
    };
    let answer = lookup(&mut rig.instances().await, named).await.unwrap();
    assert_eq!(answer.results.len(), 1);
}

#[tokio::test]
async fn the_status_is_the_vendors_cut_to_the_contract() {
    let named = Named::new();
    let rig = Rig::serve(Server::new(named.clone()));
    let mut client = ProviderServiceClient::new(rig.dial().await);

    let dependency = Dependency::new("n".repeat(100), Readiness::Broken)
        .with_message("m".repeat(2000))
        .with_last_success(SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045));
    let quota = Quota::new("calls", 10, 3);
    *named.status.lock() = ProviderStatus::new(Readiness::Degraded)
        .with_dependencies(vec![dependency; 40])
        .with_quotas(vec![quota; 40]);
    let status = client
        .get_status(GetStatusRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(status.readiness(), Wire::Degraded);
    assert!(!status.boot_id.is_empty());
    assert_eq!((status.dependencies.len(), status.quotas.len()), (32, 32));
    let dependency = &status.dependencies[0];
    assert!(dependency.name.len() <= 63 && dependency.message.len() <= 1024);
    assert_eq!(dependency.last_success.unwrap().seconds, 1_767_323_045);
}

#[tokio::test]
async fn declarations_that_the_controller_would_refuse_do_not_start() {
    for name in ["", "Cloud", "a_b", &"x".repeat(64)] {
        let mut named = Named::new();
        name.clone_into(&mut named.info.name);
        let refused = Rig::serve(Server::new(named)).ended(LIMIT).await;
        assert!(
            matches!(refused, Err(ServeError::Provider(_))),
            "{name}: {refused:?}"
        );
    }
    for capability in [
        InstancesCapability::default().with_max_batch_size(0),
        InstancesCapability::default().with_max_batch_size(501),
        InstancesCapability::default().with_provider_id_prefixes([String::new()]),
    ] {
        let instances = Each(capability, async |_, node: outrigger_provider_sdk::Node| {
            Ok(found(&node.name))
        });
        let server = Server::new(Named::new()).instances(instances);
        let refused = Rig::serve(server).ended(LIMIT).await;
        assert!(matches!(refused, Err(ServeError::Provider(_))));
    }
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
