//! Other writes go first.

use http::{Method, Uri};

use super::*;

#[tokio::test(start_paused = true)]
async fn an_event_waits_until_no_node_is_being_written() {
    let rig = Rig::start(&[]);
    let node = Uri::from_static("/api/v1/nodes/n1");
    let write = rig.traffic.begin(&Method::PATCH, &node);
    rig.synced("n1");
    rig.at(200 * MS).await;
    assert!(rig.requests().is_empty());
    drop(write);
    assert!(rig.events.flush(SECOND).await);
    assert_eq!(rig.times(), [200]);
}

#[tokio::test(start_paused = true)]
async fn events_still_come_while_nodes_are_written_without_a_rest() {
    let rig = Rig::start(&[]);
    let _endless = rig
        .traffic
        .begin(&Method::PATCH, &Uri::from_static("/api/v1/nodes/n1"));
    for number in 0..6 {
        rig.synced(&format!("n{number}"));
    }
    assert!(rig.events.flush(2 * SECOND).await);
    assert_eq!(rig.times(), [500, 500, 500, 500, 1000, 1000]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_half_full_yields_no_more() {
    let rig = Rig::start(&[]);
    let _endless = rig
        .traffic
        .begin(&Method::PATCH, &Uri::from_static("/api/v1/nodes/n1"));
    let half = QUEUE / 2;
    for number in 0..half + 200 {
        rig.synced(&format!("n{number}"));
    }
    rig.at(100 * MS).await;
    let early = rig.requests().len();
    // The writer had taken some from the queue before it looked.
    assert!((100..=200).contains(&early), "{early}");
    assert_eq!(rig.metrics.overflow.get(), 0);
}
