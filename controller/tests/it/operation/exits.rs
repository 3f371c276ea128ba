//! How the program ends, and what it prints where (CLI-3 … CLI-7, PROC-10, PROC-11).

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
async fn requested_output_goes_to_standard_output() {
    for (flag, beginning) in [
        ("--help", "Outrigger's cloud-controller-manager: "),
        ("-h", "Outrigger's cloud-controller-manager: "),
        ("--version", "Outrigger v"),
    ] {
        let (code, out, err) = run(&[flag]).await;
        assert_eq!((code, &*err), (Some(0), ""), "{flag}");
        assert!(out.contains(beginning), "{flag}: {out}");
    }
}

#[tokio::test]
async fn mistakes_go_to_standard_error() {
    for (flag, sentence) in [
        ("--foo", "error: unexpected argument '--foo' found"),
        // CLI-26.
        (
            "--controllers=foo",
            "error: \"foo\" is not in the list of known controllers",
        ),
    ] {
        let (code, out, err) = run(&[flag]).await;
        assert_eq!((code, &*out), (Some(1), ""), "{flag}");
        assert_eq!(err.lines().next(), Some(sentence), "{flag}");
    }
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
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(status.code(), Some(1), "{status}");
    let log = stage.controller.log();
    assert!(log.contains("second termination signal"), "{log}");
}
