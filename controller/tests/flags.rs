//! The command line as operators see it: exit codes, words, and upstream's list of flags as data.

// clippy takes only functions marked #[test] for tests.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "flags/document.rs"]
mod document;
#[path = "flags/ranges.rs"]
mod ranges;
#[path = "flags/upstream.rs"]
mod upstream;
#[path = "flags/words.rs"]
mod words;

use std::{collections::BTreeMap, time::Duration};

use clap::Error;
use outrigger_controller::{
    options::{Config, config::OutputForm, no_effect::NO_EFFECT, parse_from},
    server::settings::Certificate,
};
use outrigger_core::{node::deletion_limit::DeletionLimits, targets::Pace};

fn parse(args: &[&str]) -> Result<Config, Error> {
    parse_with(args, &[])
}

fn parse_with(args: &[&str], env: &[(&str, &str)]) -> Result<Config, Error> {
    let args: Vec<String> = args.iter().map(|arg| (*arg).into()).collect();
    let env: BTreeMap<String, String> = env
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    parse_from(&args, &env)
}

fn config(args: &[&str]) -> Config {
    parse(args).unwrap_or_else(|exit| panic!("{args:?}: {exit:?}"))
}

/// The text on standard output of a process that ends at once, and well.
fn content(args: &[&str]) -> String {
    let error = parse(args).expect_err("a text");
    assert!(!error.use_stderr(), "{error}");
    error.to_string()
}

fn refusal(args: &[&str]) -> String {
    let error = parse(args).expect_err("a mistake");
    assert!(error.use_stderr(), "{error}");
    error.to_string()
}

fn value(config: &Config, name: &str) -> String {
    let flag = config.flags.iter().find(|(flag, _)| flag == name);
    flag.expect(name).1.clone()
}

#[test]
fn no_flags_are_a_complete_configuration() {
    let config = config(&[]);
    assert_eq!(config.warnings, Vec::<String>::new());
    assert_eq!(
        config.provider.endpoint.to_string(),
        "unix:///run/outrigger/provider.sock"
    );
    assert_eq!(config.provider.name, None);
    assert_eq!(config.kube.kubeconfig, None);
    assert!(config.kube.master.is_none());
    assert_eq!(config.node.workers, 32);
    assert_eq!(config.node.refreshers, 32);
    assert_eq!(config.budget.burst, 2000);
    let election = config.election.expect("leader election");
    assert_eq!(election.namespace, "kube-system");
    assert_eq!(election.durations.lease_duration().as_secs(), 15);
    let serving = config.serving.expect("a server");
    assert_eq!(serving.port, 10258);
    assert_eq!(serving.certificate, Certificate::SelfSigned);
    assert_eq!(config.access.authorization_always_allow_paths.len(), 3);
    assert_eq!(config.plan, None);
    assert_eq!(config.lifecycle.limits, DeletionLimits::default());
    let service = config.service;
    assert_eq!(service.workers, 32);
    assert_eq!(service.pace, Pace::default());
    assert_eq!(service.drift_period, Some(Duration::from_hours(12)));
}

#[test]
fn load_balancers_follow_their_flags() {
    let config = config(&[
        "--load-balancer-update-idle=0",
        "--load-balancer-update-ceiling=2s",
        "--load-balancer-drift-period=0",
        "--plan",
        "--plan-output=json",
    ]);
    let service = config.service;
    let pace = Pace {
        idle: Duration::ZERO,
        ceiling: Duration::from_secs(2),
    };
    assert_eq!(service.pace, pace);
    assert_eq!(service.drift_period, None);
    assert_eq!(config.plan, Some(OutputForm::Json));
}

#[test]
fn a_plan_has_a_format() {
    assert_eq!(config(&["--plan"]).plan, Some(OutputForm::Table));
    assert_eq!(config(&["--plan-output=json"]).plan, None);
}

