//! A full queue, and the end.

use prometheus_client::{encoding::text::encode, registry::Registry};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_never_blocks() {
    let rig = Rig::start(&[]);
    // The writer has had no chance to run yet.
    for n in 0..10_005 {
        rig.synced(&format!("n{n}"));
    }
    assert_eq!(rig.metrics.overflow.get(), 5);
    assert_eq!(rig.start.elapsed(), Duration::ZERO);
    // Once there is room again, so is there for the next one.
    tokio::task::yield_now().await;
    rig.synced("next");
    assert_eq!(rig.metrics.overflow.get(), 5);
}

#[tokio::test(start_paused = true)]
async fn flush_waits_for_what_is_in_flight() {
    let rig = Rig::start(&[Answer(3 * SECOND, 201)]);
    assert!(rig.events.flush(Duration::ZERO).await, "nothing recorded");
    rig.synced("n1");
    assert!(rig.events.flush(10 * SECOND).await);
    assert_eq!(rig.start.elapsed(), 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn flush_gives_up_in_time_and_what_is_left_is_counted() {
    let mut rig = Rig::start(&[]);
    rig.script.lock().otherwise = Some(Answer(Duration::ZERO, 503));
    for n in 0..100 {
        rig.synced(&format!("n{n}"));
    }
    assert!(!rig.events.flush(2 * SECOND).await);
    assert_eq!(rig.start.elapsed(), 2 * SECOND);
    rig.shutdown.cancel();
    rig.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(rig.metrics.shutdown.get(), 100);

    // A late one is dropped as well.
    rig.synced("late");
    assert_eq!(rig.metrics.shutdown.get(), 101);
    assert!(rig.events.flush(SECOND).await);
}

#[tokio::test(start_paused = true)]
async fn without_recorders_the_writer_ends_when_all_is_written() {
    let mut rig = Rig::start(&[Answer(SECOND, 503)]);
    rig.synced("n1");
    drop((rig.recorder, rig.events));
    rig.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(rig.metrics.created.get(), 1);
}

#[test]
fn counters_are_there_from_the_start() {
    let mut registry = Registry::default();
    EventMetrics::register(&mut registry).spam.inc();
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let mut series: Vec<_> = text.lines().filter(|l| !l.starts_with('#')).collect();
    series.sort_unstable();
    assert_eq!(
        series,
        [
            r#"outrigger_events_dropped_total{reason="overflow"} 0"#,
            r#"outrigger_events_dropped_total{reason="shutdown"} 0"#,
            r#"outrigger_events_dropped_total{reason="spam"} 1"#,
            r#"outrigger_events_failed_total{reason="refused"} 0"#,
            r#"outrigger_events_failed_total{reason="unreachable"} 0"#,
            r#"outrigger_events_written_total{reason="created"} 0"#,
            r#"outrigger_events_written_total{reason="repeated"} 0"#,
        ]
    );
}
