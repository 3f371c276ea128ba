//! Faults of calls about load balancers.

use std::time::Duration;

use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, Method};
use tokio::time::sleep;

use super::{
    rule::{CALL, Goal},
    scene::Scene,
};

/// Until all Services wait for other Nodes, and each comparison has begun.
const UNDER_WAY: Duration = Duration::from_secs(6);
const COMPARED: Duration = Duration::from_secs(15);

/// Other Nodes for all load balancers, while each update takes long; then others want something.
pub(super) async fn roll_out(scene: &Scene) {
    let duration = Some(CALL);
    let slow = Fault::on(Method::UpdateLoadBalancerNodes, Effect::Hang { duration });
    scene.inject(slow).await;
    scene.register(["joins".to_owned()]).await;
    sleep(UNDER_WAY).await;
    scene.create_service("new").await;
    scene.edit_service("web-0").await;
    scene.delete_service("web-1").await;
}

pub(super) async fn progress(scene: &Scene) {
    let empty = Effect::BadAnswer(BadAnswer::InProgressWithoutStatus);
    let empty = Fault::on(Method::EnsureLoadBalancer, empty);
    scene.inject(empty.for_service(&scene.named("web-2"))).await;
    scene.record.concern(None, is_of("web-2"));
    scene.edit_service("web-2").await;
    // A removed node does not wait for it.
    sleep(UNDER_WAY).await;
    scene.register(["joins".to_owned()]).await;
}

pub(super) async fn compare(scene: &Scene) {
    for service in ["web-3", "web-4"] {
        let hang = Effect::Hang { duration: None };
        let hang = Fault::on(Method::GetLoadBalancer, hang);
        scene.inject(hang.for_service(&scene.named(service))).await;
    }
    sleep(COMPARED).await;
    scene.edit_service("web-3").await;
    scene.delete_service("web-4").await;
}

/// True for each goal of a Service.
pub(super) fn is_of(service: &'static str) -> impl Fn(Goal, &str) -> bool {
    move |goal, name| matches!(goal, Goal::Served | Goal::Targets) && name == service
}
