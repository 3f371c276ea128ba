//! Faults on the way to the API server.

use std::{fs, time::Duration};

use futures::future::join_all;
use tokio::time::sleep;

use super::{rule::NOTICED, scene::Scene};
use crate::stage::Stage;

/// So many Services are made at one moment.
pub(super) const BURST: u32 = 60;

/// Until watches are quiet.
const QUIET: Duration = Duration::from_secs(2);

/// Connections go dead, and then the cluster changes.
pub(super) async fn die(scene: &Scene) {
    sleep(QUIET).await;
    scene.journal.note("the connections go dead");
    scene.way.go_dead();
    scene.record.concern(Some(NOTICED), |_, _| true);
    scene.register(["unseen".to_owned()]).await;
    scene.create_service("unseen").await;
    scene.edit_service("web-0").await;
    scene.delete_service("web-5").await;
}

pub(super) async fn change_much(scene: &Scene) {
    let names = (0..BURST).map(|number| format!("burst-{number}"));
    join_all(names.map(|name| async move { scene.create_service(&name).await })).await;
}

/// Too many open files end the listeners of a process, and lose its writes.
pub(super) fn had_files(stage: &Stage) {
    let log = fs::read_to_string(stage.dir().join("controller.log")).unwrap();
    let mut lines = log.lines();
    let lost = lines.find(|line| line.contains("Too many open files"));
    assert!(lost.is_none(), "the controller ran out of files: {lost:?}");
}
