//! The provider's page for people.

use outrigger_api::v1::{self, Readiness};
use tokio::time::sleep;
use tonic::Code;

use super::{
    fake::{Reply, refusal, status},
    is_down,
    rig::Rig,
    secs,
};
use crate::DownCause;

#[tokio::test(start_paused = true)]
async fn a_dump_tells_state_session_health_and_pauses() {
    let rig = Rig::with(|_, fake| {
        fake.introduce(|answer| {
            let offered = answer.capabilities.as_mut().unwrap();
            offered.load_balancers = Some(v1::LoadBalancersCapability {
                classes: vec!["fake.example/fast".into()],
                ..v1::LoadBalancersCapability::default()
            });
        });
        fake.on_status(|| {
            Reply::Say(v1::GetStatusResponse {
                dependencies: vec![v1::DependencyStatus {
                    name: "api".into(),
                    readiness: Readiness::Degraded.into(),
                    message: "slow".into(),
                    ..v1::DependencyStatus::default()
                }],
                quotas: vec![v1::QuotaStatus {
                    name: "reads".into(),
                    limit: 100,
                    remaining: 7,
                    ..v1::QuotaStatus::default()
                }],
                ..status(Readiness::Degraded)
            })
        });
    });
    rig.wait_until_serving().await;
    let limited = || refusal(Code::ResourceExhausted, "RATE_LIMITED", Some(secs(20)));
    rig.fake.on_batch(move |_| Reply::Fail(limited()));
    rig.look_up("a").await.unwrap_err();
    sleep(secs(5)).await;
    let dump = rig.provider.dump();
    for expected in [
        "state: degraded: the provider says that it is degraded (api: slow)\n",
        "standby: false\n",
        "boot_id: \"boot-1\"",
        "\"fake.example/fast\"",
        "name: \"api\"",
        "message: \"slow\"",
        "remaining: 7",
        "paused: instances for 15.000s\n",
    ] {
        assert!(dump.contains(expected), "{expected} in\n{dump}");
    }

    rig.fake.kill();
    rig.reaches(is_down(DownCause::Disconnected)).await;
    rig.provider.set_standby(true);
    let dump = rig.provider.dump();
    for expected in ["session: none\n", "standby: true\n"] {
        assert!(dump.contains(expected), "{expected} in\n{dump}");
    }
}
