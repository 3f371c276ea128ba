//! Nodes whose machine is stopped for long.

use super::*;

const TAINT: &str = "node.kubernetes.io/out-of-service";
/// The flag in these tests.
const AFTER: Duration = Duration::from_mins(10);
/// Not so long.
const ALMOST: Duration = Duration::from_mins(9);

/// So many lost nodes whose machines are stopped, all but the last few of them.
fn stopped(count: usize, running: usize, after: Duration) -> (Fixture, OnLookup) {
    let mut fixture = Fixture::new(Setup {
        cloud: cloud(|config| config.clock = Clock::Wall),
        ..Setup::default()
    });
    let on_lookup = host_with(&mut fixture, DeletionLimits::default(), after);
    fixture.begin_term();
    fixture.nodes.finish_list(|_| true);
    for n in 0..count {
        let name = format!("n{n}");
        let spec = InstanceSpec::named(name.parse().unwrap());
        let instance = fixture.cloud.create(spec).unwrap();
        let id = fixture.cloud.provider_id(&instance.id);
        if n < count - running {
            fixture.cloud.set_power(&name, Power::Shutdown).unwrap();
        }
        fixture.register(settled(&name, &id, "Unknown"));
    }
    (fixture, on_lookup)
}

fn out_of_service(fixture: &Fixture, count: usize) -> usize {
    (0..count)
        .filter(|n| taints(fixture, &format!("n{n}")).contains(TAINT))
        .count()
}

/// The store does not have it yet.
#[tokio::test(start_paused = true)]
async fn a_node_that_became_ready_meanwhile_keeps_its_pods() {
    let (fixture, _) = stopped(3, 2, AFTER);
    sleep(ALMOST).await;
    fixture.cluster.change_node("n0", |node| {
        node["status"]["conditions"][0]["status"] = json!("True");
    });
    sleep(MINUTE * 10).await;
    assert_eq!(out_of_service(&fixture, 1), 0);
    assert_eq!(fixture.events(), Vec::<String>::new());
}

/// The instance is started while the API server takes no writes.
#[tokio::test(start_paused = true)]
async fn a_shutdown_taint_that_was_throttled_is_judged_again() {
    let (fixture, _) = stopped(3, 2, Duration::ZERO);
    fixture.cluster.refuse("/nodes/n0", 429, usize::MAX);
    sleep(Duration::from_secs(20)).await;
    fixture.cloud.set_power("n0", Power::Running).unwrap();
    fixture.cluster.accept();
    sleep(MINUTE).await;
    assert_eq!(taints(&fixture, "n0"), "null");
}
