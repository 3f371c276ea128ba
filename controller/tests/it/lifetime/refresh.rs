//! Initialised nodes follow their machines.

use std::time::Duration;

use serde_json::json;

use super::{fleet, quick};
use crate::{
    look::addresses,
    wait::{holds, until},
};

#[tokio::test]
async fn n40_addresses_changed_by_another_client_come_back_and_nothing_else_is_written() {
    let setup = quick().flag("--node-status-update-frequency=1s");
    let stage = fleet(setup, 20).await;
    let before = stage.node("n-00009").await;
    // some of the mock's machines have two addresses of one type.
    stage.silent(Duration::from_secs(3)).await;
    let written = stage.writes().len();
    let change = json!({"status": {"addresses": [{"type": "Hostname", "address": "n-00009"}]}});
    let (nodes, parameters) = (stage.nodes(), kube::api::PatchParams::default());
    let patch = kube::api::Patch::Merge(change);
    nodes
        .patch_status("n-00009", &parameters, &patch)
        .await
        .unwrap();
    until("the addresses are back", async || {
        let now = addresses(&stage.node("n-00009").await);
        holds(now == addresses(&before), || format!("{now:?}"))
    })
    .await;
    stage.silent(Duration::from_secs(2)).await;
    assert_eq!(
        stage.writes().split_off(written),
        ["PATCH /api/v1/nodes/n-00009/status"]
    );
}
