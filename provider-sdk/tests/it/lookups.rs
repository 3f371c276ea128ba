use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outrigger_api::v1::{
    AbsenceCertainty, InstanceResult, KubernetesEffects, Node, instance_result::Outcome as Wire,
};
use outrigger_provider_sdk::{Context, Error, Outcome, Server, WithEffects};
use tonic::Code;

use crate::harness::{Each, Named, Rig, ask, found, lookup};

#[tokio::test]
async fn each_outcome_travels() {
    let rig = Rig::serve(Server::new(Named::new()).instances(Each(
        8,
        async |ctx: Context, node: Node| {
            assert_eq!(
                (ctx.request_id(), ctx.cluster().uid.as_str()),
                ("req-1", "c-uid")
            );
            let effects = KubernetesEffects {
                remove_annotations: vec!["a".to_owned()],
                ..Default::default()
            };
            match node.name.as_str() {
                "found" => Ok(found("1").with_effects(effects)),
                "young" => Ok(Outcome::not_visible_yet("made just now").into()),
                "gone" => {
                    let gone: WithEffects<_> = Outcome::absent("deleted").into();
                    Ok(gone)
                }
                "foreign" => Ok(Outcome::not_managed("another cloud's").into()),
                _ => Err(Error::rate_limited(Duration::from_secs(3)).with_effects(effects)),
            }
        },
    )));
    let answer = lookup(
        &mut rig.instances().await,
        ask(&["found", "foreign", "young", "gone", "error"]),
    )
    .await;
    let [found, foreign, young, gone, failed] = &answer.unwrap().results[..] else {
        panic!("five results")
    };

    let Some(Wire::Found(instance)) = &found.outcome else {
        panic!("{found:?}")
    };
    assert_eq!(instance.provider_id, "test://1");
    assert_eq!(found.effects.as_ref().unwrap().remove_annotations, ["a"]);

    let Some(Wire::NotManaged(why)) = &foreign.outcome else {
        panic!("{foreign:?}")
    };
    assert_eq!(why.reason, "another cloud's");

    let absences = [young, gone].map(|result| match &result.outcome {
        Some(Wire::Absent(absent)) => (absent.certainty(), absent.reason.as_str()),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        absences,
        [
            (AbsenceCertainty::NotVisibleYet, "made just now"),
            (AbsenceCertainty::Confirmed, "deleted")
        ]
    );

    let Some(Wire::Error(status)) = &failed.outcome else {
        panic!("{failed:?}")
    };
    assert_eq!(
        (status.code, status.details.len()),
        (Code::ResourceExhausted as i32, 2)
    );
    assert_eq!(failed.effects.as_ref().unwrap().remove_annotations, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn single_lookups_run_side_by_side_up_to_the_limit() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let highest = Arc::clone(&most);
    let capability = 4;
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
    let capability = 1;
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

#[tokio::test(start_paused = true)]
async fn a_lookup_that_hangs_costs_the_others_no_answer() {
    let rig = Rig::serve(Server::new(Named::new()).instances(Each(
        8,
        async |_: Context, node: Node| match node.name.as_str() {
            "hangs" => std::future::pending().await,
            _ => Ok(Outcome::absent("").into()),
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
