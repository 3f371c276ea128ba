use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outrigger_api::v1::{
    self, AbsenceCertainty, Absent, BatchGetInstancesRequest, InstanceResult,
    instance_result::Outcome as Wire,
};
use outrigger_provider_sdk::{
    Address, Context, Effects, Error, Event, Instance, InstancesCapability, Lookup, Node, Outcome,
    PowerState, Server,
};
use tonic::Code;

use crate::harness::{Batch, Each, Named, Rig, ask, finds_all, found, lookup, node, reason};

#[tokio::test]
async fn each_outcome_travels() {
    let rig = Rig::serve(Server::new(Named::new()).instances(Each(
        InstancesCapability::default(),
        async |ctx: Context, node: Node| {
            assert_eq!(
                (ctx.request_id(), ctx.cluster().uid.as_str()),
                ("req-1", "c-uid")
            );
            let effects = Effects::default().with_remove_annotations(["a".to_owned()]);
            match node.name.as_str() {
                "found" => Ok(Lookup::found(
                    Instance::new("test://1")
                        .with_addresses([
                            Address::InternalIp([10, 0, 0, 1].into()),
                            Address::ExternalIp("2001:db8::1".parse().unwrap()),
                            Address::Other {
                                kind: "New".to_owned(),
                                address: "x".to_owned(),
                            },
                        ])
                        .with_power_state(PowerState::Shutdown),
                )
                .with_effects(effects)),
                "foreign" => Ok(Lookup::not_managed("another cloud's")),
                _ => Err(Error::rate_limited(Duration::from_secs(3)).with_effects(effects)),
            }
        },
    )));
    let answer = lookup(
        &mut rig.instances().await,
        ask(&["found", "foreign", "error"]),
    )
    .await;
    let [found, foreign, failed] = &answer.unwrap().results[..] else {
        panic!("three results")
    };

    let Some(Wire::Found(instance)) = &found.outcome else {
        panic!("{found:?}")
    };
    let kinds: Vec<_> = instance
        .addresses
        .iter()
        .map(|a| (&*a.r#type, &*a.address))
        .collect();
    assert_eq!(
        kinds,
        [
            ("InternalIP", "10.0.0.1"),
            ("ExternalIP", "2001:db8::1"),
            ("New", "x")
        ]
    );
    assert_eq!(instance.power_state, 3);
    assert_eq!(found.effects.as_ref().unwrap().remove_annotations, ["a"]);

    let Some(Wire::NotManaged(why)) = &foreign.outcome else {
        panic!("{foreign:?}")
    };
    assert_eq!(why.reason, "another cloud's");

    let Some(Wire::Error(status)) = &failed.outcome else {
        panic!("{failed:?}")
    };
    assert_eq!(
        (status.code, status.details.len()),
        (Code::ResourceExhausted as i32, 2)
    );
    assert_eq!(failed.effects.as_ref().unwrap().remove_annotations, ["a"]);
}

/// The handshake of the tests names 8 MiB.
#[tokio::test]
async fn effects_that_do_not_fit_hide_no_answer() {
    let rig = Rig::serve(Server::new(Named::new()).instances(Each(
        InstancesCapability::default(),
        async |_: Context, node: Node| {
            let event = Event::normal("Found", "m".repeat(1 << 20));
            let effects = Effects::default().with_events([event]);
            Ok(found(&node.name).with_effects(effects))
        },
    )));
    let names = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let answer = lookup(&mut rig.instances().await, ask(&names)).await;
    let results = answer.unwrap().results;
    assert_eq!(results.len(), 9);
    let is_found = |result: &InstanceResult| matches!(result.outcome, Some(Wire::Found(_)));
    assert!(results.iter().all(is_found), "{results:?}");
    let with_effects = results.iter().filter(|result| result.effects.is_some());
    assert_eq!(with_effects.count(), 7);
}

#[tokio::test]
async fn only_what_was_seen_during_the_call_is_a_confirmed_absence() {
    use AbsenceCertainty::{Confirmed, NotVisibleYet};
    let rig = Rig::serve(Server::new(Named::new()).instances(Each(
        InstancesCapability::default(),
        async |_: Context, node: Node| {
            Ok(match node.name.as_str() {
                "now" => Lookup::absent(),
                "named" => Lookup::absent_since(Duration::ZERO),
                "cache" => Lookup::absent_since(Duration::from_hours(1)),
                _ => Lookup::not_visible_yet(),
            })
        },
    )));
    let names = ["now", "named", "cache", "young"];
    let answer = lookup(&mut rig.instances().await, ask(&names))
        .await
        .unwrap();
    let absent = |result: &InstanceResult| match &result.outcome {
        Some(Wire::Absent(absent)) => absent.clone(),
        other => panic!("{other:?}"),
    };
    let absences: Vec<Absent> = answer.results.iter().map(absent).collect();
    let certainties: Vec<_> = absences.iter().map(Absent::certainty).collect();
    assert_eq!(
        certainties,
        [Confirmed, Confirmed, NotVisibleYet, NotVisibleYet]
    );
    let ages = absences
        .iter()
        .map(|absent| absent.age.map(|age| age.seconds));
    assert_eq!(ages.collect::<Vec<_>>(), [None, Some(0), Some(3600), None]);
}

#[tokio::test]
async fn every_node_gets_exactly_one_result_in_the_order_of_the_request() {
    let rig = Rig::serve(Server::new(Named::new()).instances(Batch(
        async |_: Context, nodes: Vec<Node>| {
            let listed = nodes.iter().filter(|node| node.name != "lost");
            let mut results: outrigger_provider_sdk::Lookups = listed
                .map(|node| (node.name.clone(), Ok(found(&node.name))))
                .collect();
            results.insert("never-asked".to_owned(), Ok(Lookup::absent()));
            Ok(results)
        },
    )));
    let answer = lookup(&mut rig.instances().await, ask(&["c", "lost", "a"]))
        .await
        .unwrap();
    let names: Vec<_> = answer.results.iter().map(|result| &*result.key).collect();
    assert_eq!(names, ["c", "lost", "a"]);
    let Some(Wire::Error(status)) = &answer.results[1].outcome else {
        panic!("no error")
    };
    // Not the provider's answer, so the controller treats it as unknown.
    assert_eq!(
        (status.code, status.details.len()),
        (Code::Internal as i32, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn single_lookups_run_side_by_side_up_to_the_limit() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let highest = Arc::clone(&most);
    let capability = InstancesCapability::default().with_concurrency(4);
    let instances = Each(capability, move |_: Context, node: Node| {
        let (running, highest) = (Arc::clone(&running), Arc::clone(&highest));
        async move {
            highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(found(&node.name))
        }
    });
    let rig = Rig::serve(Server::new(Named::new()).instances(instances));
    let names: Vec<_> = (0..10).map(|n| n.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut client = rig.instances().await;
    let started = tokio::time::Instant::now();
    assert_eq!(
        lookup(&mut client, ask(&names))
            .await
            .unwrap()
            .results
            .len(),
        10
    );
    assert_eq!(most.load(Ordering::SeqCst), 4);
    assert_eq!(started.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn a_cloud_that_limits_the_rate_is_not_asked_on() {
    let lookups = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lookups);
    let capability = InstancesCapability::default().with_concurrency(1);
    let instances = Each(capability, move |_: Context, node: Node| {
        let nth = count.fetch_add(1, Ordering::SeqCst);
        async move {
            match nth {
                0 => Ok(found(&node.name)),
                // Concerns one node.
                1 => Err(Error::malformed_provider_id("no id of this cloud")),
                _ => Err(Error::rate_limited(Duration::from_secs(9))),
            }
        }
    });
    let rig = Rig::serve(Server::new(Named::new()).instances(instances));
    let mut client = rig.instances().await;
    let answer = lookup(&mut client, ask(&["a", "b", "c", "d", "e"]))
        .await
        .unwrap();
    assert_eq!(lookups.load(Ordering::SeqCst), 3);
    let code = |result: &InstanceResult| match &result.outcome {
        Some(Wire::Error(status)) => Code::from(status.code),
        _ => Code::Ok,
    };
    let codes: Vec<_> = answer.results.iter().map(code).collect();
    let limited = Code::ResourceExhausted;
    assert_eq!(
        codes,
        [Code::Ok, Code::InvalidArgument, limited, limited, limited]
    );
    assert_eq!(answer.results[2].outcome, answer.results[4].outcome);
}

#[tokio::test]
async fn an_answer_that_the_caller_would_refuse_says_so() {
    let rig = Rig::serve(Server::new(Named::new()).instances(Each(
        InstancesCapability::default(),
        async |_: Context, node: Node| {
            let mut lookup = found(&node.name);
            if let Outcome::Found(instance) = &mut lookup.outcome {
                instance.instance_type = "x".repeat(9 << 20);
            }
            Ok(lookup)
        },
    )));
    let refused = lookup(&mut rig.instances().await, ask(&["a"]))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Internal);
    assert!(
        refused.message().contains("max_batch_size"),
        "{}",
        refused.message()
    );
}

#[tokio::test]
async fn a_request_above_the_limit_is_refused_and_the_connection_lives() {
    let rig = Rig::serve(finds_all().max_message_bytes(1 << 20));
    let mut client = rig.instances().await;
    let padded = |bytes: usize| {
        let labels = [("pad".to_owned(), "x".repeat(bytes))].into();
        BatchGetInstancesRequest {
            items: vec![v1::Node {
                labels,
                ..node("a")
            }],
            ..ask(&[])
        }
    };
    let overhead = prost::Message::encoded_len(&padded(1 << 20)) - (1 << 20);
    let refused = lookup(&mut client, padded((1 << 20) - overhead + 1))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::InvalidArgument, "INVALID_REQUEST")
    );
    assert!(
        lookup(&mut client, padded((1 << 20) - overhead))
            .await
            .is_ok()
    );
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_hangs_costs_the_others_no_answer() {
    let rig = Rig::serve(Server::new(Named::new()).instances(Each(
        InstancesCapability::default(),
        async |_: Context, node: Node| match node.name.as_str() {
            "hangs" => std::future::pending().await,
            _ => Ok(Lookup::absent()),
        },
    )));
    let mut request = tonic::Request::new(ask(&["a", "hangs", "b"]));
    request.set_timeout(Duration::from_secs(30));
    let answer = rig.instances().await.batch_get_instances(request).await;
    let results = answer.unwrap().into_inner().results;
    let [a, hangs, b] = &results[..] else {
        panic!("{results:?}")
    };
    for result in [a, b] {
        assert!(matches!(result.outcome, Some(Wire::Absent(_))));
    }
    let Some(Wire::Error(status)) = &hangs.outcome else {
        panic!("{hangs:?}")
    };
    assert_eq!(status.code, Code::DeadlineExceeded as i32);
    assert!(status.details.is_empty());
}
