//! Sweeps over initialised nodes, in virtual hours.

use outrigger_core::node::deletion_limit::DeletionLimits;
use outrigger_provider_mock::{cloud::Preference, instances::InstanceSpec};
use tokio::time::{Instant, sleep};

use super::*;
use crate::{
    fixture::{days_and_hours, each_costs_as_much},
    lifecycle,
};
use outrigger_kube::fixture::settled;
use outrigger_runtime::fixture::Warnings;

/// So many nodes, initialised, in a cloud that is best asked like this.
pub(super) async fn fleet(count: usize, preference: Preference) -> Fixture {
    let fixture = start_in(synthesizing(|config| config.preference = preference));
    for n in 0..count {
        fixture.register(node(&format!("n{n}")));
    }
    let done = |requests: &[String]| requests.iter().filter(|r| r.ends_with("/status")).count();
    fixture
        .cluster
        .until(|requests| done(requests) == count)
        .await;
    fixture.until_events(count).await;
    fixture
}

/// The writes since, other than those of initialisation.
fn writes_after(fixture: &Fixture, before: usize) -> Vec<String> {
    fixture.api_writes().split_off(before)
}

pub(super) fn edit_addresses(fixture: &Fixture, name: &str) {
    fixture.cluster.change_node(name, |node| {
        node["status"]["addresses"] = json!([{"type": "Hostname", "address": name}]);
    });
    fixture.refresh(name);
}

#[tokio::test(start_paused = true)]
async fn q1_a_period_in_which_nothing_changed_costs_no_write_and_few_calls() {
    // One cloud call is a page of 200, one question a batch of 100.
    for (preference, calls_an_hour) in [(Preference::List, 60), (Preference::Batch, 120)] {
        let fixture = fleet(1000, preference).await;
        sleep(PERIOD).await;
        let before = fixture.api_writes().len();
        fixture.cloud.take_counters();
        sleep(PERIOD * 12).await;
        assert_eq!(writes_after(&fixture, before), Vec::<String>::new());
        let calls = fixture.cloud.counters().cloud_calls();
        let allowed = calls_an_hour..=calls_an_hour + 10;
        assert!(allowed.contains(&calls), "{preference:?}: {calls}");
    }
}

#[tokio::test(start_paused = true)]
async fn batches_are_spread_over_the_period() {
    for preference in [Preference::Batch, Preference::Each] {
        let fixture = fleet(600, preference).await;
        sleep(PERIOD).await;
        let mut busiest = 0;
        for _ in 0..300 {
            fixture.cloud.take_counters();
            sleep(Duration::from_secs(1)).await;
            busiest = busiest.max(fixture.cloud.counters().cloud_calls());
        }
        // Batches of 100 each 50 s, or two nodes each second.
        assert!((1..=3).contains(&busiest), "{preference:?}: {busiest}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_listed_is_asked_about_and_says_so_while_its_kubelet_is_alive() {
    let fixture = fleet(30, Preference::List).await;
    fixture.cluster.change_node("n3", |node| {
        node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    });
    fixture.refresh("n3");
    fixture.cloud.delete("n3").unwrap();
    let before = fixture.events().len();
    sleep(PERIOD * 2).await;
    let events = fixture.events().split_off(before);
    assert_eq!(events, ["InstanceNotFound"]);
    let metrics = fixture.metrics();
    let counted = metrics
        .lines()
        .find_map(|line| line.strip_prefix("outrigger_node_absent_while_ready_total "));
    assert!(
        counted.is_some_and(|count| count.parse::<u32>().unwrap() > 0),
        "{metrics}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_lists_nothing_is_not_asked_about_every_node() {
    let fixture = fleet(300, Preference::List).await;
    for n in 0..300 {
        fixture.cloud.delete(&format!("n{n}")).unwrap();
    }
    sleep(PERIOD).await;
    fixture.cloud.take_counters();
    sleep(PERIOD * 12).await;
    // A tenth of all nodes each period, and the list.
    let calls = fixture.cloud.counters().cloud_calls();
    assert!(calls <= 13 * (30 + 2), "{calls}");
}

/// A sweep takes up to a period: Nodes that are deleted with their machines meanwhile are no absences of
/// nodes whose kubelets are alive, which would exceed the rate limit of deletions.
#[tokio::test(start_paused = true)]
async fn nodes_that_are_deleted_during_a_sweep_do_not_speak_against_the_provider() {
    for preference in [Preference::List, Preference::Batch, Preference::Each] {
        let cloud = cloud(|config| config.preference = preference);
        let fixture = hosted(cloud, |fixture| {
            lifecycle::tests::host(fixture, DeletionLimits::default())
        });
        for n in 0..200 {
            let name = format!("n{n:03}");
            let spec = InstanceSpec::named(name.parse().unwrap());
            let instance = fixture.cloud.create(spec).unwrap();
            let id = fixture.cloud.provider_id(&instance.id);
            fixture.register(settled(&name, &id, "True"));
        }
        sleep(PERIOD).await;
        for n in 0..150 {
            let name = format!("n{:03}", 199 - n);
            fixture.cloud.delete(&name).unwrap();
            fixture.vanish(&name);
            sleep(Duration::from_secs(2)).await;
        }
        sleep(Duration::from_secs(20)).await;
        let line = r#"outrigger_node_deletion_limit_nodes{state="absent_while_ready"} 0"#;
        let metrics = fixture.metrics();
        assert!(metrics.contains(line), "{preference:?}: {metrics}");
        let never = "outrigger_node_absent_while_ready_total 0";
        assert!(metrics.contains(never), "{preference:?}: {metrics}");
    }
}

/// Its Nodes come and go.
#[tokio::test(start_paused = true)]
async fn each_day_of_a_fleet_costs_as_much_as_the_day_before() {
    let fixture = fleet(100, Preference::List).await;
    let ((count, hours), mut days) = (days_and_hours(), Vec::new());
    for day in 0..count {
        for hour in 0..hours {
            let name = format!("day-{day}-{hour}");
            fixture.register(node(&name));
            fixture.initialized(&name).await;
            sleep(Duration::from_mins(40)).await;
            fixture.vanish(&name);
            fixture.cloud.delete(&name);
            sleep(Duration::from_mins(20)).await;
        }
        days.push(fixture.day());
    }
    each_costs_as_much(&days);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_lookup_hangs_holds_up_no_sweep() {
    // A list lacks a tenth of the nodes.
    for (preference, hanging) in [
        (Preference::Batch, 3..4),
        (Preference::Each, 3..4),
        (Preference::List, 250..280),
    ] {
        let fixture = fleet(300, preference).await;
        sleep(PERIOD).await;
        for n in hanging {
            let name = format!("n{n}");
            let hang = Effect::Hang { duration: None };
            let fault = Fault::on(Method::BatchGetInstances, hang);
            fixture.cloud.inject(fault.for_node(name.parse().unwrap()));
            fixture.cloud.delete(&name).unwrap();
        }
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
