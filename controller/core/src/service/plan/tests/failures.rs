//! Ensure fails.

use super::*;
use crate::event::EventContent;

/// S-36.
#[test]
fn an_error_is_shown_and_tried_again() {
    for (class, event, requeue) in [
        (ErrorClass::Transient, true, Requeue::BackOff),
        (ErrorClass::Quota, true, Requeue::BackOff),
        (ErrorClass::NotReady, true, Requeue::BackOff),
        (ErrorClass::Forbidden, true, Requeue::SlowBackOff),
        (ErrorClass::Unimplemented, true, Requeue::SlowBackOff),
        (ErrorClass::Unavailable, false, Requeue::BackOff),
        (ErrorClass::Invalid, true, Requeue::OnChange),
        (
            ErrorClass::RateLimited {
                retry_after: Some(Duration::from_secs(3)),
            },
            false,
            Requeue::After(Duration::from_secs(3)),
        ),
    ] {
        let mut stage = Stage::new(load_balancer("web"));
        stage.step();
        let before = stage.conditions();
        let outcome = stage.ensure(Err(&failure(class)));
        assert_eq!(outcome.requeue, Some(requeue), "{class:?}");
        if event {
            let [event] = &*outcome.events else {
                panic!("{class:?}: {:?}", outcome.events);
            };
            assert_eq!(event.kind, EventType::Warning);
            assert_eq!(&*event.reason, "SyncLoadBalancerFailed");
            let text = "Error syncing load balancer: failed to ensure load balancer: no luck";
            assert_eq!(&*event.message, text);
            let provisioned = stage.service.condition(PROVISIONED).unwrap();
            assert_eq!(
                (&*provisioned.status, &*provisioned.message),
                ("False", "no luck")
            );
        } else {
            assert!(outcome.events.is_empty(), "{class:?}");
            assert_eq!(stage.conditions(), before, "{class:?}");
        }
        if requeue == Requeue::OnChange {
            assert_eq!(stage.next(), Step::Idle, "{class:?}");
        } else {
            // It is announced on each try, as upstream does.
            let events = stage.question().events(&stage.targets);
            assert_eq!(&*events[0].reason, "EnsuringLoadBalancer", "{class:?}");
        }
    }
}

/// Calls pause for all Services. The one that met it has an event: else nothing in the cluster says why they wait.
#[test]
fn refused_credentials_are_an_event_without_a_condition() {
    let refused = failure(ErrorClass::Unauthenticated);
    let mut stage = Stage::new(load_balancer("web"));
    stage.step();
    let before = stage.conditions();
    let outcome = stage.ensure(Err(&refused));
    let [event] = &*outcome.events else {
        panic!("{:?}", outcome.events);
    };
    assert_eq!(event.kind, EventType::Warning);
    let text = "Error syncing load balancer: failed to ensure load balancer: no luck";
    assert_eq!(
        (&*event.reason, &*event.message),
        ("SyncLoadBalancerFailed", text)
    );
    assert_eq!(stage.conditions(), before);
}

#[test]
fn the_reason_of_a_condition_is_the_providers_or_names_the_class() {
    let mut stage = Stage::new(load_balancer("web"));
    stage.ensure(Err(&failure(ErrorClass::NotReady)));
    assert_eq!(stage.conditions(), "True:Accepted False:NotReady ");
    let named = Failure {
        reason: "UnsupportedProtocol".into(),
        ..failure(ErrorClass::Invalid)
    };
    stage.ensure(Err(&named));
    let expected = "False:UnsupportedProtocol False:UnsupportedProtocol ";
    assert_eq!(stage.conditions(), expected);
}

/// S-33: without the words about the provider's own errors.
#[test]
fn an_answer_that_is_refused_is_malformed() {
    let raw = RawAnswer {
        disposition: Some(Disposition::Ready),
        ..RawAnswer::default()
    };
    let refusal = raw
        .check(LoadBalancerCall::Ensure, &ForbiddenAddresses::default())
        .unwrap_err();
    let mut stage = Stage::new(load_balancer("web"));
    let outcome = stage.ensure(Err(&Failure::from(&refusal)));
    let text = format!("Error syncing load balancer: {refusal}");
    assert_eq!(*outcome.events[0].message, *text);
    assert_eq!(outcome.requeue, Some(Requeue::SlowBackOff));
}

