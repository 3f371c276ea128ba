//! Routes that the provider shows otherwise than they were asked for.

use outrigger_provider_mock::Respelled;

use super::*;

const A: &str = "10.244.1.0/24";

fn served(target: ListedTarget, respelled: Respelled) -> Rig {
    Rig {
        served: ServedRoutes {
            target,
            respelled: Some(respelled),
            ..ServedRoutes::default()
        },
        ..Rig::with([routed("a", 1, &[A])], [])
    }
}

fn foreign_hop() -> Respelled {
    Respelled::NextHop("192.0.2.7".parse().unwrap())
}

/// R-22: a name decides, in any case of its letters; the other fields contradict nothing. Neither a list nor another
/// leader has it made again.
#[tokio::test(start_paused = true)]
async fn a_route_with_the_name_of_its_node_is_never_made_again() {
    for (target, respelled) in [
        (ListedTarget::NodeName, Respelled::NodeName),
        (ListedTarget::All, Respelled::NodeName),
        (ListedTarget::All, Respelled::ProviderId),
        (ListedTarget::All, foreign_hop()),
    ] {
        let fixture = served(target, respelled).begun().await;
        next_list(&fixture).await;
        fixture.end_term();
        fixture.settle().await;
        fixture.begin_term();
        fixture.settle().await;
        assert_eq!(changes(&fixture), 1, "{target:?} {respelled:?}");
        assert!(lists(&fixture) <= 4, "{}", lists(&fixture));
        assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
        assert_eq!(fixture.events(), [""; 0]);
    }
}

/// The answer to the own creation contradicts it: that is reported, and the creation is repeated, with slow back-off;
/// no deletion.
#[tokio::test(start_paused = true)]
async fn a_creation_that_is_answered_with_another_target_is_reported_and_deletes_nothing() {
    for (target, respelled, shown) in [
        (
            ListedTarget::ProviderId,
            Respelled::ProviderId,
            r#"provider_id "mock:///i-a", not "mock://i-a""#,
        ),
        (
            ListedTarget::NextHop,
            foreign_hop(),
            r#"next_hop_ip "192.0.2.7", which is no address of the Node"#,
        ),
    ] {
        for bare_results in [false, true] {
            let mut rig = served(target, respelled);
            rig.served.bare_results = bare_results;
            let fixture = rig.begun().await;
            for _ in 0..3 {
                next_list(&fixture).await;
            }
            let case = format!("{target:?} {bare_results}");
            assert_eq!(asked(&fixture, "DeleteRoute"), 0, "{case}");
            let tries = asked(&fixture, "CreateRoute");
            assert!((2..=30).contains(&tries), "{case}: {tries}");
            assert!(lists(&fixture) <= 5, "{case}: {}", lists(&fixture));
            assert_eq!(condition(&fixture, "a").as_deref(), NOT_CREATED, "{case}");
            let message = message(&fixture, "a");
            assert!(message.contains(shown), "{case}: {message}");
            assert_eq!(fixture.events()[0], "FailedToCreateRoute");
            let messages = fixture.cluster.event_messages();
            assert!(
                messages.iter().all(|text| text.contains(shown)),
                "{messages:?}"
            );
        }
    }
}

/// A dual-stack machine whose kubelet reports addresses of one family: its IPv6 next hop cannot be compared.
#[tokio::test(start_paused = true)]
async fn a_next_hop_of_a_family_that_the_node_does_not_report_contradicts_nothing() {
    let mut rig = served(
        ListedTarget::NextHop,
        Respelled::NextHop("2001:db8::1".parse().unwrap()),
    );
    for node in &mut rig.nodes {
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "192.168.0.1"}]);
    }
    let fixture = rig.begun().await;
    next_list(&fixture).await;
    assert_eq!(changes(&fixture), 1);
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
    // Another leader asks the provider whose it is: to make it again changes nothing.
    fixture.end_term();
    fixture.settle().await;
    fixture.begin_term();
    fixture.settle().await;
    next_list(&fixture).await;
    assert_eq!(asked(&fixture, "DeleteRoute"), 0);
    assert_eq!(asked(&fixture, "CreateRoute"), 2);
    assert_eq!(condition(&fixture, "a").as_deref(), CREATED);
    assert_eq!(fixture.events(), [""; 0]);
}
