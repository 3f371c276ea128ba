//! What a scrape sees.

use prometheus_client::{encoding::text::encode, registry::Registry};

use super::*;

/// The lines of a scrape without comments and histogram buckets, sorted.
fn scrape(registry: &Registry) -> Vec<String> {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let lines = text.lines();
    let lines = lines.filter(|line| !line.starts_with('#') && !line.contains("_bucket"));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_names_and_labels_of_client_go() {
    let mut registry = Registry::default();
    let metrics = QueueMetrics::register(&mut registry);
    assert!(
        scrape(&registry).is_empty(),
        "no series before first use (M-51)"
    );

    let queue = Queue::new("Nodes", Backoff::default(), &metrics);
    let rig = Rig::start(queue, 1, Gate::always_open(), |key, nth| match (key, nth) {
        ("a", 0) => (2 * SECOND, Outcome::Retry),
        _ => (4 * SECOND, Outcome::Done),
    });
    rig.add("a");
    rig.add("b");
    rig.at(3 * SECOND).await;
    rig.add("c");
    rig.add("c");
    rig.at(5 * SECOND).await;
    // "b" runs since 2 s; "a" waits again since 2.005 s, "c" since 3 s.
    assert_eq!(
        scrape(&registry),
        [
            r#"outrigger_workqueue_oldest_seconds{name="Nodes"} 2.995"#,
            r#"outrigger_workqueue_panics_total{name="Nodes"} 0"#,
            r#"workqueue_adds_total{name="Nodes"} 4"#,
            r#"workqueue_depth{name="Nodes"} 2.0"#,
            r#"workqueue_longest_running_processor_seconds{name="Nodes"} 3.0"#,
            r#"workqueue_queue_duration_seconds_count{name="Nodes"} 2"#,
            r#"workqueue_queue_duration_seconds_sum{name="Nodes"} 2.0"#,
            r#"workqueue_retries_total{name="Nodes"} 1"#,
            r#"workqueue_unfinished_work_seconds{name="Nodes"} 3.0"#,
            r#"workqueue_work_duration_seconds_count{name="Nodes"} 1"#,
            r#"workqueue_work_duration_seconds_sum{name="Nodes"} 2.0"#,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn buckets_are_those_of_client_go() {
    let mut registry = Registry::default();
    let metrics = QueueMetrics::register(&mut registry);
    let _queue: Queue<u8> = Queue::new("Nodes", Backoff::default(), &metrics);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let bounds: Vec<f64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("workqueue_work_duration_seconds_bucket{le=\""))
        .filter_map(|line| line.split('"').next()?.parse().ok())
        .collect();
    let expected = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0];
    assert_eq!(bounds.len(), expected.len() + 1);
    for (bound, expected) in bounds.iter().zip(expected) {
        assert!((bound / expected - 1.0).abs() < 1e-9, "{bound} {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_queue_of_the_same_name_takes_over_the_gauges() {
    let mut registry = Registry::default();
    let metrics = QueueMetrics::register(&mut registry);
    let depth = || {
        let lines = scrape(&registry).into_iter();
        lines
            .filter(|line| line.starts_with("workqueue_depth"))
            .collect::<Vec<_>>()
    };
    let first = Queue::new("Nodes", Backoff::default(), &metrics);
    first.add("a", Priority::Fresh);
    let second = Queue::new("Nodes", Backoff::default(), &metrics);
    second.add("a", Priority::Fresh);
    second.add("b", Priority::Fresh);
    assert_eq!(depth(), [r#"workqueue_depth{name="Nodes"} 2.0"#]);
    drop(first);
    assert_eq!(depth(), [r#"workqueue_depth{name="Nodes"} 2.0"#]);
    drop(second);
    assert!(depth().is_empty());
}
