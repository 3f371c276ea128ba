//! An error that cannot heal ends the process, with one sentence that names it.

use std::fs;

use crate::stage::{Backstage, Setup};

/// Runs the controller with these flags, which must end it, and returns what it says.
async fn refused(backstage: &Backstage, flags: &[&str]) -> String {
    let (mut controller, log) = backstage.run(flags);
    let status = controller.ended().await;
    assert_eq!(status.code(), Some(1), "{flags:?}: {}", log());
    log()
}

#[tokio::test]
async fn kubeconfigs_that_are_not_there_or_not_good() {
    let backstage = Setup::without_provider().prepare().await;
    let good = fs::read_to_string(backstage.proxy.kubeconfig()).unwrap();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    let files = [
        ("empty", String::new()),
        ("words", "this is not a kubeconfig".to_owned()),
        ("broken", "clusters: [".to_owned()),
        (
            "no-context",
            good.replace("current-context", "other-context"),
        ),
    ];
    let missing = backstage.dir().join("missing.kubeconfig");
    let mut paths = vec![missing, backstage.dir().to_owned()];
    for (name, text) in files {
        let path = backstage.dir().join(name);
        fs::write(&path, text).unwrap();
        paths.push(path);
    }
    for path in paths {
        let flag = format!("--kubeconfig={}", path.display());
        let said = refused(&backstage, &[&flag]).await;
        let sentence = format!("--kubeconfig {}: ", path.display());
        let lines: Vec<_> = said
            .lines()
            .filter(|line| line.contains(&sentence))
            .collect();
        assert_eq!(lines.len(), 1, "{}: {said}", path.display());
        assert!(!said.contains("panicked"), "{said}");
        assert!(!json(&said));
    }
}

#[tokio::test]
async fn no_kubeconfig_outside_of_a_cluster_and_a_master_that_is_no_url() {
    let backstage = Setup::without_provider().prepare().await;
    let said = refused(&backstage, &["--kubeconfig="]).await;
    assert!(
        said.contains("invalid configuration: no configuration has been provided"),
        "{said}"
    );
    let said = refused(&backstage, &["--master=somewhere"]).await;
    assert!(
        said.contains("--master \"somewhere\" is not a URL"),
        "{said}"
    );
}

#[tokio::test]
async fn a_cloud_without_a_cluster_id_ends_it_unless_that_is_allowed() {
    let backstage = Setup::mock(&["--synthesize-instances", "--without-cluster-id"])
        .flag("--allow-untagged-cloud")
        .prepare()
        .await;
    let (mut controller, log) = backstage.run(&[]);
    let status = controller.ended().await;
    assert_eq!(status.code(), Some(255), "{}", log());
    let sentence = "no ClusterID found.  A ClusterID is required for the cloud provider to \
                    function properly.  This check can be bypassed by setting the \
                    allow-untagged-cloud option";
    assert_eq!(
        log().lines().filter(|line| line.contains(sentence)).count(),
        1,
        "{}",
        log()
    );
    backstage.proxy.take_requests();
    let mut stage = backstage.start();
    let warning = "detected a cluster without a ClusterID.  A ClusterID will be required";
    stage.controller.says(&["WARN", warning]).await;
    stage
        .register(&outrigger_testbed::nodes::Machine::new("untagged"))
        .await;
    stage.synced("untagged").await;
}
