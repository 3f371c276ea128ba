use super::*;

#[tokio::test]
async fn bad_sources_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let message = async |source: Source| source.load().await.unwrap_err().to_string();

    let missing = message(Source {
        kubeconfig: Some(path.clone()),
        master: None,
    })
    .await;
    assert!(
        missing.contains("kubeconfig") && missing.contains("No such file"),
        "{missing}"
    );

    std::fs::write(&path, "clusters: 3").unwrap();
    let junk = message(Source {
        kubeconfig: Some(path.clone()),
        master: None,
    })
    .await;
    assert!(junk.contains(path.to_str().unwrap()), "{junk}");

    let master = message(Source {
        kubeconfig: None,
        master: Some("10.0.0.1".into()),
    })
    .await;
    assert!(master.contains("\"10.0.0.1\" is not a URL"), "{master}");
}

#[test]
fn a_client_says_who_it_is() {
    let agent = user_agent("node-controller");
    assert!(agent.starts_with("outrigger/0."), "{agent}");
    assert!(agent.ends_with(") node-controller"), "{agent}");
}

#[test]
fn a_negative_qps_is_no_limit() {
    assert!(Budget::UNLIMITED.limiter().is_none());
    assert!(
        Budget {
            qps: 1000.0,
            burst: 2000
        }
        .limiter()
        .is_some()
    );
    assert!(
        Budget {
            qps: 0.001,
            burst: 0
        }
        .limiter()
        .is_some()
    );
}
