//! The program: what it says where it cannot work, and how it cleans up.

use std::env;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use outrigger_provider_sdk::{LoadBalancers as _, Targets, v1::EnsureLoadBalancerRequest};
use tokio::time::{sleep, timeout};

use crate::rig::{Rig, context, inside, service};

const PROGRAM: &str = env!("CARGO_BIN_EXE_provider-linux");

/// The error that it ends with.
fn error(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn each_reason_not_to_start_is_one_sentence_that_says_what_to_do() {
    let Some(rig) = Rig::new("tcli") else {
        return;
    };
    let router = rig.cloud.router();
    let serve = || {
        let mut command = Command::new(PROGRAM);
        command.arg("serve");
        command
    };
    let nowhere = error(serve().args(["--namespace", "no-such"]));
    assert!(
        nowhere.contains("there is no network namespace no-such"),
        "{nowhere}"
    );
    let no_tools = error(
        serve()
            .args(["--namespace", &router])
            .env("PATH", "/nowhere"),
    );
    assert!(
        no_tools.contains("is not installed: it is in Debian's package conntrack"),
        "{no_tools}"
    );
    let no_cloud = error(serve().args(["--cloud", "none"]));
    assert!(
        no_cloud.contains("there is no network namespace or-none-router"),
        "{no_cloud}"
    );
    inside(
        &router,
        &["sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward"],
    )
    .unwrap();
    let no_way = error(serve().args(["--namespace", &router]));
    assert!(
        no_way.contains("run `sysctl -w net.ipv4.ip_forward=1`"),
        "{no_way}"
    );
    let no_place = error(&mut serve());
    assert!(no_place.contains("--namespace <NAME|host>"), "{no_place}");
}

#[test]
fn cleanup_removes_what_is_marked_with_the_cluster_and_nothing_else() {
    let Some(rig) = Rig::new("tclean") else {
        return;
    };
    let provider = rig.provider();
    let none = Targets::new([]);
    let ensure = |cluster: &str| {
        let web = EnsureLoadBalancerRequest {
            service: Some(service("web", &[("TCP", 80)], &["IPv4"])),
            ..EnsureLoadBalancerRequest::default()
        };
        rig.in_router(async || {
            let ctx = context(cluster);
            provider
                .ensure_load_balancer(&ctx, &web, &none)
                .await
                .unwrap();
        });
    };
    let clean_up = |cluster: &str| {
        let output = Command::new(PROGRAM)
            .args(["cleanup", "--cloud", "tclean", "--cluster", cluster])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    ensure("cluster-1");
    ensure("cluster-2");
    inside(
        &rig.cloud.router(),
        &["nft", "add", "table", "inet", "of-another"],
    )
    .unwrap();
    assert_eq!(
        clean_up("cluster-1"),
        "removed 1 load balancers, and all routes, of the cluster cluster-1\n"
    );
    let traces = rig.traces();
    assert!(
        !traces.contains("cluster-1") && traces.contains("cluster-2"),
        "{traces}"
    );
    clean_up("cluster-2");
    assert_eq!(rig.traces(), "table inet of-another {\n}\n");
}

/// `nft` as a provider finds it: a transaction takes a second, and its beginning and end are in a file.
const SLOW_NFT: &str = r#"#!/bin/sh
[ "$1" != -f ] || { echo begin >> "$LOG"; sleep 1; }
PATH="${PATH#*:}" nft "$@" || exit
[ "$1" != -f ] || echo end >> "$LOG"
"#;

#[test]
fn provider_that_starts_waits_for_the_command_of_one_that_was_killed() {
    let Some(rig) = Rig::new("tkill") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (nft, log) = (dir.path().join("nft"), dir.path().join("log"));
    std::fs::write(&nft, SLOW_NFT).unwrap();
    std::fs::set_permissions(&nft, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), env::var("PATH").unwrap());
    let start = || {
        let endpoint = format!("unix://{}", dir.path().join("s").display());
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--cloud", "tkill", "--endpoint", &endpoint]);
        command.env("PATH", &path).env("LOG", &log).spawn().unwrap()
    };
    let lines = |count: usize| {
        let wait = async {
            loop {
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                if text.lines().count() >= count {
                    return text;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        rig.runtime
            .block_on(async { timeout(Duration::from_secs(30), wait).await })
            .unwrap()
    };
    let mut killed = start();
    lines(1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let mut next = start();
    let log = lines(4);
    next.kill().unwrap();
    next.wait().unwrap();
    assert_eq!(log, "begin\nend\nbegin\nend\n");
}
