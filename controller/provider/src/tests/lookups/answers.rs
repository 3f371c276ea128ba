//! Answers to lookups that are errors, that are not believed, or that carry effects.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_error_of_one_node_is_no_error_of_the_others() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.batch.on(|request| {
        let item = refusal(Code::InvalidArgument, "MALFORMED_PROVIDER_ID", None);
        let error = outrigger_api::RpcStatus {
            code: item.code() as i32,
            message: "no such\u{1b} id".into(),
            details: prost::Message::decode(item.details())
                .map(|status: outrigger_api::RpcStatus| status.details)
                .unwrap(),
        };
        Reply::Say(v1::BatchGetInstancesResponse {
            results: vec![
                found(&request.items[0]),
                result(&request.items[1].name, Outcome::Error(error)),
            ],
        })
    });
    let results = rig.look_up_all(names(2)).await;
    assert!(matches!(results[0], Ok(Lookup::Found(_))));
    let error = results[1].clone().unwrap_err();
    assert_eq!(error.class(), ErrorClass::Invalid);
    assert_eq!(
        error.to_string(),
        "no such\\u{1b} id (MALFORMED_PROVIDER_ID)"
    );
}

#[tokio::test(start_paused = true)]
async fn callers_at_the_gate_get_an_error_when_the_provider_goes() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let limited = refusal(Code::ResourceExhausted, "RATE_LIMITED", Some(secs(600)));
    rig.fake.batch.on(move |_| Reply::Fail(limited.clone()));
    rig.look_up("a").await.unwrap_err();
    let started = Instant::now();
    let (waited, ()) = tokio::join!(rig.look_up("b"), async {
        sleep(secs(5)).await;
        rig.fake.kill();
    });
    assert!(
        matches!(waited, Err(Error::Unavailable { .. })),
        "{waited:?}"
    );
    assert_eq!(started.elapsed(), secs(5));
}

/// Whatever keeps a Node although its absence was said: a warning says why.
#[tokio::test(start_paused = true)]
async fn an_absence_that_is_not_believed_is_reported_once_a_minute() {
    let warnings = Warnings::listen();
    let rig = Rig::start();
    rig.wait_until_serving().await;
    rig.fake.batch.on(|request| {
        let absent = |node: &v1::Node| {
            let age = (node.name != "uncertain").then_some(prost_types::Duration {
                seconds: 1,
                nanos: 0,
            });
            let certainty = match &*node.name {
                "uncertain" => v1::AbsenceCertainty::Unspecified,
                _ => v1::AbsenceCertainty::Confirmed,
            };
            let absent = v1::Absent {
                certainty: certainty.into(),
                age,
                ..v1::Absent::default()
            };
            result(&node.name, Outcome::Absent(absent))
        };
        let results = request.items.iter().map(absent).collect();
        Reply::Say(v1::BatchGetInstancesResponse { results })
    });
    for _ in 0..3 {
        for name in ["old", "uncertain"] {
            let lookup = rig.look_up(name).await.unwrap();
            assert_eq!(lookup, Lookup::Absent { confirmed: false });
        }
    }
    for (name, why) in [("old", "age of 1s"), ("uncertain", "no certainty")] {
        let lines = warnings.with(&format!("node=\"{name}\""));
        assert!(lines.len() == 1 && lines[0].contains(why), "{lines:?}");
    }
}

/// The provider names no Node of the call, so that it means each of them.
#[tokio::test(start_paused = true)]
async fn effects_beside_the_error_of_a_whole_call_are_those_of_each_node() {
    let rig = Rig::start();
    rig.wait_until_serving().await;
    let refused = with_effects(&refusal(Code::Internal, "CLOUD_ERROR", None), "key");
    rig.fake.batch.on(move |_| Reply::Fail(refused.clone()));
    let look_up = |name| {
        rig.provider
            .instances()
            .look_up(node(name), LookupPurpose::Lifecycle)
    };
    let (a, b) = tokio::join!(look_up("a"), look_up("b"));
    assert_eq!(rig.fake.calls(), 1);
    for answer in [a, b] {
        assert!(answer.result.is_err());
        assert_eq!(answer.effects.remove_annotations, ["key"]);
    }
}

#[tokio::test(start_paused = true)]
async fn effects_on_a_node_stay_within_what_was_declared() {
    let warnings = Warnings::listen();
    let rig = Rig::with(|_, fake| {
        fake.introduce(|answer| {
            answer.capabilities.as_mut().unwrap().effects = Some(v1::EffectsCapability {
                service_annotation_prefixes: vec!["service.example/".into()],
                node_annotation_prefixes: vec!["node.example/".into()],
                condition_type_prefixes: Vec::new(),
            });
        });
        fake.batch.on(|request| {
            let effects = v1::KubernetesEffects {
                remove_annotations: vec!["node.example/a".into(), "service.example/a".into()],
                remove_conditions: vec!["node.example/A".into()],
                ..v1::KubernetesEffects::default()
            };
            let results = request.items.iter().map(|node| v1::InstanceResult {
                effects: Some(effects.clone()),
                ..found(node)
            });
            Reply::Say(v1::BatchGetInstancesResponse {
                results: results.collect(),
            })
        });
    });
    rig.wait_until_serving().await;
    for name in ["a", "b"] {
        let answer = rig
            .provider
            .instances()
            .look_up(node(name), LookupPurpose::Lifecycle)
            .await;
        let effects = rig.provider.node_effects(&node(name), answer.effects);
        assert_eq!(effects.annotations, [("node.example/a".into(), None)]);
        assert!(effects.conditions.is_empty());
    }
    let dropped = "outrigger_node_effects_dropped_total 4";
    assert!(rig.metrics().contains(dropped));
    // A provider that does so does it for each Node.
    assert_eq!(
        warnings.with("effects of the provider not written").len(),
        1
    );
}
