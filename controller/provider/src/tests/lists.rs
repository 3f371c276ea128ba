use crate::LookupPurpose;
use std::sync::Arc;

use outrigger_api::v1::{Instance, ListInstancesResponse};
use outrigger_core::error_class::ErrorClass;
use tonic::Status;

use super::rig::Rig;

fn part(ids: &[&str], complete: bool) -> ListInstancesResponse {
    let instance = |id: &&str| Instance {
        provider_id: (*id).into(),
        ..Instance::default()
    };
    ListInstancesResponse {
        items: ids.iter().map(instance).collect(),
        complete,
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_whole_or_an_error() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let list = async |messages| {
        rig.fake.on_list(messages, None);
        let listed = rig
            .provider
            .instances()
            .list(LookupPurpose::Initialization, Arc::new(|_| true))
            .await;
        listed.map(|listed| {
            listed
                .iter()
                .map(|i| i.provider_id.to_string())
                .collect::<Vec<_>>()
        })
    };
    let listed = list(vec![part(&["fake://a"], false), part(&["fake://b"], true)]).await;
    assert_eq!(listed.unwrap(), ["fake://a", "fake://b"]);
    assert_eq!(list(vec![part(&[], true)]).await.unwrap().len(), 0);
    // An instance that breaks the contract is left out.
    let listed = list(vec![part(&["fake://a", "aws://b", ""], true)]).await;
    assert_eq!(listed.unwrap(), ["fake://a"]);
    for broken in [
        vec![],
        vec![part(&["fake://a"], false)],
        vec![part(&["fake://a"], true), part(&["fake://b"], true)],
        vec![part(&["fake://a"], false), part(&["fake://a"], true)],
    ] {
        let error = list(broken).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Malformed);
    }
    let cut_off = Some(Status::internal("x"));
    rig.fake.on_list(vec![part(&["fake://a"], false)], cut_off);
    let error = rig
        .provider
        .instances()
        .list(LookupPurpose::Initialization, Arc::new(|_| true))
        .await
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Transient);
}
