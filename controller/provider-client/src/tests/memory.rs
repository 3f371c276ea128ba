//! Answers of small bytes and large memory.

use std::sync::Arc;

use outrigger_api::v1;
use outrigger_core::error_class::ErrorClass;

use super::{
    fake::{Reply, found, status},
    rig::Rig,
};
use crate::{Error, LookupPurpose};

#[tokio::test(start_paused = true)]
async fn an_answer_that_would_take_too_much_memory_is_refused_before_it_is_decoded() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    // Two bytes each, and some hundred of memory.
    rig.fake.on_batch(|request| {
        let mut results: Vec<_> = request.items.iter().map(found).collect();
        results.resize(100_000, v1::InstanceResult::default());
        Reply::Say(v1::BatchGetInstancesResponse { results })
    });
    let error = rig.look_up("a").await.unwrap_err();
    assert!(matches!(error, Error::ReplyTooLarge { .. }), "{error}");
    assert_eq!(error.class(), ErrorClass::Malformed);
    let text = error.to_string();
    assert!(text.contains("most of them for results"), "{text}");
    // The answer has as many instances as the request.
    rig.fake.answer_nodes();
    rig.look_up("a").await.unwrap();

    rig.fake.on_status(|| {
        Reply::Say(v1::GetStatusResponse {
            dependencies: vec![v1::DependencyStatus::default(); 100_000],
            ..status(v1::Readiness::Ready)
        })
    });
    let trouble = rig.provider.trouble().await.unwrap();
    assert!(
        trouble.contains("most of them for dependencies"),
        "{trouble}"
    );
}

#[tokio::test(start_paused = true)]
async fn of_a_long_list_only_the_instances_of_nodes_are_kept() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let instance = |at: usize| v1::Instance {
        provider_id: format!("fake://{at}"),
        node_name: format!("n{at}"),
        zone: "a".into(),
        ..v1::Instance::default()
    };
    let part = |at: usize| v1::ListInstancesResponse {
        items: (at * 1_000..(at + 1) * 1_000).map(instance).collect(),
        complete: at == 99,
    };
    rig.fake.on_list((0..100).map(part).collect(), None);
    let of_nodes = |instance: &outrigger_core::node::instance::Instance| {
        let number = instance.node_name.strip_prefix('n').unwrap();
        number.parse::<usize>().unwrap() < 1_000
    };
    let listed = rig
        .provider
        .instances()
        .list(LookupPurpose::Initialization, Arc::new(of_nodes));
    assert_eq!(listed.await.unwrap().len(), 1_000);

    // One provider ID twice is found among those that are not kept too.
    rig.fake.on_list(vec![part(98), part(98), part(99)], None);
    let listed = rig
        .provider
        .instances()
        .list(LookupPurpose::Initialization, Arc::new(of_nodes));
    assert_eq!(listed.await.unwrap_err().class(), ErrorClass::Malformed);
}
