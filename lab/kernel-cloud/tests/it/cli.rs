//! The program: what it says where it cannot work, and how it cleans up.

use std::process::Command;

use outrigger_provider_sdk::{LoadBalancers as _, Targets, v1::EnsureLoadBalancerRequest};

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
    inside(&rig.cloud.router(), &["nft", "add table inet of-another"]).unwrap();
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
