//! How the program starts and ends, and what it prints where (CLI-3 … CLI-7, PROC-10, PROC-11).

use std::{net::TcpListener, process::Stdio, time::Duration};

use http::Method;
use outrigger_testbed::{
    faults::{Fault, Rule},
    nodes::Machine,
};
use rustix::process::Signal;
use tokio::{
    process::Command,
    time::{Instant, timeout},
};

use crate::{
    controller::plain,
    stage::Setup,
    wait::{DEADLINE, holds, until},
};

/// Exit code, standard output, standard error.
async fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let ended = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"))
        .args(args)
        .env_clear()
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let ended = timeout(DEADLINE, ended).await.expect("it ends").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let err = plain(&text(ended.stderr));
    (ended.status.code(), text(ended.stdout), err)
}

#[tokio::test]
async fn requested_output_goes_to_standard_output_and_mistakes_to_standard_error() {
    for (flag, beginning) in [
        ("--help", "Outrigger's cloud-controller-manager: "),
        ("--version", "Outrigger v"),
    ] {
        let (code, out, err) = run(&[flag]).await;
        assert_eq!((code, &*err), (Some(0), ""), "{flag}");
        assert!(out.contains(beginning), "{flag}: {out}");
    }
    let (code, out, err) = run(&["--foo"]).await;
    assert_eq!((code, &*out), (Some(1), ""));
    let sentence = "error: unexpected argument '--foo' found";
    assert_eq!(err.lines().next(), Some(sentence));
}

#[tokio::test]
async fn a_port_that_is_taken_ends_it_before_anything_is_asked_for() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = format!("--secure-port={}", address.port());
    // No listener: the controller would wait for it.
    let args = [
        "--bind-address=127.0.0.1",
        &port,
        "--master=http://127.0.0.1:1",
    ];
    let (code, out, err) = run(&args).await;
    assert_eq!((code, &*out), (Some(1), ""));
    let sentence =
        format!("\"command failed\" err=\"failed to listen on {address}: Address already in use");
    let lines = err.lines().filter(|line| line.contains(&sentence));
    assert_eq!(lines.count(), 1, "{err}");
    assert!(!err.contains("cannot use the API server"), "{err}");

    // CLI-7: what it was started with, in order of name, from -v=1 on.
    assert!(!err.contains("FLAG:"), "{err}");
    let (_, _, err) = run(&[args[0], args[1], args[2], "-v=1"]).await;
    let flags = err.lines().filter_map(|line| line.split_once("FLAG: "));
    let flags: Vec<_> = flags
        .filter_map(|(_, flag)| flag.strip_suffix('"'))
        .collect();
    assert!(
        flags.is_sorted_by_key(|flag| flag.split('=').next()),
        "{flags:?}"
    );
    for flag in [
        "--bind-address=\"127.0.0.1\"",
        "--leader-elect-lease-duration=\"15s\"",
        "--v=\"1\"",
    ] {
        assert!(flags.contains(&flag), "{flag}: {flags:?}");
    }
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
    stage.register(&Machine::new("untagged")).await;
    stage.synced("untagged").await;
}

#[tokio::test]
async fn an_api_server_that_is_not_there_is_waited_for_and_keeps_no_process_from_ending() {
    let backstage = Setup::synthesizing().prepare().await;
    backstage.proxy.refuse_connections().await;
    let server = backstage.proxy.url();
    let mut stage = backstage.start();
    let sentence = "cannot use the API server";
    let line = stage.controller.says(&[sentence]).await;
    assert!(line.contains(&format!("server=\"{server}/\"")), "{line}");
    assert!(line.contains("Connection refused"), "{line}");
    assert!(line.contains("check --kubeconfig and --master"), "{line}");
    stage.restart_controller().await;
    let pid = stage.controller.pid();
    stage.register(&Machine::new("late")).await;
    until("the next process says it too", async || {
        let lines = stage.controller.lines(sentence);
        holds(lines == 2, || format!("{lines}"))
    })
    .await;
    stage.proxy.accept_connections().await;
    stage.synced("late").await;
    assert_eq!(stage.controller.lines(sentence), 2);
    assert_eq!(stage.controller.pid(), pid);
}

#[tokio::test]
async fn sigint_ends_it_as_sigterm_does() {
    let mut stage = Setup::synthesizing().start().await;
    stage.register(&Machine::new("before")).await;
    stage.synced("before").await;
    stage.controller.signal(Signal::INT);
    let status = stage.controller.ended().await;
    assert_eq!(status.code(), Some(0), "{status}");
}

/// Work in flight ends first; a second signal does not wait for it.
#[tokio::test]
async fn a_second_sigterm_ends_it_at_once() {
    let mut stage = Setup::synthesizing().start().await;
    let stuck = Rule::new(Fault::Silence).method(Method::PATCH);
    let stuck = stage.proxy.inject(stuck);
    stage.register(&Machine::new("stuck")).await;
    until("a write that is stuck", async || {
        holds(stuck.hits() > 0, || "none".to_owned())
    })
    .await;
    stage.controller.signal(Signal::TERM);
    stage
        .controller
        .says(&["ending: no new work is taken"])
        .await;
    let signalled = Instant::now();
    stage.controller.signal(Signal::TERM);
    let status = stage.controller.ended().await;
    let took = signalled.elapsed();
    // The write would have 25 s to end.
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(status.code(), Some(1), "{status}");
    let log = stage.controller.log();
    assert!(log.contains("second termination signal"), "{log}");
}
