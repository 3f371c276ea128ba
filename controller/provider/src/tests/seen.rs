use super::{
    fake::{Reply, refusal},
    rig::{Rig, service, targets},
};
use outrigger_api::v1;
use tonic::Code;

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
    rig.fake.on_batch(move |_| Reply::Fail(refused.clone()));
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
         code=\"RESOURCE_EXHAUSTED\",reason=\"unknown_reason\"} 1",
    );
    rig.fake.kill();
    rig.reaches(|state| !state.serves()).await;
    let metrics = rig.metrics();
    assert!(metrics.contains("outrigger_provider_connected 0"));
    assert!(metrics.contains("outrigger_provider_state{state=\"down\"} 1"));
    assert!(!metrics.contains("outrigger_provider_info{"));
}
