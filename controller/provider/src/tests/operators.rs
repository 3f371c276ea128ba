//! The provider in metrics, and on the page for people.

use outrigger_api::v1::{self, Readiness};
use tokio::time::sleep;
use tonic::Code;

use super::{
    fake::{Reply, refusal, status},
    is_down,
    rig::{Rig, service, targets},
    secs,
};
use crate::DownCause;

#[tokio::test(start_paused = true)]
async fn operators_see_the_provider() {
    let rig = Rig::with(|_, fake| {
        fake.introduce(|answer| {
            let offered = answer.capabilities.get_or_insert_default();
            offered.load_balancers = Some(v1::LoadBalancersCapability::default());
        });
    });
    assert!(
        rig.metrics()
            .contains("outrigger_provider_state{state=\"connecting\"} 1")
    );
    rig.wait_until_serving().await;
    let refused = refusal(Code::ResourceExhausted, "RATE_LIMITED", None);
    rig.fake.batch.on(move |_| Reply::Fail(refused.clone()));
    rig.look_up("a").await.unwrap_err();
    let unknown = refusal(Code::ResourceExhausted, "SUBNET_FULL", None);
    rig.fake
        .balancers
        .ensure
        .on(move |_| Reply::Fail(unknown.clone()));
    let (web, all) = (service("web"), targets(["a"]));
    let ensured = rig.provider.ensure_alone(&web, &all).await;
    ensured.unwrap_err();
    let metrics = rig.metrics();
    let has = |line: &str| {
        assert!(
            metrics.lines().any(|have| have == line),
            "{line} is not in\n{metrics}"
        );
    };
    has("outrigger_provider_connected 1");
    has("outrigger_provider_state{state=\"ready\"} 1");
    has("outrigger_provider_state{state=\"connecting\"} 0");
    has("outrigger_provider_info{name=\"fake\",version=\"v0\",minor=\"1\"} 1");
    has("outrigger_provider_rpc_in_flight{rpc=\"BatchGetInstances\"} 0");
    has(
        "outrigger_provider_class_paused_seconds_total{class=\"instances\",\
         reason=\"RATE_LIMITED\"} 30.0",
    );
    has(
        "outrigger_provider_rpc_duration_seconds_count{rpc=\"BatchGetInstances\",\
         code=\"RESOURCE_EXHAUSTED\",reason=\"RATE_LIMITED\"} 1",
    );
    // The values of labels are those of the contract, or ours.
    has(
        "outrigger_provider_rpc_duration_seconds_count{rpc=\"EnsureLoadBalancer\",\
         code=\"UNKNOWN\",reason=\"unknown_reason\"} 1",
    );
    rig.fake.kill();
    rig.reaches(|state| !state.serves()).await;
    let metrics = rig.metrics();
    assert!(metrics.contains("outrigger_provider_connected 0"));
    assert!(metrics.contains("outrigger_provider_state{state=\"down\"} 1"));
    assert!(!metrics.contains("outrigger_provider_info{"));
}

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
        fake.status.on(|_| {
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
    rig.fake.batch.on(move |_| Reply::Fail(limited()));
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