/// It waits until the Service, or the provider, changes; its targets do not.
#[test]
fn a_service_that_is_wrong_in_itself() {
    let mut stage = Stage::settled();
    stage.service.spec.ports[0].protocol = "SCTP".into();
    assert!(!stage.progress.is_refused());
    stage.ensure(Err(&failure(ErrorClass::Invalid)));
    assert_eq!(stage.next(), Step::Idle);
    assert!(stage.progress.is_refused() && !stage.progress.is_waiting());
    assert_eq!(&*stage.service.ingress[0].ip, "192.0.2.7");

    let mut nodes_changed = stage.clone();
    nodes_changed.targets = nodes("n1");
    assert_eq!(nodes_changed.next(), Step::Update);
    let mut other_provider = stage.clone();
    let service = &other_provider.service;
    other_provider.progress.provider_changed(service, None);
    assert!(matches!(other_provider.next(), Step::Ensure(_)));
    let mut restarted = stage.clone();
    restarted.restart();
    assert!(matches!(restarted.next(), Step::Ensure(_)));
    stage.service.spec.ports[0].protocol = "UDP".into();
    assert!(matches!(stage.next(), Step::Ensure(_)));
}

#[test]
fn accepted_follows_the_first_answer() {
    let in_progress = ErrorClass::InProgress { retry_after: None };
    for (class, expected) in [
        (ErrorClass::Quota, "True:Accepted"),
        (ErrorClass::NotReady, "True:Accepted"),
        (ErrorClass::Forbidden, "True:Accepted"),
        (in_progress, "True:Accepted"),
        (ErrorClass::Invalid, "False:Invalid"),
        // Nothing was said about this Service.
        (ErrorClass::Transient, "Unknown:Pending"),
        (ErrorClass::Malformed, "Unknown:Pending"),
        (ErrorClass::Unavailable, "Unknown:Pending"),
    ] {
        let mut stage = Stage::new(load_balancer("web"));
        stage.ensure(Err(&failure(class)));
        let conditions = stage.conditions();
        let accepted = conditions.split(' ').next().unwrap();
        assert_eq!(accepted, expected, "{class:?}");
    }
    // It was accepted before, and nothing is known that says otherwise.
    let mut stage = Stage::settled();
    stage.service.spec.ports[0].port = 81;
    stage.ensure(Err(&failure(ErrorClass::Transient)));
    assert_eq!(
        stage.conditions(),
        "True:Accepted False:Transient True:InSync"
    );
}

/// A serving load balancer does not look broken after a background call fails.
#[test]
fn a_quiet_call_that_fails_leaves_provisioned_alone() {
    let mut stage = Stage::settled();
    stage.capability.configuration_revision = "r2".into();
    stage.ensure(Err(&failure(ErrorClass::Transient)));
    assert_eq!(stage.conditions(), "True:Accepted True:Ready True:InSync");
}

/// Effects beside an error concern the Service as much as those beside an answer.
#[test]
fn effects_beside_an_error_are_written() {
    let failed = Failure {
        effects: Effects {
            events: vec![EventContent::sync_failed("in the provider's words")],
            annotations: vec![("example.com/status-id".into(), Some("lb-1".into()))],
            ..Effects::default()
        },
        ..failure(ErrorClass::Quota)
    };
    let tries: [fn(&mut Stage, &Failure) -> Consequence; 3] = [
        |stage, failed| {
            stage.service.spec.ports[0].port += 1;
            stage.ensure(Err(failed))
        },
        |stage, failed| {
            stage.targets = nodes("n1");
            stage.update(Err(failed))
        },
        |stage, failed| {
            stage.service.deleted = Some(Timestamp::UNIX_EPOCH);
            stage.delete(Err(failed))
        },
    ];
    for (at, fail) in tries.into_iter().enumerate() {
        let mut stage = Stage::settled();
        let outcome = fail(&mut stage, &failed);
        assert_eq!(
            outcome.events.first(),
            failed.effects.events.first(),
            "{at}"
        );
        let written = stage.service.annotations.get("example.com/status-id");
        assert_eq!(written, Some("lb-1"), "{at}");
    }
}
