//! A provider of another minor: what docs/versions.md promises of the controller, row by row.

use outrigger_api::{
    RpcStatus,
    v1::{self, instance_result::Outcome},
};
use outrigger_core::error_class::ErrorClass;
use prost::Message;
use tokio::time::Instant;
use tonic::{Code, Status};

use super::{
    fake::{Reply, done, found, ready, refusal, result},
    rig::{Rig, service, targets},
    routes::create,
    secs,
    volumes::look_up,
};
use crate::{Error, LookupPurpose, PlanOperation};

/// A value that no enum of ours has.
const LATER: i32 = 99;

/// With a provider that serves all that the contract has, changed by `change`.
async fn serving_all(change: impl Fn(&mut v1::HandshakeResponse) + Send + Sync + 'static) -> Rig {
    let rig = Rig::with(|_, fake| {
        fake.introduce(move |answer| {
            let offered = answer.capabilities.get_or_insert_default();
            offered.load_balancers = Some(v1::LoadBalancersCapability {
                list: true,
                plan: true,
                ..v1::LoadBalancersCapability::default()
            });
            offered.node_sets = Some(v1::NodeSetsCapability {});
            offered.routes = Some(v1::RoutesCapability::default());
            offered.volumes = Some(v1::VolumesCapability {
                csi_drivers: vec!["disk.example".into()],
                ..v1::VolumesCapability::default()
            });
            change(answer);
        });
    });
    rig.wait_until_serving().await;
    rig
}

/// The error as one of an item.
fn item(status: &Status) -> RpcStatus {
    let sent = RpcStatus::decode(status.details()).unwrap();
    RpcStatus {
        code: status.code().into(),
        message: status.message().into(),
        details: sent.details,
    }
}

/// A provider of the first minor sets only what is required.
#[tokio::test(start_paused = true)]
async fn a_provider_is_asked_for_what_it_declares_and_for_nothing_more() {
    let rig = Rig::with(|_, fake| {
        fake.handshake.on(|_| {
            Reply::Say(v1::HandshakeResponse {
                minor: 1,
                provider_name: "fake".into(),
                boot_id: "boot-1".into(),
                capabilities: Some(v1::Capabilities {
                    instances: Some(v1::InstancesCapability::default()),
                    ..v1::Capabilities::default()
                }),
                ..v1::HandshakeResponse::default()
            })
        });
    });
    rig.wait_until_serving().await;
    rig.look_up("a").await.unwrap();
    let provider = &rig.provider;
    let (web, all) = (service("web"), targets(["a"]));
    let plan = provider
        .load_balancers()
        .plan(PlanOperation::Ensure, &web, &all);
    let errors = [
        provider
            .instances()
            .list(LookupPurpose::Initialization, |_| true)
            .await
            .unwrap_err(),
        provider.ensure_alone(&web, &all).await.unwrap_err(),
        provider.load_balancers().list().await.unwrap_err(),
        plan.await.unwrap_err(),
        provider.routes().list().await.unwrap_err(),
        create(&rig, 1).await.result.unwrap_err(),
        look_up(&rig, "pv").await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::NotOffered { .. }), "{error:?}");
    }
    let fake = &rig.fake;
    assert!(fake.balancers.ensure.calls().is_empty() && fake.balancers.plan.calls().is_empty());
    assert!(fake.routes.create.calls().is_empty() && fake.volumes.calls().is_empty());
    assert!(fake.balancers.uploads.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn later_classes_preferences_and_kinds_of_a_handshake_are_ignored() {
    let rig = serving_all(|answer| {
        answer.rate_limits = vec![v1::RateLimit {
            call_class: LATER,
            qps: 0.001,
            burst: 1,
        }];
        let offered = answer.capabilities.get_or_insert_default();
        offered.instances.get_or_insert_default().lookup_preference = LATER;
        offered.volumes.get_or_insert_default().source_kinds = vec![LATER];
    })
    .await;
    let started = Instant::now();
    let (web, all) = (service("web"), targets(["a"]));
    for _ in 0..10 {
        rig.look_up("a").await.unwrap();
        rig.provider.ensure_alone(&web, &all).await.unwrap();
        create(&rig, 1).await.result.unwrap();
        look_up(&rig, "pv").await.unwrap();
    }
    assert!(started.elapsed() < secs(10), "{:?}", started.elapsed());
    let session = rig.provider.session().unwrap();
    let preference = session.instances.as_ref().unwrap().preference;
    assert!(preference != v1::LookupPreference::ListAll);
    assert!(session.volumes.as_ref().unwrap().served.kinds.is_empty());
}

/// Whatever wait it asks for, and whatever details it has beside.
#[tokio::test(start_paused = true)]
async fn a_later_reason_is_an_error_of_its_own_object_and_shown() {
    let rig = serving_all(|_| {}).await;
    let later = || refusal(Code::ResourceExhausted, "REGION_ASLEEP", Some(secs(3600)));
    let mut beside = item(&later());
    beside.details.push(prost_types::Any {
        type_url: "type.googleapis.com/cloudprovider.v1.Later".into(),
        value: vec![0xff; 3],
    });
    rig.fake.batch.on(move |request| {
        let one = |node: &v1::Node| match &*node.name {
            "later" => result("later", Outcome::Error(beside.clone())),
            _ => found(node),
        };
        let results = request.items.iter().map(one).collect();
        Reply::Say(v1::BatchGetInstancesResponse { results })
    });
    rig.fake.balancers.ensure.on(move |request| {
        let service = request.service.as_ref().unwrap();
        match &*service.name {
            "later" => Reply::Fail(later()),
            _ => Reply::Say(ready()),
        }
    });
    rig.fake.routes.create.on(move |request| {
        let route = request.route.as_ref().unwrap();
        match &*route.node_name {
            "node-1" => Reply::Fail(later()),
            _ => Reply::Say(done()),
        }
    });

    let all = targets(["a"]);
    let ensure = async |name| rig.provider.ensure_alone(&service(name), &all).await;
    let started = Instant::now();
    let errors = [
        rig.look_up("later").await.unwrap_err(),
        ensure("later").await.unwrap_err(),
        create(&rig, 1).await.result.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.reason(), None);
        assert_eq!(error.class(), ErrorClass::Transient, "{error}");
        let shown = error.failure(None).message;
        assert!(shown.contains("REGION_ASLEEP"), "{shown}");
        assert!(shown.contains("because of"), "{shown}");
    }
    // Nothing else waits.
    rig.look_up("a").await.unwrap();
    ensure("web").await.unwrap();
    create(&rig, 2).await.result.unwrap();
    assert!(started.elapsed() < secs(1), "{:?}", started.elapsed());
}
