//! The memory of the process while users and a provider make it hold as much as they can.
//!
//! The sizes are small by default; docs/deploy.md has the commands for full size.

use std::{
    env,
    fmt::Write as _,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Service;
use kube::api::PostParams;
use outrigger_testbed::nodes::Machine;
use serde_json::json;

use crate::{
    caller::{Port, value},
    cluster::{Cluster, services::load_balancer_with},
    controller::Controller,
    look::services::condition,
    plane::USER,
    stage::Setup,
    wait::{DEADLINE, holds, until_within},
};

/// Below the chart's limit of 256 MiB, since the kernel counts more than what is resident.
const MOST: u64 = 224 << 20;

/// Bytes of annotations; the API server takes 256 KiB.
const LARGE: usize = 250 << 10;

fn size(variable: &str, usual: usize) -> usize {
    env::var(variable).map_or(usual, |size| size.parse().unwrap())
}

/// The most memory that the process had so far, in bytes.
fn peak(controller: &mut Controller) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", controller.pid())).unwrap();
    let mut lines = status.lines();
    let peak = lines.find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
    peak.unwrap().trim().parse::<u64>().unwrap() << 10
}

/// Prints the peak and holds it against the limit.
fn stays_small(what: &str, controller: &mut Controller) {
    let peak = peak(controller);
    println!("{what}: {} MiB at most", peak >> 20);
    assert!(peak < MOST, "{what}: {peak} bytes");
}

/// Waits until a metric has a value for which `is_so` holds.
async fn reaches(port: &Port, metric: &str, deadline: Duration, is_so: impl Fn(f64) -> bool) {
    until_within(metric, deadline, async || {
        let number = value(&port.scrape().await, metric);
        holds(number.is_some_and(&is_so), || format!("{number:?}"))
    })
    .await;
}

/// Makes Services with so many bytes of an annotation that the provider reads.
async fn expose(cluster: &Cluster, these: Range<usize>, bytes: usize) {
    let large = "x".repeat(bytes);
    let services = cluster.services();
    let made = stream::iter(these).map(|at| {
        let change = json!({
            "metadata": {"annotations": {"junk.example/a": large}},
            "spec": {"allocateLoadBalancerNodePorts": false},
        });
        let service = load_balancer_with(&name(at), change);
        let (services, parameters) = (services.clone(), PostParams::default());
        async move {
            let service: Service = serde_json::from_value(service).unwrap();
            services.create(&parameters, &service).await.map(drop)
        }
    });
    let made = made.buffer_unordered(8).try_collect::<()>();
    made.await.unwrap();
}

/// Waits until each of so many Services says that it is too large.
async fn settle(cluster: &Cluster, port: &Port, count: usize) {
    let deadline = DEADLINE + Duration::from_millis(100) * count as u32;
    let all = count as f64 + 1.0;
    let objects = r#"outrigger_store_objects{resource="services"}"#;
    reaches(port, objects, deadline, |number| number >= all).await;
    // Read one by one, because the API server would keep a list of all of them for a while.
    let settled = stream::iter(0..count).map(|at| async move {
        let name = name(at);
        until_within(&format!("{name} is held"), deadline, async || {
            let service = cluster.service(&name).await;
            let is_held = condition(&service, "Waiting") == ("True", "TooLarge");
            holds(is_held, || format!("{:?}", service.status))
        })
        .await;
    });
    settled.buffer_unordered(8).collect::<()>().await;
}

fn name(at: usize) -> String {
    format!("s{at:05}")
}

#[tokio::test]
async fn services_that_are_too_large_are_held() {
    let count = size("OUTRIGGER_TEST_SERVICES", 120);
    let port = Port::reserve();
    let stage = Setup::mock(&["--service-annotation-prefix=junk.example/"])
        .scraped_at(&port)
        .prepare()
        .await;
    expose(&stage, 0..count / 2, LARGE).await;
    let kubeconfig = stage.plane.kubeconfig(USER, None).unwrap();
    let mut stage = stage.start_with(&kubeconfig);
    settle(&stage, &port, count / 2).await;
    stays_small("Services of a list", &mut stage.controller);

    expose(&stage, count / 2..count, LARGE).await;
    settle(&stage, &port, count).await;
    stays_small("Services of a watch", &mut stage.controller);

    stage.restart_controller().await;
    settle(&stage, &port, count).await;
    stays_small("Services that were there before", &mut stage.controller);
}

/// A cloud with so many machines, about 1 KiB each, as a file that the mock reads.
fn account(dir: &Path, machines: usize) -> PathBuf {
    let mut cloud = "instances:\n- name: m-00000\n  labels: &labels\n".to_owned();
    for at in 0..8 {
        writeln!(cloud, "    example.com/label-{at}: {}", "x".repeat(63)).unwrap();
    }
    for at in 1..machines {
        writeln!(cloud, "- name: m-{at:05}\n  labels: *labels").unwrap();
    }
    let path = dir.join("cloud.yaml");
    fs::write(&path, cloud).unwrap();
    path
}

#[tokio::test]
async fn of_an_account_with_many_machines_only_those_of_nodes_are_kept() {
    let count = size("OUTRIGGER_TEST_MACHINES", 5_000);
    let nodes = count / 100;
    let deadline = DEADLINE + Duration::from_millis(50) * count as u32;
    let port = Port::reserve();
    let mut stage = Setup::without_provider()
        .scraped_at(&port)
        .flag("--node-status-update-frequency=1s")
        .machines(Machine::numbered("m-", nodes))
        .prepare()
        .await;
    let account = account(stage.dir(), count);
    let account = format!("--cloud={}", account.display());
    stage
        .mock
        .start(&[account, "--lookup-preference=list".to_owned()])
        .await;
    let mut stage = stage.start();
    stage.all_synced("m-", nodes).await;
    let before = peak(&mut stage.controller);
    stays_small("before the first list", &mut stage.controller);

    let sweeps = "outrigger_node_refresh_duration_seconds_count";
    reaches(&port, sweeps, deadline, |sweeps| sweeps >= 2.0).await;
    let field = format!("found={nodes} ");
    stage.controller.says(&["nodes refreshed", &field]).await;
    for refused in ["is too large", "cannot be listed"] {
        assert_eq!(stage.controller.lines(refused), 0, "{refused}");
    }
    stays_small("after some lists", &mut stage.controller);
    // The kernel counts a little behind.
    let more = peak(&mut stage.controller).saturating_sub(before);
    println!("{} KiB more for {count} machines", more >> 10);
}
