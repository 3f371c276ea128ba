//! Refusals of the API server.

use std::time::Duration;

use http::Method;
use outrigger_testbed::{
    faults::{Fault, Rule},
    nodes::Machine,
};

use crate::{
    look::{addresses, answered},
    stage::Setup,
    wait::DEADLINE,
};

fn of_nodes(fault: Fault) -> Rule {
    Rule::new(fault)
        .path_contains("/nodes/")
        .method(Method::PATCH)
}

#[tokio::test]
async fn a_429_is_obeyed_to_the_second() {
    let stage = Setup::synthesizing().start().await;
    stage
        .proxy
        .inject(of_nodes(Fault::too_many_requests(2)).times(1));
    stage.register(&Machine::new("busy")).await;
    let node = stage.synced("busy").await;
    assert_eq!(stage.events_of(&node).await.len(), 1);
    let requests = stage.proxy.requests();
    let tries: Vec<_> = requests
        .iter()
        .filter(|r| r.path == "/api/v1/nodes/busy")
        .collect();
    let [refused, done] = tries[..] else {
        panic!("{} tries", tries.len());
    };
    assert!(answered(refused, 429) && answered(done, 200));
    let waited = done.started - refused.started;
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
}

#[tokio::test]
async fn refusals_of_all_kinds_delay_nodes_and_double_nothing() {
    const NODES: usize = 30;
    let mut stage = Setup::synthesizing().start().await;
    let pid = stage.controller.pid();
    let kinds = [
        Fault::conflict(),
        Fault::invalid(),
        Fault::internal_error(),
        Fault::unavailable(),
        Fault::status(
            504,
            "Timeout",
            "the server was unable to return a response in the time allotted",
        ),
        Fault::too_many_requests(1),
        Fault::Disconnect,
    ];
    let mut rules = Vec::new();
    for (fault, seed) in kinds.into_iter().zip(1..) {
        rules.push(stage.proxy.inject(of_nodes(fault).chance(0.1, seed)));
    }
    stage
        .register_all(Machine::numbered("bad-day-", NODES))
        .await;
    for node in stage.all_synced("bad-day-", NODES).await {
        let name = node.metadata.name.as_deref().unwrap();
        assert_eq!(addresses(&node).len(), 3, "{name}");
        let events = stage.events_of(&node).await;
        assert_eq!(events.len(), 1, "{name}");
        assert_eq!(events[0].count, Some(1), "{name}");
        let requests = stage.proxy.requests();
        for path in [
            format!("/api/v1/nodes/{name}"),
            format!("/api/v1/nodes/{name}/status"),
        ] {
            let tries = requests
                .iter()
                .filter(|r| r.method == Method::PATCH && r.path == path);
            assert_eq!(tries.filter(|r| answered(r, 200)).count(), 1, "{path}");
        }
    }
    let hits: Vec<_> = rules
        .iter()
        .map(outrigger_testbed::faults::Injected::hits)
        .collect();
    assert!(hits.iter().all(|hits| *hits > 0), "{hits:?}");
    assert_eq!(stage.controller.pid(), pid);
}

#[tokio::test]
async fn rights_that_are_missing_are_named_and_the_work_goes_on_when_they_are_granted() {
    let mut stage = Setup::synthesizing().start().await;
    let message = "nodes \"locked\" is forbidden: User \"x\" cannot patch resource \"nodes\"";
    let forbidden = of_nodes(Fault::status(403, "Forbidden", message)).path_ends("/locked");
    let forbidden = stage.proxy.inject(forbidden);
    stage.register(&Machine::new("locked")).await;
    stage
        .controller
        .says(&["WARN", "locked", message, "403"])
        .await;
    let tried_again = stage.proxy.wait_for(DEADLINE, |requests| {
        requests
            .iter()
            .filter(|request| answered(request, 403))
            .count()
            > 1
    });
    tried_again.await.expect("it is tried again");
    forbidden.remove();
    stage.synced("locked").await;
}

/// It is no pause of the provider's.
#[tokio::test]
async fn credentials_that_are_not_accepted_are_said_and_what_may_be_wrong_with_them() {
    let mut stage = Setup::synthesizing().start().await;
    let unauthorized = of_nodes(Fault::status(401, "Unauthorized", "Unauthorized"));
    let unauthorized = stage.proxy.inject(unauthorized);
    stage.register(&Machine::new("unknown")).await;
    let cannot = ["WARN", "node sync failed", "Unauthorized", "401", "unknown"];
    stage.controller.says(&cannot).await;
    let hint = "the API server does not accept this process's credentials (HTTP 401); ";
    let line = stage.controller.says(&["WARN", hint]).await;
    assert!(line.contains("credentials have not expired"), "{line}");
    unauthorized.remove();
    stage.synced("unknown").await;
}

#[tokio::test]
async fn an_api_server_that_is_away_for_a_while_is_found_again() {
    let mut stage = Setup::synthesizing().start().await;
    stage.register(&Machine::new("before")).await;
    stage.synced("before").await;
    stage.proxy.refuse_connections().await;
    stage.register(&Machine::new("meanwhile")).await;
    // Each resource logs this line; this test is about the watch of Nodes.
    let outage = "cannot watch; trying again with back-off\" resource=\"nodes\"";
    stage.controller.says(&[outage]).await;
    stage.proxy.accept_connections().await;
    stage.synced("meanwhile").await;
    // One sentence for one outage.
    assert_eq!(stage.controller.lines(outage), 1);
}
