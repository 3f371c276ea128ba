//! Metrics of the loop (M-3 to M-6 and ours).

use outrigger_testbed::nodes::Machine;

use super::quick;
use crate::{
    caller::{Port, value},
    cluster::services::load_balancer,
    look::uid,
    wait::{holds, until},
};

#[tokio::test]
async fn m3_updates_are_counted_and_timed_under_upstreams_names() {
    let port = Port::reserve();
    let stage = quick(&[]).scraped_at(&port).start().await;
    let service = stage.serve(load_balancer("web")).await;
    stage.register(&Machine::new("new").initialized()).await;
    stage
        .mock
        .sends_to(uid(&service), &["n-00000", "n-00001", "new"])
        .await;
    stage.event(&service, "UpdatedLoadBalancer").await;
    until("the metrics", async || {
        let scrape = port.scrape().await;
        for (name, expected) in [
            ("service_controller_loadbalancer_sync_total ", 1.0),
            ("service_controller_nodesync_error_total ", 0.0),
            ("service_controller_nodesync_latency_seconds_count ", 1.0),
            (
                "service_controller_update_loadbalancer_host_latency_seconds_count ",
                1.0,
            ),
            ("outrigger_service_targets ", 3.0),
            ("outrigger_service_targets_held ", 0.0),
            ("outrigger_service_time_to_ready_seconds_count ", 1.0),
            (
                "outrigger_service_load_balancer_ensures_total{cause=\"new\",result=\"success\"} ",
                1.0,
            ),
        ] {
            let number = value(&scrape, name);
            holds(number == Some(expected), || format!("{name}: {number:?}"))?;
        }
        Ok(())
    })
    .await;
}
