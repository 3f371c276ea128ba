//! How the provider serves instances.

use outrigger_api::v1;
use tokio::time::{sleep, timeout};

use super::{
    fake::{Reply, status},
    rig::Rig,
    secs,
};

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_a_provider_that_serves_instances() {
    let rig = Rig::with(|_, fake| {
        fake.introduce(|answer| answer.capabilities.get_or_insert_default().instances = None);
    });
    rig.wait_until_serving().await;
    let served = rig.provider.instances().until_served();
    assert!(timeout(secs(60), served).await.is_err());
    rig.fake.introduce(|_| {});
    rig.fake.kill();
    sleep(secs(1)).await;
    rig.fake.restart();
    let served = rig.provider.instances().until_served();
    let session = timeout(secs(60), served).await.unwrap().unwrap();
    assert!(session.instances.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_asked_now_whether_its_answers_count() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    assert_eq!(rig.provider.trouble().await, None);
    let dependency = v1::DependencyStatus {
        name: "cloud-api".into(),
        readiness: v1::Readiness::Degraded.into(),
        message: "the last call failed".into(),
        ..v1::DependencyStatus::default()
    };
    let degraded = v1::GetStatusResponse {
        dependencies: vec![dependency],
        ..status(v1::Readiness::Degraded)
    };
    rig.fake.on_status(move || Reply::Say(degraded.clone()));
    let trouble = rig.provider.trouble().await.unwrap();
    assert!(
        trouble.contains("cloud-api: the last call failed"),
        "{trouble}"
    );
    rig.fake.on_status(|| {
        Reply::Say(v1::GetStatusResponse {
            boot_id: "another".into(),
            ..status(v1::Readiness::Ready)
        })
    });
    let trouble = rig.provider.trouble().await.unwrap();
    assert!(trouble.contains("another process"), "{trouble}");
    rig.fake.kill();
    sleep(secs(1)).await;
    assert!(rig.provider.trouble().await.is_some());
}
