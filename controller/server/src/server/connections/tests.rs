use prometheus_client::registry::Registry;

use super::*;

const LIMITS: Limits = Limits {
    per_peer: 3,
    total: 5,
};

fn table() -> Connections {
    let metrics = ServingMetrics::register(&mut Registry::default());
    Connections::new(LIMITS, metrics)
}

fn peer(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn is_shed(connection: &Connection) -> bool {
    connection.close.is_cancelled()
}

/// Later than all before it.
async fn later() -> Instant {
    tokio::time::advance(Duration::from_secs(1)).await;
    Instant::now()
}

#[tokio::test(start_paused = true)]
async fn a_peer_at_its_limit_loses_the_connection_that_is_idle_for_longest() {
    let table = table();
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(table.admit(peer(1), later().await));
    }
    let other = table.admit(peer(2), later().await);
    let in_flight = open[0].request();
    let newest = table.admit(peer(1), later().await);
    assert!(
        is_shed(&open[1]),
        "the first is busy, the second is older than the third"
    );
    assert!(
        ![&open[0], &open[2], &other, &newest]
            .into_iter()
            .any(is_shed)
    );

    later().await;
    drop(in_flight);
    open[0].sending().flushed();
    drop(table.admit(peer(1), later().await));
    assert!(is_shed(&open[2]), "the first was idle for a shorter time");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_still_sends_an_answer_gives_way_last() {
    let table = table();
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(table.admit(peer(1), later().await));
    }
    for connection in &open[..2] {
        drop(connection.request());
        later().await;
    }
    let newest = table.admit(peer(1), later().await);
    assert!(is_shed(&open[2]), "the others have bytes to send");
    drop(newest.request());
    later().await;
    open[1].sending().flushed();
    let last = table.admit(peer(1), later().await);
    assert!(is_shed(&open[1]), "all is sent");
    drop(last.request());
    drop(table.admit(peer(1), later().await));
    assert!(is_shed(&open[0]), "no other is left");
}

#[tokio::test(start_paused = true)]
async fn at_the_limit_of_all_a_peer_with_the_most_connections_gives_way() {
    let table = table();
    let quiet = table.admit(peer(1), later().await);
    let mut greedy = Vec::new();
    for _ in 0..2 {
        greedy.push(table.admit(peer(2), later().await));
    }
    let mut rest = Vec::new();
    for last in 3..5 {
        rest.push(table.admit(peer(last), later().await));
    }
    rest.push(table.admit(peer(5), later().await));
    assert!(is_shed(&greedy[0]));
    assert!(!is_shed(&quiet) && !is_shed(&greedy[1]));
    assert!(!rest.iter().any(is_shed));
}

/// Requests that wait keep no other peer out, and not the same peer either.
#[tokio::test(start_paused = true)]
async fn connections_with_requests_in_flight_give_way_where_no_other_is_left() {
    let table = table();
    let mut open = Vec::new();
    let mut in_flight = Vec::new();
    for requests in [1, 3, 2] {
        open.push(table.admit(peer(1), later().await));
        let connection = open.last().unwrap();
        in_flight.extend((0..requests).map(|_| connection.request()));
    }
    let same_peer = table.admit(peer(1), later().await);
    assert!(is_shed(&open[1]), "it has the most requests");
    in_flight.push(same_peer.request());
    let others = [2, 3].map(|last| table.admit(peer(last), Instant::now()));
    let asking = others.each_ref().map(Connection::request);
    let newest = table.admit(peer(4), Instant::now());
    assert!(is_shed(&open[2]), "of the peer with the most connections");
    in_flight.push(newest.request());
    assert!(
        ![&open[0], &same_peer, &newest, &others[0], &others[1]]
            .into_iter()
            .any(is_shed)
    );
    drop((in_flight, asking));
    drop((open, same_peer, others, newest));
    assert_eq!(table.table.lock().open.len(), 0);
}

/// Between handshake and request a connection looks idle.
#[tokio::test(start_paused = true)]
async fn a_new_connection_has_a_second_for_its_first_request() {
    let table = table();
    let busy = [0, 1].map(|_| table.admit(peer(1), Instant::now()));
    let _in_flight = busy.each_ref().map(Connection::request);
    let young = table.admit(peer(1), Instant::now());
    tokio::time::advance(YOUNG / 2).await;
    let younger = table.admit(peer(1), Instant::now());
    assert!(is_shed(&busy[0]) && !is_shed(&young), "it is young");
    let youngest = table.admit(peer(1), Instant::now());
    assert!(is_shed(&busy[1]), "so are both");
    let last = table.admit(peer(1), Instant::now());
    assert!(is_shed(&young), "the oldest of those that are all young");
    tokio::time::advance(YOUNG / 4).await;
    drop(youngest.request());
    youngest.sending().flushed();
    let _newest = table.admit(peer(1), Instant::now());
    assert!(is_shed(&youngest), "it was answered");
    assert!(!is_shed(&younger) && !is_shed(&last));
}

#[tokio::test(start_paused = true)]
async fn an_address_in_the_form_of_both_families_is_one_peer() {
    let table = table();
    let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
    let first = table.admit(mapped, Instant::now());
    let _more: Vec<_> = (0..3)
        .map(|_| table.admit(peer(1), Instant::now()))
        .collect();
    assert!(is_shed(&first));
}

#[tokio::test(start_paused = true)]
async fn idle_time_is_counted_from_the_last_answer() {
    let table = table();
    let connection = table.admit(peer(1), Instant::now());
    let began = Instant::now();
    let request = async {
        let in_flight = connection.request();
        tokio::time::sleep(Duration::from_secs(200)).await;
        drop(in_flight);
    };
    tokio::join!(connection.idle_for(Duration::from_secs(90)), request);
    assert_eq!(began.elapsed(), Duration::from_secs(290));
}
