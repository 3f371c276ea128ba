//! `check`: a set-up that works, and some that do not, before a controller runs.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use outrigger_testbed::{
    faults::{FaultProxy, Recorded},
    nodes::Machine,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    controller::{Ran, program},
    mock::Mock,
    replica::LEASE,
    stage::{Backstage, Setup},
};

/// The exit code, and the checks that are not ok.
async fn check(stage: &Backstage, proxy: &FaultProxy) -> (Option<i32>, BTreeMap<String, String>) {
    let mut command = Command::new(program());
    let command = command
        .args(["check", "-o", "json"])
        .arg(format!("--kubeconfig={}", proxy.kubeconfig().display()))
        .env_clear()
        .env("CLOUDPROVIDER_ENDPOINT", Mock::endpoint(stage.dir()));
    let ran = Ran::of(command).await;
    let shown: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = shown.as_array().unwrap().iter();
    let rows = rows.map(|row| (text(&row["check"]), text(&row["result"])));
    (
        ran.code,
        rows.filter(|(_, result)| result != "Ok").collect(),
    )
}

fn bad(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    let rows = rows.iter();
    rows.map(|(check, result)| ((*check).to_owned(), (*result).to_owned()))
        .collect()
}

#[tokio::test]
async fn a_set_up_is_checked_without_a_write_and_with_the_documented_rights() {
    let mut stage = Setup::synthesizing()
        .machines([Machine::new("waits")])
        .prepare()
        .await;
    assert_eq!(check(&stage, &stage.proxy).await, (Some(0), bad(&[])));

    // Another account.
    let other = FaultProxy::start_as(&stage.plane, "without-rights", None);
    let other = other.await.unwrap();
    let (code, rows) = check(&stage, &other).await;
    let expected = bad(&[
        ("rights", "Failed"),
        ("cluster-uid", "Failed"),
        ("kubelets", "Skipped"),
        ("pod-cidrs", "Skipped"),
        ("provider-ids", "Skipped"),
    ]);
    assert_eq!((code, rows), (Some(1), expected));

    // No provider, a kubelet that knows of none, and a program of another vendor that leads.
    stage.mock.kill().await;
    stage
        .register(&Machine::new("internal").initialized())
        .await;
    let lease = json!({
        "metadata": {"name": LEASE},
        "spec": {
            "holderIdentity": "vendor_1", "leaseDurationSeconds": 3600,
            "renewTime": format!("{:.6}", jiff::Timestamp::now()),
        },
    });
    let lease: Lease = serde_json::from_value(lease).unwrap();
    let made = stage.leases().create(&PostParams::default(), &lease).await;
    made.unwrap();
    let expected = bad(&[
        ("lease", "Failed"),
        ("kubelets", "Failed"),
        ("socket", "Failed"),
        ("handshake", "Skipped"),
        ("provider", "Skipped"),
        ("provider-ids", "Skipped"),
    ]);
    assert_eq!(check(&stage, &stage.proxy).await, (Some(1), expected));

    let requests = stage
        .proxy
        .requests()
        .into_iter()
        .filter(Recorded::is_write);
    let reviews = requests.filter(|request| !request.path.ends_with("/selfsubjectrulesreviews"));
    assert_eq!(reviews.count(), 0, "a write");
    let lease = stage.lease(LEASE).await;
    assert_eq!(lease.holder_identity.as_deref(), Some("vendor_1"));
}
