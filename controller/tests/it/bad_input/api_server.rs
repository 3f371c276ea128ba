//! API servers that are not there, are others, or do not know us.

use std::fs;

use outrigger_testbed::{faults::FaultProxy, nodes::Machine};

use crate::{
    plane::USER,
    rights::{ALWAYS, Rights},
    stage::Setup,
};

#[tokio::test]
async fn one_that_is_not_there_is_waited_for() {
    let backstage = Setup::synthesizing().prepare().await;
    backstage.proxy.refuse_connections().await;
    let server = backstage.proxy.url();
    let mut stage = backstage.start();
    let pid = stage.controller.pid();
    let sentence = "cannot use the API server";
    let line = stage.controller.says(&[sentence]).await;
    assert!(line.contains(&format!("server=\"{server}/\"")), "{line}");
    assert!(line.contains("Connection refused"), "{line}");
    assert!(line.contains("check --kubeconfig and --master"), "{line}");
    stage.register(&Machine::new("late")).await;
    stage.proxy.accept_connections().await;
    stage.synced("late").await;
    assert_eq!(stage.controller.lines(sentence), 1);
    assert_eq!(stage.controller.pid(), pid);
}

#[tokio::test]
async fn one_that_is_not_there_does_not_keep_the_process_from_ending() {
    let backstage = Setup::synthesizing().prepare().await;
    backstage.proxy.refuse_connections().await;
    let mut stage = backstage.start();
    stage.controller.says(&["cannot use the API server"]).await;
    stage.controller.terminate().await;
}

#[tokio::test]
async fn one_with_another_certificate_is_not_believed() {
    let backstage = Setup::synthesizing().prepare().await;
    let good = backstage.plane.kubeconfig(USER, None).unwrap();
    let text = fs::read_to_string(good).unwrap();
    let authority = backstage.plane.dir().join("front-proxy-ca.crt");
    let other = format!("certificate-authority: {}\n", authority.display());
    let lines = text.split_inclusive('\n').map(|line| {
        let is_authority = line
            .trim_start()
            .starts_with("certificate-authority-data: ");
        if is_authority {
            format!("    {other}")
        } else {
            line.to_owned()
        }
    });
    let other: String = lines.collect();
    assert_ne!(text, other, "the kubeconfig names no authority");
    let path = backstage.dir().join("other.kubeconfig");
    fs::write(&path, other).unwrap();
    let server = backstage.plane.url();
    let mut stage = backstage.start_with(&path);
    let line = stage
        .controller
        .says(&[
            "cannot use the API server",
            &format!("server=\"{server}/\""),
        ])
        .await;
    assert!(line.contains("certificate"), "{line}");
    stage.controller.pid();
}

#[tokio::test]
async fn one_that_lets_us_do_nothing_is_asked_until_it_does() {
    let backstage = Setup::synthesizing()
        .machines([Machine::new("locked")])
        .prepare()
        .await;
    let proxy = FaultProxy::start_as(&backstage.plane, "outrigger-without-rights", None)
        .await
        .unwrap();
    let mut stage = backstage.start_with(&proxy.kubeconfig());
    let missing = "may not read the namespace kube-system";
    let line = stage.controller.says(&[missing]).await;
    assert!(line.contains("outrigger-without-rights"), "{line}");
    let rights = Rights::documented(ALWAYS).of("outrigger-without-rights");
    let some = Rights::documented(ALWAYS).of("outrigger-without-rights");
    some.without("nodes").grant(&stage.plane).await;
    let missing = "cannot watch resource \"nodes\"";
    let line = stage.controller.says(&[missing]).await;
    assert!(line.contains("outrigger-without-rights"), "{line}");
    rights.grant(&stage.plane).await;
    stage.synced("locked").await;
    stage.controller.pid();
    rights.revoke(&stage.plane).await;
}
