use super::{
    fake::{Reply, refusal},
    rig::Rig,
};
use tonic::Code;

#[tokio::test(start_paused = true)]
async fn operators_see_the_provider() {
    let rig = Rig::start();
    assert!(
        rig.metrics()
            .contains("outrigger_provider_state{state=\"connecting\"} 1")
    );
    rig.serving().await;
    let refused = refusal(Code::ResourceExhausted, "SOMETHING_NEW", None);
    rig.fake.on_batch(move |_| Reply::Fail(refused.clone()));
    rig.look_up("a").await.unwrap_err();
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
    rig.fake.kill();
    rig.reaches(|state| !state.serves()).await;
    let metrics = rig.metrics();
    assert!(metrics.contains("outrigger_provider_connected 0"));
    assert!(metrics.contains("outrigger_provider_state{state=\"down\"} 1"));
    assert!(!metrics.contains("outrigger_provider_info{"));
}