#[test]
fn cli_5_help_and_version_end_well() {
    for args in [&["--help"][..], &["-h"], &["--help", "bar"]] {
        let text = content(args);
        for flag in upstream::flags() {
            let line = format!("--{}", upstream::name(&flag));
            let words = &mut text.split([' ', '\n', '[', '=']);
            assert!(words.any(|word| word == line), "{line}");
        }
    }
    let version = format!("Outrigger v{}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(content(&["--version"]), version);
}

#[test]
fn cli_7_flags_are_printed_in_order_of_name() {
    let config = config(&[
        "--node-status-update-frequency=90s",
        "--leader-elect=0",
        "--master=https://user:secret@example.org",
        "--controllers=route,service",
        "-v=3",
    ]);
    assert!(config.flags.is_sorted_by(|(a, _), (b, _)| a < b));
    assert_eq!(
        config.flags.len(),
        upstream::flags().len() + upstream::no_effect().count()
    );
    for (name, expected) in [
        ("node-status-update-frequency", "90s"),
        ("min-resync-period", "12h0m0s"),
        ("leader-elect", "0"),
        ("plan", "false"),
        ("controllers", "route,service"),
        ("master", "https://example.org"),
        ("cloud-config", ""),
        ("v", "3"),
    ] {
        assert_eq!(value(&config, name), expected, "{name}");
    }
}

#[test]
fn cli_8_a_deprecated_flag_works_and_says_so() {
    let config = config(&["--allow-untagged-cloud"]);
    assert!(config.provider.allow_untagged_cloud);
    assert_eq!(
        config.warnings,
        ["--allow-untagged-cloud is deprecated: a cluster ID will be required on cloud instances"]
    );
}

#[test]
fn flags_without_effect_are_accepted_with_a_warning_when_they_are_set() {
    let switches = [
        "authentication-tolerate-lookup-failure",
        "contention-profiling",
        "disable-http2-serving",
        "enable-leader-migration",
        "permit-address-sharing",
        "use-service-account-credentials",
        "webhook-disable-http2-serving",
    ];
    for (names, why) in &NO_EFFECT {
        for &flag in *names {
            let name = format!("--{flag}");
            let with_value = format!("{name}=true");
            let words = [&*name, "true"];
            let words = &words[..if switches.contains(&flag) { 1 } else { 2 }];
            for args in [&[&*with_value][..], words] {
                let warnings = config(args).warnings;
                assert_eq!(warnings, [format!("{name} has no effect: {why}")]);
            }
        }
    }
}

#[test]
fn cloud_provider_names_the_expected_provider() {
    assert_eq!(
        config(&["--cloud-provider=fake"]).provider.name.as_deref(),
        Some("fake")
    );
    let external = config(&["--cloud-provider=external"]);
    assert_eq!(external.provider.name, None);
    assert_eq!(external.warnings.len(), 1);
}

#[test]
fn servers_can_be_switched_off() {
    assert!(config(&["--secure-port=0"]).serving.is_none());
    config(&["--secure-port=0", "--webhook-secure-port=0"]);
}

#[test]
fn webhooks_are_served_if_they_are_named() {
    assert!(config(&[]).webhook.is_none());
    assert!(
        config(&["--webhooks=*,-persistentvolume-labels"])
            .webhook
            .is_none()
    );
    let named = [
        "--webhooks=persistentvolume-labels",
        "--webhook-tls-cert-file=tls.crt",
        "--webhook-tls-private-key-file=tls.key",
    ];
    let with = |flag: &str| config(&[&named[..], &[flag]].concat());
    let webhook = config(&named).webhook.expect("a webhook");
    assert_eq!(webhook.serving.port, 10260);
    // W-9.
    let without_port = with("--webhook-secure-port=0");
    assert!(without_port.webhook.is_none());
    assert_eq!(without_port.warnings.len(), 1);
    let error = refusal(&named[..1]);
    assert!(
        error.contains("--webhooks needs --webhook-tls-cert-file"),
        "{error}"
    );
}

#[test]
fn one_gate_has_an_effect_and_a_warning_names_the_others() {
    let with = |gates: &str| config(&[&format!("--feature-gates={gates}")]);
    assert!(!config(&[]).node.manages_additional_labels);
    let gate = "CloudNodeAdditionalLabelsReconciliation";
    let on = with(&format!("{gate}=false,{gate}=true"));
    assert!(on.node.manages_additional_labels && on.warnings.is_empty());
    let other = with("AllAlpha=true,CloudControllerManagerWebhook=false");
    assert!(!other.node.manages_additional_labels);
    assert!(other.warnings[0].ends_with("no effect: AllAlpha, CloudControllerManagerWebhook"));
    let error = refusal(&[&format!("--feature-gates={gate}")]);
    assert!(error.contains("name=true or name=false"), "{error}");
}

#[test]
fn a_budget_of_0_is_the_default_and_a_negative_one_has_no_limit() {
    let budget = |args: &[&str]| config(args).budget;
    let zero = budget(&["--kube-api-qps=0", "--kube-api-burst=0"]);
    let default = budget(&[]);
    assert!((zero.qps - default.qps).abs() < 0.1);
    assert_eq!(zero.burst, default.burst);
    assert!(budget(&["--kube-api-qps=-1"]).qps < 0.0);
}

#[test]
fn loops_that_are_asked_for_and_do_not_run_are_warned_about() {
    let warned = |args: &[&str]| {
        let warnings = config(args).warnings;
        warnings
            .iter()
            .any(|warning| warning.contains("nodes get no Pod CIDR"))
    };
    assert!(!warned(&[]));
    assert!(!warned(&["--controllers=*"]));
    assert!(warned(&["--controllers=*,-route,nodeipam"]));
    let allocate = ["--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/16"];
    assert!(warned(&allocate));
    let named = [&allocate[..], &["--controllers=*,nodeipam"]].concat();
    assert!(!warned(&named));
    // Another program has them from the same list of flags.
    let two_masks = ["--node-cidr-mask-size=24", "--node-cidr-mask-size-ipv4=24"];
    config(&[&allocate[..], &two_masks].concat());
}
