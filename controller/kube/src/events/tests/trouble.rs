//! Retries of events, a full queue, and the end.

use prometheus_client::{encoding::text::encode, registry::Registry};

use super::*;
use crate::events::count;

#[tokio::test(start_paused = true)]
async fn e5_a_write_is_tried_twelve_times() {
    let rig = Rig::start(&[Answer(Duration::ZERO, 503); 12]);
    rig.synced("n1");
    rig.at(200 * SECOND).await;
    let times = rig.times();
    let first = times[1];
    assert!(first < 10_000, "a random part of the pause: {first}");
    let expected = [0].into_iter().chain((0..11).map(|n| first + n * 10_000));
    assert_eq!(times, expected.collect::<Vec<_>>());
    assert_eq!(rig.count("unreachable"), 1);

    // And the next one has its own chance.
    rig.synced("n2");
    assert!(rig.events.flush(SECOND).await);
    assert_eq!(rig.count("created"), 1);
}

#[tokio::test(start_paused = true)]
async fn e5_only_what_may_heal_is_tried_again() {
    for (code, tries) in [
        (400, 1),
        (403, 1),
        (404, 1),
        (409, 1),
        (413, 1),
        (422, 1),
        (401, 2),
        (408, 2),
        (429, 2),
        (500, 2),
        (504, 2),
    ] {
        let rig = Rig::start(&[Answer(Duration::ZERO, code)]);
        rig.synced("n1");
        assert!(rig.events.flush(30 * SECOND).await);
        assert_eq!(rig.requests().len(), tries, "HTTP {code}");
        let refused = u64::from(tries == 1);
        assert_eq!(rig.count("refused"), refused, "HTTP {code}");
        assert_eq!(rig.count("created"), 1 - refused, "HTTP {code}");
    }
}

/// A right that is missing may be granted, or not have been read yet by an API server that has just
/// started; a namespace that is being deleted takes no event any more.
#[tokio::test(start_paused = true)]
async fn only_a_right_that_is_missing_is_waited_for() {
    for (reason, tries) in [
        (
            "User \"u\" cannot create resource \"events\" in API group \"\"",
            2,
        ),
        (
            "unable to create new content in namespace a because it is being terminated",
            1,
        ),
    ] {
        let rig = Rig::start(&[Answer(Duration::ZERO, 403)]);
        rig.script.lock().reason = reason;
        rig.synced("n1");
        assert!(rig.events.flush(30 * SECOND).await);
        assert_eq!(rig.requests().len(), tries, "{reason}");
        assert_eq!(rig.count("refused"), u64::from(tries == 1), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn e5_an_event_that_expired_is_posted_anew() {
    let rig = Rig::start(&[CREATED, Answer(Duration::ZERO, 404)]);
    rig.synced("n1");
    rig.synced("n1");
    assert!(rig.events.flush(SECOND).await);
    assert_eq!(
        rig.writes(),
        [("POST", 1), ("PATCH", 2), ("POST", 2)].map(|(method, count)| (method.to_owned(), count))
    );
    let requests = rig.requests();
    for kept in ["metadata", "firstTimestamp"] {
        assert_eq!(requests[2].body[kept], requests[0].body[kept]);
    }
    assert_eq!((rig.count("created"), rig.count("repeated")), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_got_lost_is_not_a_refusal() {
    let rig = Rig::start(&[Answer(Duration::ZERO, 504), Answer(Duration::ZERO, 409)]);
    rig.synced("n1");
    assert!(rig.events.flush(30 * SECOND).await);
    assert_eq!((rig.count("created"), rig.count("refused")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_counts_as_a_failed_try() {
    let rig = Rig::start(&[Answer(3600 * SECOND, 201)]);
    rig.synced("n1");
    assert!(rig.events.flush(60 * SECOND).await);
    // The client's limit of 35 s, less than the pause before it.
    let [0, again] = rig.times()[..] else {
        panic!("{:?}", rig.times())
    };
    assert!((30_000..45_000).contains(&again), "{again}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_costs_the_api_server_little() {
    let rig = Rig::start(&[]);
    rig.script.lock().otherwise = Some(Answer(Duration::ZERO, 503));
    for n in 0..1000 {
        rig.synced(&format!("n{n}"));
    }
    rig.at(60 * SECOND).await;
    assert_eq!(
        rig.requests().len(),
        7,
        "tries at 0, within 10 s, and every 10 s"
    );
    rig.script.lock().otherwise = None;
    assert!(rig.events.flush(10 * SECOND).await);
    assert_eq!(rig.count("created"), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_never_blocks() {
    let rig = Rig::start(&[]);
    // The writer has had no chance to run yet.
    for n in 0..10_005 {
        rig.synced(&format!("n{n}"));
    }
    assert_eq!(rig.count("overflow"), 5);
    assert_eq!(rig.start.elapsed(), Duration::ZERO);
    // Once there is room again, so is there for the next one.
    tokio::task::yield_now().await;
    rig.synced("next");
    assert_eq!(rig.count("overflow"), 5);
}

#[tokio::test(start_paused = true)]
async fn flush_waits_for_what_is_in_flight() {
    let rig = Rig::start(&[Answer(3 * SECOND, 201)]);
    assert!(rig.events.flush(SECOND).await, "nothing recorded");
    rig.synced("n1");
    assert!(rig.events.flush(10 * SECOND).await);
    assert_eq!(rig.start.elapsed(), 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn flush_gives_up_in_time() {
    let mut rig = Rig::start(&[]);
    rig.script.lock().otherwise = Some(Answer(Duration::ZERO, 503));
    for n in 0..100 {
        rig.synced(&format!("n{n}"));
    }
    assert!(!rig.events.flush(2 * SECOND).await);
    assert_eq!(rig.start.elapsed(), 2 * SECOND);
    rig.shutdown.cancel();
    rig.tasks.join_next().await.unwrap().unwrap();
    // A late one is dropped.
    rig.synced("late");
    assert_eq!(rig.count("shutdown"), 1);
    assert!(rig.events.flush(SECOND).await);
}

#[tokio::test(start_paused = true)]
async fn without_recorders_the_writer_ends_when_all_is_written() {
    let mut rig = Rig::start(&[Answer(SECOND, 503)]);
    rig.synced("n1");
    let metrics = rig.metrics.clone();
    drop((rig.recorder, rig.events));
    rig.tasks.join_next().await.unwrap().unwrap();
    let created = metrics
        .written
        .get_or_create(&[("reason", "created")])
        .get();
    assert_eq!(created, 1);
}

#[test]
fn counters_are_there_from_the_start() {
    let mut registry = Registry::default();
    let metrics = EventMetrics::register(&mut registry);
    count(&metrics.dropped, "spam", 1);
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
