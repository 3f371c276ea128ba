//! Single calls about load balancers.

use std::sync::Arc;

use outrigger_api::v1::{self, LoadBalancerDisposition as D};
use outrigger_core::{
    effects::Effects,
    error_class::ErrorClass,
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerAnswer},
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::{
    fake::{Reply, ready, refusal, taken},
    rig::{Rig, service, service_with, targets},
    secs,
};
use crate::{Error, PlanOperation, Provider};
use outrigger_runtime::fence::Fence;

fn ensured(disposition: D) -> v1::LoadBalancerAnswer {
    v1::LoadBalancerAnswer {
        disposition: disposition.into(),
        ..ready()
    }
}

async fn ensure(rig: &Rig, name: &str) -> Result<LoadBalancerAnswer, Error> {
    rig.provider
        .ensure_alone(&service(name), &targets(["a"]))
        .await
}

#[tokio::test(start_paused = true)]
async fn the_identity_of_the_last_answer_goes_with_each_later_call_the_delete_included() {
    let rig = Rig::balancing(|offered| {
        offered.load_balancers.get_or_insert_default().plan = true;
    })
    .await;
    let fence = || Fence::new(|| true, &CancellationToken::new());
    let provider = rig.provider.fenced(fence());
    let (web, all) = (service("web"), targets(["a"]));
    let balancers = &rig.fake.balancers;
    let named = |id: &str| {
        Some(v1::LoadBalancerIdentity {
            id: id.into(),
            name: "web".into(),
        })
    };
    let made = v1::LoadBalancerAnswer {
        identity: named("lb-1"),
        ..ready()
    };
    balancers.ensure.on(move |_| Reply::Say(made.clone()));
    let moved = v1::LoadBalancerAnswer {
        identity: named("lb-2"),
        ..taken()
    };
    balancers.update.on(move |_| Reply::Say(moved.clone()));

    // A list that lags behind does not show it: an absence takes nothing away.
    let plan = async |operation| {
        let plan = provider.load_balancers().plan(operation, &web, &all);
        plan.await.unwrap();
    };
    provider.load_balancers().get(&web, &all).await.unwrap();
    provider.ensure_alone(&web, &all).await.unwrap();
    provider.load_balancers().get(&web, &all).await.unwrap();
    plan(PlanOperation::Ensure).await;
    provider.update_alone(&web, &all).await.unwrap();
    provider.ensure_alone(&web, &all).await.unwrap();
    provider.update_alone(&web, &all).await.unwrap();
    plan(PlanOperation::Delete).await;
    provider.delete_alone(&web).await.unwrap();
    let sent = [
        balancers
            .get
            .calls()
            .into_iter()
            .map(|(_, call)| call.identity)
            .collect(),
        balancers
            .ensure
            .calls()
            .into_iter()
            .map(|(_, call)| call.identity)
            .collect(),
        balancers
            .update
            .calls()
            .into_iter()
            .map(|(_, call)| call.identity)
            .collect(),
        balancers
            .plan
            .calls()
            .into_iter()
            .map(|(_, call)| call.identity)
            .collect(),
        balancers
            .delete
            .calls()
            .into_iter()
            .map(|(_, call)| call.identity)
            .collect::<Vec<_>>(),
    ];
    let (first, second) = (named("lb-1"), named("lb-2"));
    let expected = [
        vec![None, first.clone()],
        vec![None, second.clone()],
        vec![first.clone(), first],
        vec![named("lb-1"), second.clone()],
        vec![second],
    ];
    assert_eq!(sent, expected);

    // Neither the deleted load balancer nor another lease term leaves one.
    let last = async |provider: &Provider| {
        provider.load_balancers().get(&web, &all).await.unwrap();
        balancers.get.calls().pop().unwrap().1.identity
    };
    assert_eq!(last(&provider).await, None);
    provider.ensure_alone(&web, &all).await.unwrap();
    assert_eq!(last(&provider).await, named("lb-1"));
    assert_eq!(last(&rig.provider.fenced(fence())).await, None);
    provider.load_balancers().forget(&web.uid);
    assert_eq!(last(&provider).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_call_carries_the_service_and_its_targets() {
    let rig = Rig::balancing(|_| {}).await;
    let web = service_with("web", |service| {
        service["metadata"]["annotations"] = json!({
            "service.beta.kubernetes.io/load-balancer-source-ranges": "10.1.2.3/8, fd00::/64",
            "outrigger.dev/resync": "1",
        });
    });
    let answer = rig
        .provider
        .ensure_alone(&web, &targets(["b", "a"]))
        .await
        .unwrap();
    assert_eq!(answer.disposition, Disposition::Ready);
    assert_eq!(&*answer.ingress.unwrap()[0].ip, "192.0.2.1");
    let compared = targets(["b", "a"]);
    rig.provider
        .load_balancers()
        .get(&web, &compared)
        .await
        .unwrap();
    rig.provider.delete_alone(&web).await.unwrap();
    let balancers = &rig.fake.balancers;
    let (_, request) = balancers.ensure.calls().remove(0);
    let context = request.context.unwrap();
    assert_eq!(
        (&*context.cluster_name, context.request_id.len()),
        ("blue", 36)
    );
    let names = balancers.resolve(request.targets).unwrap();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    let sent = request.service.unwrap();
    assert_eq!((&*sent.namespace, &*sent.uid), ("shop", "uid-web"));
    assert_eq!(
        sent.load_balancer_source_ranges,
        ["10.0.0.0/8", "fd00::/64"]
    );
    assert!(!sent.annotations.contains_key("outrigger.dev/resync"));
    let (_, got) = balancers.get.calls().remove(0);
    let names = balancers.resolve(got.targets).unwrap();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    let got = got.service;
    let deleted = balancers.delete.calls().remove(0).1.service;
    assert_eq!((got.as_ref(), deleted.as_ref()), (Some(&sent), Some(&sent)));
}

/// Which of them makes sense for which call is core's table.
#[tokio::test(start_paused = true)]
async fn each_disposition_is_read() {
    let rig = Rig::balancing(|_| {}).await;
    let (web, all) = (service("web"), targets(["a"]));
    let balancers = &rig.fake.balancers;
    for (said, read) in [
        (D::Unspecified, None),
        (D::Ready, Some(Disposition::Ready)),
        (D::InProgress, Some(Disposition::InProgress)),
        (D::NotManaged, Some(Disposition::NotManaged)),
        (D::Absent, Some(Disposition::Absent)),
        (D::Retained, Some(Disposition::Retained)),
        (D::Differs, Some(Disposition::Differs)),
    ] {
        let answer = v1::LoadBalancerAnswer {
            disposition: said.into(),
            ..v1::LoadBalancerAnswer::default()
        };
        let deleted = answer.clone();
        balancers.get.on(move |_| Reply::Say(answer.clone()));
        balancers.delete.on(move |_| Reply::Say(deleted.clone()));
        let answer = if said == D::Retained {
            rig.provider.delete_alone(&web).await
        } else {
            rig.provider.load_balancers().get(&web, &all).await
        };
        let class = answer.as_ref().err().map(Error::class);
        assert_eq!(answer.ok().map(|answer| answer.disposition), read);
        assert_eq!(class, read.is_none().then_some(ErrorClass::Malformed));
    }
}

#[tokio::test(start_paused = true)]
async fn words_and_times_of_an_answer_are_taken_over() {
    let rig = Rig::balancing(|_| {}).await;
    let wait = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    for (said, read) in [
        (None, secs(10)),
        (wait(7, 0), secs(7)),
        (wait(0, 5), secs(1)),
        (wait(-7, 0), secs(1)),
        (wait(i64::MAX, 0), secs(300)),
    ] {
        rig.fake.balancers.ensure.on(move |_| {
            Reply::Say(v1::LoadBalancerAnswer {
                status: None,
                retry_after: said,
                reason: "AllocatingAddress".into(),
                message: "an address is on its way".into(),
                ..ensured(D::InProgress)
            })
        });
        let answer = ensure(&rig, "web").await.unwrap();
        assert_eq!(answer.retry_after, read, "{said:?}");
        assert_eq!(
            (&*answer.reason, answer.ingress),
            ("AllocatingAddress", None)
        );
        assert_eq!(&*answer.message, "an address is on its way");
    }
}

fn effects() -> v1::KubernetesEffects {
    let condition = |kind: &str| v1::Condition {
        r#type: kind.into(),
        status: "True".into(),
        reason: "Issued".into(),
        message: String::new(),
    };
    v1::KubernetesEffects {
        events: vec![v1::KubernetesEvent {
            r#type: "Warning".into(),
            reason: "QuotaLow".into(),
            message: "two left".into(),
        }],
        set_annotations: [("write.example/id", "7"), ("other.example/id", "8")]
            .map(|(key, value)| (key.into(), value.into()))
            .into(),
        remove_annotations: vec![
            "write.example/old".into(),
            "outrigger.dev/last-applied".into(),
        ],
        conditions: vec![condition("write.example/Certificate"), condition("Other")],
        remove_conditions: vec!["write.example/Old".into()],
    }
}

#[tokio::test(start_paused = true)]
async fn effects_stay_within_what_was_declared() {
    let rig = Rig::balancing(|offered| {
        offered.effects = Some(v1::EffectsCapability {
            service_annotation_prefixes: vec!["write.example/".into()],
            condition_type_prefixes: vec!["write.example/".into()],
            ..v1::EffectsCapability::default()
        });
    })
    .await;
    let with_effects = |_: &v1::EnsureLoadBalancerRequest| {
        Reply::Say(v1::LoadBalancerAnswer {
            effects: Some(effects()),
            ..ready()
        })
    };
    rig.fake.balancers.ensure.on(with_effects);
    let written = ensure(&rig, "web").await.unwrap().effects;
    assert_eq!(
        written.annotations,
        [
            ("write.example/id".into(), Some("7".into())),
            ("write.example/old".into(), None)
        ]
    );
    let kinds: Vec<_> = written.conditions.iter().map(|(kind, _)| &**kind).collect();
    assert_eq!(kinds, ["write.example/Certificate", "write.example/Old"]);
    assert_eq!(written.dropped.count(), 3);
    let reasons = |effects: &Effects| {
        let reasons = effects.events.iter().map(|event| event.reason.clone());
        reasons.collect::<Vec<_>>()
    };
    let theirs = reasons(&written)[0].clone();
    assert_eq!(reasons(&written), [theirs.clone(), "EffectsDropped".into()]);
    // Once for the Service, however often they come.
    let again = ensure(&rig, "web").await.unwrap().effects;
    assert_eq!((reasons(&again), again.dropped.count()), (vec![theirs], 3));

    // A provider that declares no effects has none, events included.
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.ensure.on(with_effects);
    let written = ensure(&rig, "web").await.unwrap().effects;
    assert!(written.is_empty());
    assert_eq!(written.dropped.count(), 8);
}

#[tokio::test(start_paused = true)]
async fn ranges_that_cannot_be_read_are_the_services_fault_and_keep_nothing_from_deletion() {
    let rig = Rig::balancing(|_| {}).await;
    let web = service_with("web", |service| {
        service["metadata"]["annotations"] =
            json!({"service.beta.kubernetes.io/load-balancer-source-ranges": "all-clients"});
    });
    let all = targets(["a"]);
    let provider = &rig.provider;
    let plan = provider
        .load_balancers()
        .plan(PlanOperation::Ensure, &web, &all);
    for error in [
        provider.ensure_alone(&web, &all).await.unwrap_err(),
        provider.update_alone(&web, &all).await.unwrap_err(),
        plan.await.unwrap_err(),
    ] {
        let failure = error.failure(None);
        assert_eq!(failure.class, ErrorClass::Invalid);
        assert_eq!(&*failure.reason, "InvalidSourceRanges");
        assert!(
            failure.message.contains("all-clients is not valid"),
            "{error}"
        );
    }
    let balancers = &rig.fake.balancers;
    assert!(balancers.ensure.calls().is_empty() && balancers.update.calls().is_empty());
    provider.load_balancers().get(&web, &all).await.unwrap();
    provider.delete_alone(&web).await.unwrap();
    let plan = provider
        .load_balancers()
        .plan(PlanOperation::Delete, &web, &all);
    plan.await.unwrap();
    assert_eq!(balancers.delete.calls().len(), 1);
}

/// A provider that serves internal load balancers, one address and health checks, and a Service with these annotations.
async fn with_options(annotations: serde_json::Value) -> (Rig, Arc<ServiceView>) {
    let rig = Rig::balancing(|offered| {
        let options = v1::LoadBalancerOptionsCapability {
            schemes: vec![v1::LoadBalancerScheme::Internal.into()],
            max_requested_addresses: 1,
            health_check: Some(v1::HealthCheckCapability {
                protocols: vec![v1::HealthCheckProtocol::Http.into()],
                ..v1::HealthCheckCapability::default()
            }),
            ..v1::LoadBalancerOptionsCapability::default()
        };
        offered.load_balancers.get_or_insert_default().options = Some(options);
    });
    let web = service_with("web", |service| {
        service["metadata"]["annotations"] = annotations;
        service["spec"]["loadBalancerIP"] = json!("192.0.2.7");
    });
    (rig.await, web)
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_declares_options_is_sent_them_beside_the_field_of_the_service() {
    let scheme = json!({"outrigger.dev/load-balancer-scheme": "internal"});
    let (rig, web) = with_options(scheme).await;
    let all = targets(["a"]);
    rig.provider.ensure_alone(&web, &all).await.unwrap();
    let expected = v1::LoadBalancerOptions {
        scheme: v1::LoadBalancerScheme::Internal.into(),
        requested_addresses: vec!["192.0.2.7".into()],
        health_check: Some(v1::HealthCheck {
            implied: true,
            protocol: v1::HealthCheckProtocol::Http.into(),
            port: 10_256,
            path: "/healthz".into(),
            ..v1::HealthCheck::default()
        }),
        ..v1::LoadBalancerOptions::default()
    };
    let sent = |rig: &Rig| {
        rig.fake.balancers.ensure.calls()[0]
            .1
            .service
            .clone()
            .unwrap()
    };
    assert_eq!(sent(&rig).load_balancer_options, Some(expected));
    assert_eq!(sent(&rig).load_balancer_ip, "192.0.2.7");
    // Without the declaration there are none.
    let rig = Rig::balancing(|_| {}).await;
    ensure(&rig, "web").await.unwrap();
    assert_eq!(sent(&rig).load_balancer_options, None);
}

#[tokio::test(start_paused = true)]
async fn options_that_are_refused_keep_nothing_from_its_targets_or_from_deletion() {
    for (name, value, reason) in [
        ("typo", "x", "UnsupportedOptions"),
        ("proxy-protocol", "v1", "UnsupportedOptions"),
        ("scheme", "internet-facing", "UnsupportedOptions"),
        ("addresses", "192.0.2.8", "ConflictingOptions"),
    ] {
        let key = format!("outrigger.dev/load-balancer-{name}");
        let (rig, web) = with_options(json!({key.as_str(): value})).await;
        let all = targets(["a"]);
        let provider = &rig.provider;
        let balancers = provider.load_balancers();
        for error in [
            balancers.get(&web, &all).await.unwrap_err(),
            provider.ensure_alone(&web, &all).await.unwrap_err(),
            balancers
                .plan(PlanOperation::Ensure, &web, &all)
                .await
                .unwrap_err(),
        ] {
            let failure = error.failure(None);
            assert_eq!(failure.class, ErrorClass::Invalid);
            assert_eq!(&*failure.reason, reason);
            assert!(failure.message.contains(&key), "{error}");
        }
        let calls = &rig.fake.balancers;
        assert!(calls.ensure.calls().is_empty() && calls.get.calls().is_empty());
        provider.update_alone(&web, &all).await.unwrap();
        let updates = calls.update.calls();
        assert_eq!(
            updates[0].1.service.as_ref().unwrap().load_balancer_options,
            None
        );
        provider.delete_alone(&web).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn options_that_are_refused_are_said_of_a_plan_that_the_provider_does_not_offer() {
    let rig = Rig::balancing(|offered| {
        offered.load_balancers.get_or_insert_default().plan = false;
    })
    .await;
    let web = service_with("web", |service| {
        service["metadata"]["annotations"] = json!({"outrigger.dev/load-balancer-typo": "x"});
    });
    let (balancers, all) = (rig.provider.load_balancers(), targets(["a"]));
    let error = balancers
        .plan(PlanOperation::Ensure, &web, &all)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::InvalidService { .. }), "{error:?}");
    let error = balancers
        .plan(PlanOperation::Delete, &web, &all)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotOffered { .. }), "{error:?}");
    assert!(rig.fake.balancers.plan.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_becomes_a_reason_and_a_steady_message() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.ensure.on(|_| {
        let mut status = refusal(Code::ResourceExhausted, "QUOTA_EXCEEDED", None);
        let details = status.details().to_vec();
        let message = "too many (request id: 4f5e6d7c-0000-4000-8000-123456789abc)";
        status = Status::with_details(status.code(), message, details.into());
        Reply::Fail(status)
    });
    let failure = ensure(&rig, "web").await.unwrap_err().failure(None);
    assert_eq!(failure.class, ErrorClass::Quota);
    assert_eq!(&*failure.reason, "QuotaExceeded");
    assert_eq!(&*failure.message, "too many (request id: …)");
    rig.fake
        .balancers
        .ensure
        .on(|_| Reply::Fail(Status::internal("bug")));
    let failure = ensure(&rig, "web").await.unwrap_err().failure(None);
    assert_eq!(
        (failure.class, &*failure.reason),
        (ErrorClass::Transient, "")
    );
}
