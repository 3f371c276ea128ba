//! The loop hosted by the fixture.

mod addresses;
mod effects;
mod failures;
mod left_alone;
mod refresh;
mod trust;
mod undone;

use std::{sync::Arc, time::Duration};

use outrigger_core::node::maintenance::MaintenanceSettings;
use outrigger_provider_mock::{
    Cloud, CloudConfig, ProviderOptions,
    faults::{Effect, Fault, InjectedError, Method},
};
use serde_json::json;

use super::{CloudNode, CloudNodeState, NAME, NodeMetrics, NodeSettings, OnLookup, subscribe};
use crate::{
    control_loop::LoopInputs,
    fixture::{Fixture, Setup, cloud},
    not_managed::NotManaged,
};
use outrigger_kube::fixture::{POLICY, UNINITIALIZED, node};

/// In which each initialised node is looked at once.
const PERIOD: Duration = Duration::from_mins(5);

/// The loop in this cloud, with lookups of at most 100 nodes. `on_lookup` takes its answers.
fn hosted(cloud: Cloud, on_lookup: impl FnOnce(&mut Fixture) -> OnLookup) -> Fixture {
    let options = ProviderOptions {
        max_batch_size: 100,
        ..ProviderOptions::default()
    };
    hosted_with(cloud, options, on_lookup)
}

fn hosted_with(
    cloud: Cloud,
    provider: ProviderOptions,
    on_lookup: impl FnOnce(&mut Fixture) -> OnLookup,
) -> Fixture {
    hosted_on(cloud, provider, on_lookup).0
}

/// Also the queue and the state of the lease term.
fn hosted_on(
    cloud: Cloud,
    provider: ProviderOptions,
    on_lookup: impl FnOnce(&mut Fixture) -> OnLookup,
) -> (Fixture, LoopInputs<Arc<str>, CloudNodeState>) {
    let mut fixture = Fixture::new(Setup {
        cloud,
        provider,
        ..Setup::default()
    });
    let not_managed = NotManaged::of(&fixture.nodes);
    let inputs = subscribe(&fixture.nodes, &fixture.queues);
    let settings = NodeSettings {
        workers: 32,
        refreshers: 32,
        refresh_period: PERIOD,
        selector: None,
        manages_additional_labels: false,
        maintenance: MaintenanceSettings {
            condition: true,
            taint_before: Duration::from_hours(1),
        },
    };
    let on_lookup = on_lookup(&mut fixture);
    let metrics = NodeMetrics::register(&mut fixture.registry);
    fixture.host(NAME, inputs.clone(), move |context| {
        let cloud_node = CloudNode::new(
            context,
            settings.clone(),
            Arc::clone(&not_managed),
            Arc::clone(&on_lookup),
            metrics.clone(),
        );
        // The Nodes of a whole cluster wait for the provider at one time.
        let size = size_of_val(&cloud_node.sync("n".into()));
        assert!(size <= 1664, "{size}");
        cloud_node
    });
    fixture.nodes.finish_list(|_| true);
    fixture.begin_term();
    (fixture, inputs)
}

fn start_in(cloud: Cloud) -> Fixture {
    hosted(cloud, |_| Arc::new(|_, _| {}))
}

/// With a machine for every node.
fn start() -> Fixture {
    start_in(synthesizing(|_| {}))
}

/// A cloud with a machine for every node.
fn synthesizing(configure: impl FnOnce(&mut CloudConfig)) -> Cloud {
    cloud(|config| {
        config.synthesize = true;
        configure(config);
    })
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_nodes_that_wait_to_be_written() {
    let fixture = start();
    let stop = fixture.stop();
    fixture.cluster.before_next_patch(move |_| stop.cancel());
    let names: Vec<_> = (0..200).map(|n| format!("n{n}")).collect();
    for name in &names {
        fixture.register(node(name));
    }
    fixture.settle().await;
    let is_written = |name: &&String| fixture.live(name)["spec"]["providerID"].is_string();
    let written = names.iter().filter(is_written).count();
    assert!((1..100).contains(&written), "{written}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_once_another_process_may_lead() {
    let fixture = start_in(synthesizing(|config| {
        config.latency = Duration::from_secs(5);
    }));
    fixture.register(node("n1"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    fixture.fence();
    fixture.asked(1).await;
    fixture.settle().await;
    assert!(
        fixture.api_writes().is_empty(),
        "{:?}",
        fixture.api_writes()
    );
    fixture.register(node("n2"));
    fixture.settle().await;
    let calls = fixture.cloud.counters().calls("BatchGetInstances", "OK");
    assert_eq!(calls, 1, "nor is the provider called");
}

#[tokio::test(start_paused = true)]
async fn a_cold_start_asks_in_full_batches() {
    let fixture = start();
    for n in 0..1000 {
        fixture.register(node(&format!("n{n}")));
    }
    fixture
        .cluster
        .until(|requests| patches(requests) == 2000)
        .await;
    let calls = fixture.cloud.counters().calls("BatchGetInstances", "OK");
    assert!(
        (10..=12).contains(&calls),
        "{calls} calls for 1,000 nodes in batches of 100"
    );
}

fn patches(requests: &[String]) -> usize {
    requests
        .iter()
        .filter(|request| request.starts_with("PATCH"))
        .count()
}
