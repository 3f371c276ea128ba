//! Deletions that wait for the provider, or for an operator.

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

/// It is asked whether the provider is READY, and the Node goes before the answer.
#[tokio::test(start_paused = true)]
async fn nothing_stays_of_a_node_that_goes_while_its_deletion_is_judged() {
    let mut fixture = Fixture::new(Setup {
        cloud: cloud(|config| config.clock = Clock::Wall),
        ..Setup::default()
    });
    let inputs = hosted(&mut fixture, DeletionLimits::default(), Duration::ZERO);
    fixture.begin_term();
    fixture.nodes.finish_list(|_| true);
    let spec = InstanceSpec::named("n1".parse().unwrap());
    let id = fixture.cloud.create(spec).unwrap().id.clone();
    let id = fixture.cloud.provider_id(&id);
    fixture.register(settled("n1", &id, "True"));
    fixture.register(settled("n0", "mock://gone", "Unknown"));
    let hang = Effect::Hang {
        duration: Some(Duration::from_secs(5)),
    };
    fixture.cloud.inject(Fault::on(Method::GetStatus, hang));
    let calls = fixture.calls("GetStatus");
    let is_judged =
        |fixture: &Fixture| fixture.cloud.counters().calls("BatchGetInstances", "OK") >= 2;
    while !is_judged(&fixture) {
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_secs(1)).await;
    fixture.vanish("n0");
    fixture.settle().await;
    assert!(fixture.calls("GetStatus") > calls);
    let state = inputs.state.current().unwrap();
    assert!(state.withheld.lock().is_empty());
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
