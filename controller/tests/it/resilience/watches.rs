//! Watches that end: nothing that happened meanwhile is missed.

use http::Method;
use outrigger_testbed::{
    faults::{Cut, Fault, Rule},
    nodes::Machine,
};

use crate::{
    look::uid,
    stage::{Setup, Stage},
    wait::{DEADLINE, holds, until},
};

/// Waits until the watch is up.
async fn watching(stage: &Stage) {
    until("the watch of nodes", async || {
        let open = stage.proxy.open_watches("/nodes");
        holds(open == 1, || format!("{open} are open"))
    })
    .await;
}

#[tokio::test]
async fn cut_watches_are_opened_again_where_they_ended() {
    let mut stage = Setup::synthesizing().start().await;
    let cuts = [Cut::Abrupt, Cut::Clean, Cut::Abrupt, Cut::Clean];
    for (round, cut) in cuts.into_iter().enumerate() {
        watching(&stage).await;
        assert_eq!(stage.proxy.cut_watches("/nodes", cut), 1);
        let name = format!("cut-{round}");
        stage.register(&Machine::new(&name)).await;
        stage.synced(&name).await;
    }
    let requests = stage.proxy.requests();
    let lists = requests
        .iter()
        .filter(|r| r.path == "/api/v1/nodes" && (!r.is_watch() || r.streams_objects()));
    assert_eq!(lists.count(), 1, "a cut is no reason to list again");
    stage.controller.pid();
}

#[tokio::test]
async fn a_watch_that_ends_after_each_event_misses_none() {
    const NODES: usize = 12;
    let stage = Setup::synthesizing().start().await;
    watching(&stage).await;
    let short = Fault::CutWatch {
        after: 1,
        cut: Cut::Abrupt,
    };
    let short = stage
        .proxy
        .inject(Rule::new(short).path_contains("/nodes").times(6));
    stage.proxy.cut_watches("/nodes", Cut::Clean);
    stage.register_all(Machine::numbered("short-", NODES)).await;
    for node in stage.all_synced("short-", NODES).await {
        assert_eq!(stage.events_of(&node).await.len(), 1);
    }
    assert!(short.hits() > 1, "{}", short.hits());
}

#[tokio::test]
async fn a_version_that_is_too_old_is_answered_with_a_new_list() {
    let mut stage = Setup::synthesizing().start().await;
    stage.register(&Machine::new("old-gone")).await;
    let gone = stage.synced("old-gone").await;
    watching(&stage).await;
    // No watch is open while one node goes, another one comes, and the first comes again.
    let refused = Rule::new(Fault::unavailable())
        .watches()
        .path_contains("/nodes");
    let refused = stage.proxy.inject(refused);
    stage.proxy.cut_watches("/nodes", Cut::Abrupt);
    until("a watch that is refused", async || {
        holds(refused.hits() > 0, || "none".to_owned())
    })
    .await;
    let parameters = kube::api::DeleteParams::default();
    stage.nodes().delete("old-gone", &parameters).await.unwrap();
    stage.register(&Machine::new("old-new")).await;
    let again = stage.register(&Machine::new("old-gone")).await;
    // In the answer, and in the middle of the stream.
    let expired = stage
        .proxy
        .inject(Rule::new(Fault::expired()).watches().times(1));
    let in_stream = Fault::CutWatch {
        after: 0,
        cut: Cut::Expired,
    };
    let in_stream = stage.proxy.inject(Rule::new(in_stream).times(1));
    refused.remove();

    stage.synced("old-new").await;
    let node = stage.synced("old-gone").await;
    assert_eq!(uid(&node), uid(&again));
    assert_ne!(uid(&node), uid(&gone));
    until("both rules have met a watch", async || {
        holds(expired.hits() == 1 && in_stream.hits() == 1, || {
            format!("{} and {}", expired.hits(), in_stream.hits())
        })
    })
    .await;
    stage.controller.says(&["listing again"]).await;
    watching(&stage).await;
    stage.register(&Machine::new("old-after")).await;
    stage.synced("old-after").await;
}

#[tokio::test]
async fn a_list_of_many_pages_that_fails_in_the_middle_is_begun_again() {
    // More than two pages.
    let stage = Setup::synthesizing().machines(Machine::numbered("page-", 230));
    let backstage = stage.prepare().await;
    let page = |request: &outrigger_testbed::faults::Recorded| request.query.contains("continue=");
    let list = |fault| {
        Rule::new(fault)
            .method(Method::GET)
            .path_ends("/nodes")
            .when(page)
            .times(1)
    };
    let no_streams = Rule::new(Fault::streams_no_objects()).streams();
    backstage.proxy.inject(no_streams);
    let broken = backstage.proxy.inject(list(Fault::internal_error()));
    let expired = backstage.proxy.inject(list(Fault::expired()));
    let stage = backstage.start();
    stage.all_synced("page-", 230).await;
    let hits = stage
        .proxy
        .wait_for(DEADLINE, |_| broken.hits() + expired.hits() == 2);
    hits.await.expect("both rules have met a page");
    assert_eq!(stage.writes().len(), 3 * 230);
}

#[tokio::test]
async fn a_stream_of_all_objects_that_breaks_in_the_middle_is_followed_by_pages() {
    let stage = Setup::synthesizing().machines(Machine::numbered("part-", 60));
    let backstage = stage.prepare().await;
    let cut = Fault::CutWatch {
        after: 30,
        cut: Cut::Abrupt,
    };
    let cut = Rule::new(cut).streams().path_ends("/nodes").times(1);
    let cut = backstage.proxy.inject(cut);
    let stage = backstage.start();
    stage.all_synced("part-", 60).await;
    assert_eq!(cut.hits(), 1);
    let requests = stage.proxy.requests();
    let nodes = requests.iter().filter(|r| r.path == "/api/v1/nodes");
    let kinds: Vec<_> = nodes.map(|r| (r.is_watch(), r.streams_objects())).collect();
    assert_eq!(kinds[..3], [(true, true), (false, false), (true, false)]);
    assert_eq!(stage.writes().len(), 3 * 60);
}
