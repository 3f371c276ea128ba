//! Retries of events, and failures without a retry.

use super::*;

#[tokio::test(start_paused = true)]
async fn e5_a_write_is_tried_twelve_times() {
    let rig = Rig::start(&[Answer(Duration::ZERO, 503); 12]);
    rig.synced("n1");
    rig.at(200 * SECOND).await;
    let expected = [0].into_iter().chain((0..11).map(|n| 5000 + n * 10_000));
    assert_eq!(rig.times(), expected.collect::<Vec<_>>());
    assert_eq!(rig.metrics.unreachable.get(), 1);
    assert!(rig.events.flush(Duration::ZERO).await);

    // And the next one has its own chance.
    rig.synced("n2");
    assert!(rig.events.flush(SECOND).await);
    assert_eq!(rig.metrics.created.get(), 1);
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
        assert_eq!(rig.metrics.refused.get(), refused, "HTTP {code}");
        assert_eq!(rig.metrics.created.get(), 1 - refused, "HTTP {code}");
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
        assert_eq!(rig.metrics.refused.get(), u64::from(tries == 1), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn e5_an_event_that_expired_is_posted_anew() {
    let rig = Rig::start(&[CREATED, Answer(Duration::ZERO, 404)]);
    rig.synced("n1");
    rig.at(2 * 3600 * SECOND).await;
    rig.synced("n1");
    assert!(rig.events.flush(SECOND).await);
    assert_eq!(
        rig.writes(),
        writes(&[("POST", 1), ("PATCH", 2), ("POST", 2)])
    );
    let requests = rig.requests();
    assert_eq!(requests[2].body["metadata"], requests[0].body["metadata"]);
    assert_eq!(requests[2].body["firstTimestamp"], "2026-11-02T10:00:00Z");
    assert_eq!(requests[2].body["lastTimestamp"], "2026-11-02T12:00:00Z");
    assert_eq!(
        (rig.metrics.created.get(), rig.metrics.repeated.get()),
        (2, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_got_lost_is_not_a_refusal() {
    let rig = Rig::start(&[Answer(Duration::ZERO, 504), Answer(Duration::ZERO, 409)]);
    rig.synced("n1");
    assert!(rig.events.flush(30 * SECOND).await);
    assert_eq!(
        (rig.metrics.created.get(), rig.metrics.refused.get()),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_counts_as_a_failed_try() {
    let rig = Rig::start(&[Answer(3600 * SECOND, 201)]);
    rig.synced("n1");
    assert!(rig.events.flush(60 * SECOND).await);
    assert_eq!(rig.times(), [0, 35_000]);
}

#[tokio::test(start_paused = true)]
async fn one_event_that_cannot_be_written_does_not_hold_up_the_others() {
    let rig = Rig::start(&[Answer(Duration::ZERO, 500)]);
    rig.synced("n1");
    rig.at(MS).await;
    for n in 2..20 {
        rig.synced(&format!("n{n}"));
    }
    rig.at(SECOND).await;
    assert_eq!(rig.metrics.created.get(), 18);
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
        4 * 7,
        "four writers, tries at 0, 5, 15, …, 55 s"
    );
    rig.script.lock().otherwise = None;
    assert!(rig.events.flush(10 * SECOND).await);
    assert_eq!(rig.metrics.created.get(), 1000);
}
