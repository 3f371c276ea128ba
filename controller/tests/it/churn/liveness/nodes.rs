//! Nodes that come and go, for faults of routes.

use std::time::Duration;

use tokio::time::sleep;

use super::scene::Scene;

/// Between two deletions: less than a list is late.
const BURST: Duration = Duration::from_millis(300);

const AWHILE: Duration = Duration::from_secs(5);

/// Routes are made and deleted while a list spells them otherwise.
pub(super) async fn come_and_go(scene: &Scene) {
    scene.register(["comes".to_owned()]).await;
    sleep(AWHILE).await;
    scene.delete_node("base-00001").await;
}

/// The cloud shows routes without an instance, as it does while the instance is away.
pub(super) async fn strand(scene: &Scene) {
    let node = "base-00002";
    scene.changed(node, "is stranded");
    scene.view.routes.strand(node).await;
}

pub(super) async fn leave_in_a_burst(scene: &Scene) {
    for number in 3..8 {
        scene.delete_node(&format!("base-{number:05}")).await;
        sleep(BURST).await;
    }
}
