//! The gauges and counters of a scrape.

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
    let rig = Rig::start(queue, 1, always_open(), |key, nth| match (key, nth) {
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

/// Bulk work may wait long: it is no sign that the queue is stuck.
#[tokio::test(start_paused = true)]
async fn bulk_keys_count_as_depth_and_not_as_age() {
    let mut registry = Registry::default();
    let metrics = QueueMetrics::register(&mut registry);
    let queue = Queue::new("service", Backoff::default(), &metrics);
    let rig = Rig::start(queue, 1, always_open(), |_, _| (SECOND, Outcome::Done));
    for key in ["a", "b", "c", "d"] {
        rig.queue.add(key, Priority::Bulk);
    }
    rig.at(500 * MS).await;
    let lines = scrape(&registry);
    for line in [
        r#"outrigger_workqueue_oldest_seconds{name="service"} 0.0"#,
        r#"workqueue_depth{name="service"} 3.0"#,
    ] {
        assert!(lines.iter().any(|l| l == line), "{line}: {lines:#?}");
    }
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
    // The buckets of client-go's queues, as Go prints them.
    let expected = [
        1e-08,
        1e-07,
        1e-06,
        9.999_999_999_999_999e-06,
        9.999_999_999_999_999e-05,
        0.001,
        0.01,
        0.1,
        1.0,
        10.0,
    ];
    assert_eq!(bounds[..expected.len()], expected);
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

#[tokio::test(start_paused = true)]
async fn a_dump_shows_each_key_and_what_it_waits_for() {
    let metrics = QueueMetrics::default();
    let queue = Queue::new("Nodes", Backoff::default(), &metrics);
    let _idle: Queue<u8> = Queue::new("service", Backoff::default(), &metrics);
    let rig = Rig::start(queue, 1, always_open(), |key, _| match key {
        "failing" => (Duration::ZERO, Outcome::Retry),
        _ => (9 * SECOND, Outcome::Done),
    });
    rig.add("failing");
    // Fails at 0, 5, 15, 35, 75, 155, 315 ms, and then waits for 320 ms.
    rig.at(400 * MS).await;
    rig.queue.add_after("later", Priority::Fresh, 5 * SECOND);
    rig.add("long");
    rig.at(500 * MS).await;
    rig.add("long");
    rig.queue.add("bulk", Priority::Bulk);
    rig.at(600 * MS).await;
    assert_eq!(
        metrics.dump(),
        "Nodes: 4 keys\n  \
         \"bulk\" waiting=0.100s priority=Bulk failures=0\n  \
         \"failing\" retry_in=0.035s failures=7\n  \
         \"later\" later_in=4.800s failures=0\n  \
         \"long\" in_flight=0.200s waiting=0.100s priority=Fresh failures=0\n\
         service: 0 keys\n"
    );
}
