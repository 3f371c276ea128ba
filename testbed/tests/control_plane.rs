//! The control plane itself.

use outrigger_testbed::{ControlPlane, Options};

#[tokio::test]
async fn a_component_that_does_not_start_is_reported_with_its_log() {
    let options = Options {
        apiserver_args: vec!["--no-such-flag".to_owned()],
        ..Options::default()
    };
    let error = ControlPlane::start(options).await.unwrap_err().to_string();
    assert!(error.contains("kube-apiserver ended by itself"), "{error}");
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
}
