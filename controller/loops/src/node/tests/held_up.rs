//! Sweeps over Nodes of which some, or all, cannot be looked up for a while.

use outrigger_provider_mock::cloud::Preference;
use tokio::time::{Instant, sleep};

use super::{refresh::*, *};
use outrigger_runtime::fixture::Warnings;

#[tokio::test(start_paused = true)]
async fn a_node_whose_lookup_hangs_holds_up_no_sweep() {
    for preference in [Preference::Batch, Preference::Each] {
        let fixture = fleet(150, preference).await;
        sleep(PERIOD).await;
        let hang = Effect::Hang { duration: None };
        let fault = Fault::on(Method::BatchGetInstances, hang);
        fixture.cloud.inject(fault.for_node("n3".parse().unwrap()));
        // In its batch, and in others.
        let edited = ["n2", "n4", "n149"];
        let addresses_before = edited.map(|name| fixture.live(name)["status"]["addresses"].clone());
        for _ in 0..2 {
            for name in edited {
                edit_addresses(&fixture, name);
            }
            // A period and a deadline.
            sleep(PERIOD + Duration::from_secs(35)).await;
            let live = edited.map(|name| fixture.live(name)["status"]["addresses"].clone());
            assert_eq!(live, addresses_before, "{preference:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_does_not_send_at_once_what_a_pause_kept_back() {
    let fixture = fleet(600, Preference::Each).await;
    sleep(PERIOD).await;
    let limited = InjectedError::new(tonic::Code::ResourceExhausted)
        .with_reason("RATE_LIMITED")
        .retry_after(Duration::from_mins(1));
    let fault = Fault::on(Method::BatchGetInstances, Effect::Error(limited));
    fixture.cloud.inject(fault.times(1));
    let began = Instant::now();
    let (mut busiest, mut total) = (0, 0);
    while began.elapsed() < PERIOD {
        fixture.cloud.take_counters();
        sleep(Duration::from_secs(1)).await;
        let calls = fixture.cloud.counters().cloud_calls();
        busiest = busiest.max(calls);
        total += calls;
    }
    // Two nodes each second.
    assert!(busiest <= 4, "{busiest}");
    assert!((400..=500).contains(&total), "{total}");
}

/// All wait for one call, or for one thing in the cloud.
#[tokio::test(start_paused = true)]
async fn a_call_that_fails_for_many_nodes_is_one_line() {
    let warnings = Warnings::listen();
    let fixture = start();
    let crash = InjectedError::new(tonic::Code::Unknown)
        .without_reason()
        .with_message("RuntimeException");
    let fault = Fault::on(Method::BatchGetInstances, Effect::Error(crash));
    fixture.cloud.inject(fault);
    for n in 0..2_000 {
        fixture.register(node(&format!("n{n}")));
    }
    sleep(Duration::from_secs(45)).await;
    let lines = warnings.with("RuntimeException");
    assert!(lines.len() <= 2, "{} lines: {}", lines.len(), lines[0]);
    // 17 calls for each batch, each time that a pause has ended.
    let calls = fixture.calls("BatchGetInstances");
    assert!(calls <= 4_000, "{calls}");
}

#[tokio::test(start_paused = true)]
async fn where_a_list_is_too_large_batches_serve_as_well() {
    let warnings = Warnings::listen();
    let fixture = fleet(150, Preference::List).await;
    sleep(PERIOD).await;
    // tonic ends such a call so.
    let oversized = InjectedError::new(tonic::Code::OutOfRange)
        .without_reason()
        .with_message(
            "Error, decoded message length too large: found 6944372 bytes, the limit is: 4194304 bytes",
        );
    let fault = Fault::on(Method::ListInstances, Effect::Error(oversized));
    fixture.cloud.inject(fault);
    sleep(PERIOD * 2).await;
    let listed = fixture.calls("ListInstances");
    let addresses_before = fixture.live("n7")["status"]["addresses"].clone();
    for _ in 0..2 {
        edit_addresses(&fixture, "n7");
        sleep(PERIOD * 2).await;
        assert_eq!(fixture.live("n7")["status"]["addresses"], addresses_before);
    }
    let lines = warnings.with("the list of instances is too large");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(fixture.calls("ListInstances"), listed, "listed again");
}
