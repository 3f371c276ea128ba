//! Lists that are larger than what is kept of them.

use std::sync::Arc;

use outrigger_api::v1;
use outrigger_core::error_class::ErrorClass;

use super::rig::Rig;
use crate::LookupPurpose;

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
