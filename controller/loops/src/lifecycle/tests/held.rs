//! Deletions that wait for the provider, or for an operator, and writes that wait for neither.

use super::*;

fn confirm(fixture: &Fixture, name: &str) {
    fixture.cluster.change_node(name, |node| {
        node["metadata"]["labels"] =
            json!({"outrigger.dev.node-restriction.kubernetes.io/confirm-deletion": "true"});
    });
    fixture.refresh(name);
}

fn withheld(fixture: &Fixture, reason: &str) -> Option<f64> {
    let line = format!("outrigger_node_deletions_withheld_total{{reason=\"{reason}\"}}");
    value(fixture, &line)
}

/// The provider catches every error of its cloud and returns an empty list.
#[tokio::test(start_paused = true)]
async fn no_node_is_deleted_while_the_provider_is_not_ready() {
    let fixture = fleet(10, "Unknown", 2);
    let degraded = InjectedError::new(tonic::Code::Internal);
    let fault = Fault::on(Method::GetStatus, Effect::Error(degraded));
    fixture.cloud.inject(fault);
    sleep(MINUTE * 10).await;
    assert_eq!(left(&fixture, 10), 10);
    assert_eq!(withheld(&fixture, "provider_not_ready"), Some(2.0));
    assert_eq!(fixture.events(), ["NodeDeletionWithheld"; 2]);
    let said = fixture.cluster.event_messages().join("");
    assert!(said.contains("the provider is not READY"), "{said}");

    // An operator knows better.
    confirm(&fixture, "n0");
    sleep(MINUTE * 2).await;
    assert!(!fixture.exists("n0") && fixture.exists("n1"));

    fixture.cloud.clear_faults();
    sleep(MINUTE * 2).await;
    assert_eq!(left(&fixture, 10), 8);
}

/// Whichever loop asked.
#[tokio::test(start_paused = true)]
async fn no_node_is_deleted_whose_instance_another_loop_has_seen() {
    let mut fixture = Fixture::new(Setup {
        cloud: cloud(|config| config.clock = Clock::Wall),
        ..Setup::default()
    });
    let on_lookup = host(&mut fixture, DeletionLimits::default());
    fixture.begin_term();
    fixture.nodes.finish_list(|_| true);
    fixture.register(settled("n0", "mock://gone", "Unknown"));
    let node = fixture.nodes.get("n0").unwrap();
    let lookup = Lookup::Found(Box::new(Instance {
        provider_id: node.provider_id.clone(),
        ..Instance::default()
    }));
    for _ in 0..100 {
        sleep(Duration::from_secs(3)).await;
        on_lookup(&node, Some(&lookup));
    }
    assert!(fixture.exists("n0"));
    assert_eq!(withheld(&fixture, "contradicted"), Some(1.0));
    assert_eq!(fixture.events(), ["NodeDeletionWithheld"]);
    confirm(&fixture, "n0");
    for _ in 0..40 {
        sleep(Duration::from_secs(3)).await;
        on_lookup(&node, Some(&lookup));
    }
    assert!(!fixture.exists("n0"));
}

#[tokio::test(start_paused = true)]
async fn one_answer_that_a_node_is_not_managed_does_not_keep_it_for_ever() {
    let fixture = fleet(10, "Unknown", 1);
    let answer = Effect::BadAnswer(BadAnswer::NotManaged);
    let once = Fault::on(Method::BatchGetInstances, answer).times(1);
    fixture.cloud.inject(once);
    sleep(MINUTE * 4).await;
    assert!(fixture.exists("n0"));
    sleep(MINUTE * 3).await;
    assert!(!fixture.exists("n0"));
}

/// A stopped machine's node, with the taint.
async fn tainted() -> Fixture {
    let fixture = fleet(2, "Unknown", 0);
    fixture.cloud.set_power("n0", Power::Shutdown).unwrap();
    sleep(Duration::from_secs(10)).await;
    assert!(taints(&fixture, "n0").contains(SHUTDOWN));
    fixture.refresh("n0");
    fixture
}

async fn loses_its_taint_at_once(fixture: &Fixture) {
    says(fixture, "n0", "True");
    sleep(Duration::from_secs(1)).await;
    assert!(
        !taints(fixture, "n0").contains(SHUTDOWN),
        "a ready node has the shutdown taint"
    );
}

#[tokio::test(start_paused = true)]
async fn the_shutdown_taint_goes_from_a_ready_node_while_the_provider_is_away() {
    let fixture = tainted().await;
    fixture.wire.cut();
    sleep(MINUTE).await;
    loses_its_taint_at_once(&fixture).await;
    // The question about the other one is asked as soon as it can be.
    fixture.cloud.delete("n1").unwrap();
    sleep(MINUTE).await;
    fixture.wire.mend();
    sleep(MINUTE).await;
    assert!(!fixture.exists("n1") && fixture.exists("n0"));
}

#[tokio::test(start_paused = true)]
async fn the_shutdown_taint_goes_from_a_ready_node_while_its_lookup_waits() {
    let limited = InjectedError::new(tonic::Code::ResourceExhausted)
        .with_reason("RATE_LIMITED")
        .retry_after(MINUTE * 30);
    for effect in [Effect::Error(limited), Effect::Hang { duration: None }] {
        let fixture = tainted().await;
        fixture
            .cloud
            .inject(Fault::on(Method::BatchGetInstances, effect));
        sleep(MINUTE).await;
        loses_its_taint_at_once(&fixture).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_taint_of_a_stop_that_another_client_adds_to_a_ready_node_is_answered_with_back_off() {
    let fixture = fleet(1, "True", 0);
    for _ in 0..2_000 {
        if !taints(&fixture, "n0").contains(SHUTDOWN) {
            fixture.cluster.change_node("n0", |node| {
                node["spec"]["taints"] = json!([{"key": SHUTDOWN, "effect": "NoSchedule"}]);
            });
        }
        fixture.refresh("n0");
        sleep(Duration::from_millis(10)).await;
    }
    let writes = fixture.api_writes();
    let is_patch = |write: &&String| write.starts_with("PATCH /api/v1/nodes/");
    let patches = writes.iter().filter(is_patch);
    assert_eq!(patches.count(), 3, "{writes:?}");
    assert!(
        fixture
            .events()
            .contains(&"OverwrittenByAnotherClient".to_owned()),
        "{writes:?}"
    );
}
