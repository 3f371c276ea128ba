//! How words and variables are read.

use outrigger_controller::options::controllers::Controller;

use super::{config, parse_with, refusal, value};

#[test]
fn cli_2_underscores_stand_for_hyphens() {
    assert_eq!(config(&["--cluster_name=a"]).cluster.name, "a");
    assert_eq!(config(&["--cluster_name=a_b"]).cluster.name, "a_b");
}

#[test]
fn cli_3_positional_arguments_are_refused() {
    for args in [&["bar"][..], &["--", "bar"], &["--leader-elect", "false"]] {
        let error = refusal(args);
        assert!(error.starts_with("error: unexpected argument"), "{error}");
    }
}

#[test]
fn cli_4_unknown_flags_are_refused_with_a_name_that_is_near() {
    let error = refusal(&["--kubconfig=x"]);
    assert!(error.starts_with("error: unexpected argument '--kubconfig' found"));
    assert!(error.contains("'--kubeconfig'"), "{error}");
    let error = refusal(&["--kube-api-qps"]);
    assert!(
        error.starts_with("error: a value is required for '--kube-api-qps"),
        "{error}"
    );
}

#[test]
fn cli_10_lists_replace_the_default_and_then_grow() {
    let paths = |args: &[&str]| config(args).access.authorization_always_allow_paths;
    assert_eq!(
        paths(&["--authorization-always-allow-paths=/a,/b"]),
        ["/a", "/b"]
    );
    assert_eq!(
        paths(&[
            "--authorization-always-allow-paths=/a",
            "--authorization-always-allow-paths",
            "/b,/c"
        ]),
        ["/a", "/b", "/c"]
    );
    assert_eq!(paths(&["--authorization-always-allow-paths="]), [""]);
}

#[test]
fn values_may_follow_as_a_word_of_their_own_even_with_a_hyphen() {
    let config = config(&[
        "--controllers",
        "-service,*",
        "--cluster-name",
        "--x",
        "-v",
        "4",
    ]);
    assert!(!config.controllers.enabled(Controller::ServiceLb));
    assert!(config.controllers.enabled(Controller::CloudNode));
    assert_eq!(config.cluster.name, "--x");
    assert_eq!(config.logging.verbosity, 4);
}

#[test]
fn switches_stand_alone_or_take_their_value_with_an_equals_sign() {
    assert!(config(&["--leader-elect"]).election.is_some());
    assert!(config(&["--leader-elect=true"]).election.is_some());
    assert!(config(&["--leader-elect=F"]).election.is_none());
    assert!(refusal(&["--leader-elect=maybe"]).contains("it must be true or false"));
}

#[test]
fn the_last_value_of_a_plain_flag_counts() {
    let config = config(&[
        "--cluster-name=a",
        "--cluster-name=b",
        "--plan",
        "--plan=false",
    ]);
    assert_eq!((&*config.cluster.name, config.plan), ("b", None));
}

#[test]
fn verbosity_has_a_short_form() {
    for args in [&["-v=4"][..], &["-v4"], &["-v", "4"], &["--v=4"]] {
        assert_eq!(config(args).logging.verbosity, 4, "{args:?}");
    }
}

#[test]
fn the_environment_stands_behind_the_command_line() {
    let env = [
        ("OUTRIGGER_CLUSTER_NAME", "env"),
        ("OUTRIGGER_LEADER_ELECT", "false"),
        ("OUTRIGGER_V", "2"),
        ("OUTRIGGER_CONTROLLERS", "cloud-node"),
        ("CLOUDPROVIDER_ENDPOINT", "unix:///a.sock"),
        ("OUTRIGGER_AUTHORIZATION_ALWAYS_ALLOW_PATHS", "/a,/b"),
        ("OUTRIGGER_CLOUD_CONFIG", "/etc/cloud.conf"),
        ("OUTRIGGER_KUBE_API_QPS", ""),
        ("OUTRIGGER_VERSION", "true"),
        ("KUBECONFIG", "/not/read"),
    ];
    let config = parse_with(&["--cluster-name=arg", "--controllers=route"], &env).unwrap();
    assert_eq!(config.cluster.name, "arg");
    assert!(config.election.is_none());
    assert_eq!(config.logging.verbosity, 2);
    assert!(!config.controllers.enabled(Controller::CloudNode));
    assert_eq!(config.provider.endpoint.to_string(), "unix:///a.sock");
    assert_eq!(config.access.authorization_always_allow_paths, ["/a", "/b"]);
    assert!(
        config
            .warnings
            .iter()
            .any(|warning| warning.contains("--cloud-config"))
    );
    assert_eq!(config.kube.kubeconfig, None);
    assert_eq!(value(&config, "kube-api-qps"), "1000");

    let own = [
        ("OUTRIGGER_PROVIDER_ENDPOINT", "unix:///b.sock"),
        ("CLOUDPROVIDER_ENDPOINT", "unix:///a.sock"),
    ];
    let config = parse_with(&[], &own).unwrap();
    assert_eq!(config.provider.endpoint.to_string(), "unix:///b.sock");
}

#[test]
fn mistakes_in_the_environment_are_refused_or_warned_about() {
    let error = parse_with(&[], &[("OUTRIGGER_NODE_MONITOR_PERIOD", "5")]).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("'--node-monitor-period"), "{error}");
    assert!(error.contains("is no duration"), "{error}");
    let misspelt = [
        ("OUTRIGGER_CLUSTERNAME", "x"),
        // Kubernetes adds such variables for a Service of this name.
        ("OUTRIGGER_MASTER_SERVICE_HOST", "10.0.0.1"),
        ("OUTRIGGER_PORT", "tcp://10.0.0.1:80"),
    ];
    assert_eq!(
        parse_with(&[], &misspelt).unwrap().warnings,
        ["variable OUTRIGGER_CLUSTERNAME of the environment stands for no flag"]
    );
}
