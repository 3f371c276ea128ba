//! The load balancer goes.

use super::*;

fn deleting() -> Stage {
    let mut stage = Stage::settled();
    stage.service.finalizers = ["example.com/x".into(), FINALIZER.into()].into();
    stage.service.deleted = Some(at(0));
    stage
}

fn of_another_type() -> Stage {
    let mut stage = Stage::settled();
    stage.service.spec.kind = "ClusterIP".into();
    stage.service.ingress = [].into();
    stage
}

/// A manifest that was copied with its finalizer has one before we have done anything.
#[test]
fn one_that_changes_its_type_before_it_is_settled_is_ours_all_the_same() {
    for without_default_class in [false, true] {
        let mut service = load_balancer("web");
        service.spec.load_balancer_class = Some("example.com/fast".into());
        service.finalizers = [FINALIZER.into()].into();
        let mut stage = Stage::new(service);
        stage.capability.without_default_class = without_default_class;
        stage.question();
        stage.service.spec.kind = "ClusterIP".into();
        stage.service.spec.load_balancer_class = None;
        let is_cleaned_up = matches!(stage.next(), Step::Delete { .. });
        assert!(is_cleaned_up, "{without_default_class}: {:?}", stage.next());
    }
}

/// S-40, S-41, S-43.
#[test]
fn the_finalizer_goes_when_nothing_is_left_to_do() {
    for disposition in [
        Disposition::Absent,
        Disposition::NotManaged,
        Disposition::Retained,
    ] {
        for mut stage in [deleting(), of_another_type()] {
            let Step::Delete { events } = stage.next() else {
                panic!("{:?}", stage.next());
            };
            assert_eq!(&*events[0].reason, "DeletingLoadBalancer");
            let outcome = stage.delete(Ok(&answer(LoadBalancerCall::Delete, disposition, "")));
            let event = match disposition {
                Disposition::Retained => "RetainedLoadBalancer",
                _ => "DeletedLoadBalancer",
            };
            assert_eq!((reasons(&outcome), outcome.requeue), (vec![event], None));
            let service = &stage.service;
            assert!(!service.has_finalizer() && service.ingress.is_empty());
            assert!(
                service
                    .finalizers
                    .iter()
                    .all(|name| &**name == "example.com/x")
            );
            assert_eq!(LastApplied::of(service), None);
            assert!(service.conditions.is_empty());
            // Not Q-6: other finalizers may keep it for long.
            assert_eq!(stage.next(), Step::Idle);
            stage.restart();
            assert_eq!(stage.next(), Step::Idle);
        }
    }
}

#[test]
fn the_finalizer_stays_while_the_provider_is_at_work() {
    let mut stage = deleting();
    let outcome = stage.delete(Ok(&answer(
        LoadBalancerCall::Delete,
        Disposition::InProgress,
        "",
    )));
    assert_eq!(
        outcome.requeue,
        Some(Requeue::After(Duration::from_secs(10)))
    );
    assert!(outcome.events.is_empty() && stage.service.has_finalizer());
    assert_eq!(
        stage.conditions(),
        "True:Accepted False:Deleting True:InSync"
    );
    assert_eq!(stage.next(), Step::At(at(10)));
    stage.now = at(10);
    assert_eq!(stage.next(), Step::Delete { events: vec![] });
}

/// S-43, and S-14: whatever it is, it is tried again; not Q-28.
#[test]
fn the_finalizer_stays_after_an_error() {
    let limited = ErrorClass::RateLimited {
        retry_after: Some(Duration::from_secs(7)),
    };
    for (class, requeue) in [
        (ErrorClass::Transient, Requeue::BackOff),
        (ErrorClass::Invalid, Requeue::BackOff),
        (ErrorClass::Unimplemented, Requeue::SlowBackOff),
        (ErrorClass::Unavailable, Requeue::BackOff),
        (ErrorClass::Unauthenticated, Requeue::BackOff),
        (limited, Requeue::After(Duration::from_secs(7))),
        // S-14: no edit brings the next try forward.
        (
            ErrorClass::InProgress {
                retry_after: Some(Duration::from_mins(4)),
            },
            Requeue::After(Duration::from_secs(30)),
        ),
    ] {
        let mut stage = deleting();
        let outcome = stage.delete(Err(&failure(class)));
        assert_eq!(outcome.requeue, Some(requeue), "{class:?}");
        assert!(stage.service.has_finalizer(), "{class:?}");
        assert!(matches!(stage.next(), Step::Delete { .. }), "{class:?}");
        for event in &outcome.events {
            let text = "Error syncing load balancer: failed to delete load balancer: no luck";
            assert_eq!(
                (&*event.reason, &*event.message),
                ("SyncLoadBalancerFailed", text)
            );
        }
        assert_eq!(
            outcome.events.len(),
            usize::from(class.is_for_owner() || class == ErrorClass::Unauthenticated),
            "{class:?}"
        );
    }
}

/// S-60, not Q-5: nothing is left to write to.
#[test]
fn a_service_that_is_gone() {
    let stage = Stage::settled();
    let mut progress = Progress::default();
    assert!(matches!(progress.clean_up(at(0)), Step::Delete { .. }));
    let mut conclude = |result| {
        let call = BalancerCall::Delete { is_gone: true };
        progress.concluded(&stage.service, &call, &result, &stage.facts())
    };
    let outcome = conclude(Err(Box::new(failure(ErrorClass::Quota))));
    assert_eq!(reasons(&outcome), ["DeleteLoadBalancerFailed"]);
    assert_eq!(
        &*outcome.events[0].message,
        "Error deleting load balancer: no luck"
    );
    assert_eq!(outcome.requeue, Some(Requeue::BackOff));
    let absent = answer(LoadBalancerCall::Delete, Disposition::Absent, "");
    let outcome = conclude(Ok(absent));
    assert_eq!(
        (reasons(&outcome), outcome.requeue),
        (vec!["DeletedLoadBalancer"], None)
    );
}

#[test]
fn a_type_that_changes_back_during_the_deletion() {
    let mut stage = of_another_type();
    assert!(matches!(stage.next(), Step::Delete { .. }));
    stage.service.spec.kind = "LoadBalancer".into();
    let outcome = stage.delete(Ok(&answer(
        LoadBalancerCall::Delete,
        Disposition::Absent,
        "",
    )));
    assert_eq!(outcome.requeue, Some(Requeue::After(Duration::ZERO)));
    assert!(stage.service.has_finalizer());
    assert_eq!(stage.question().cause, EnsureCause::New);
}

#[test]
fn a_deletion_during_the_call_is_next() {
    let mut stage = Stage::new(load_balancer("web"));
    let question = stage.question();
    stage.service.deleted = Some(at(0));
    let ready = answer(LoadBalancerCall::Ensure, Disposition::Ready, "192.0.2.7");
    let outcome = stage.answer(&question, Ok(&ready));
    assert_eq!(
        (&outcome.patch, outcome.requeue),
        (&None, Some(Requeue::After(Duration::ZERO)))
    );
    assert!(matches!(stage.next(), Step::Delete { .. }));
}

#[test]
fn an_operator_holds_a_deletion_too() {
    let mut stage = deleting();
    stage.pause(true);
    stage.step();
    assert!(stage.is_held());
    stage.pause(false);
    assert!(matches!(stage.next(), Step::Delete { .. }));
    stage.delete(Ok(&answer(
        LoadBalancerCall::Delete,
        Disposition::InProgress,
        "",
    )));
    assert_eq!(stage.service.condition(WAITING), None);
}
