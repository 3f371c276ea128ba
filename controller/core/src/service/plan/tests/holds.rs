//! Services for which nothing is done: what is said on them, and how they go on.

use super::*;

fn waiting(stage: &Stage) -> Option<(&str, &str)> {
    let condition = stage.service.condition(WAITING)?;
    Some((&*condition.status, &*condition.reason))
}

fn class_withdrawn() -> Stage {
    let mut stage = Stage::settled();
    stage.restart();
    stage.capability.without_default_class = true;
    stage
}

#[test]
fn a_pause_is_written_and_reported_once() {
    let mut stage = Stage::settled();
    stage.pause(true);
    let Step::Hold { why, patch, events } = stage.next() else {
        panic!("{:?}", stage.next());
    };
    assert_eq!(why, HoldReason::Paused);
    let [event] = &*events else {
        panic!("{events:?}")
    };
    assert_eq!(
        (event.kind, &*event.reason),
        (EventType::Normal, "LoadBalancerPaused")
    );
    stage.write(&patch.unwrap());
    assert_eq!(waiting(&stage), Some(("True", "Paused")));
    // Neither with a resync nor after a restart.
    assert!(stage.is_held());
    stage.restart();
    assert!(stage.is_held());
    stage.pause(false);
    assert_eq!(stage.step(), Step::Idle);
    assert_eq!(waiting(&stage), None);
}

#[test]
fn a_class_that_is_served_no_longer_is_written_and_reported_once() {
    let mut stage = class_withdrawn();
    let Step::Hold { why, events, .. } = stage.next() else {
        panic!("{:?}", stage.next());
    };
    assert_eq!(why, HoldReason::ClassNotServed);
    let [event] = &*events else {
        panic!("{events:?}")
    };
    assert_eq!(
        (event.kind, &*event.reason),
        (EventType::Warning, "LoadBalancerClassNotServed")
    );
    let text = "does not serve Services without a load balancer class any more";
    assert!(event.message.contains(text), "{}", event.message);
    stage.step();
    assert_eq!(waiting(&stage), Some(("True", "ClassNotServed")));
    stage.restart();
    assert!(stage.is_held());
    // Neither call nor event when it is back.
    stage.capability.without_default_class = false;
    assert_eq!(stage.step(), Step::Idle);
    assert_eq!(waiting(&stage), None);
    assert_eq!(stage.conditions(), "True:Accepted True:Ready True:InSync");
    stage.restart();
    assert_eq!(stage.next(), Step::Idle);
}

#[test]
fn a_hold_writes_no_record_of_what_is_not_there_or_about_to_go() {
    let new = Stage::new(load_balancer("web"));
    let mut deleted = Stage::settled();
    deleted.service.deleted = Some(at(0));
    // By upstream's controller, which had no addresses for it yet.
    let mut begun = Stage::new(load_balancer("web"));
    begun.service.finalizers = [FINALIZER.into()].into();
    for mut stage in [new, deleted, begun] {
        stage.pause(true);
        let Step::Hold { patch, .. } = stage.next() else {
            panic!("{:?}", stage.next());
        };
        assert!(patch.unwrap().annotations.is_empty());
    }
}

#[test]
fn a_wrong_selection_changes_nothing_until_it_is_right() {
    let (key, value) = (ANNOTATION_NODE_SELECTOR, "pool in x");
    // Before anything is made.
    let mut stage = Stage::new(load_balancer("web"));
    stage.annotate(key, value);
    let Step::Hold { why, patch, events } = stage.next() else {
        panic!("{:?}", stage.next());
    };
    assert_eq!(why, HoldReason::InvalidAnnotation);
    let [event] = &*events else {
        panic!("{events:?}")
    };
    assert_eq!(
        (event.kind, &*event.reason),
        (EventType::Warning, "InvalidTargetAnnotation")
    );
    assert!(event.message.contains(key), "{}", event.message);
    assert_eq!(patch.unwrap().finalizer, None);
    stage.step();
    assert_eq!(waiting(&stage), Some(("True", "InvalidAnnotation")));
    // Another mistake is another event.
    stage.annotate(key, ",");
    assert!(matches!(stage.next(), Step::Hold { events, .. } if events.len() == 1));

    // A load balancer stays with its targets, over a restart too.
    for restarts in [false, true] {
        let mut stage = Stage::settled();
        stage.restart();
        stage.annotate(key, value);
        stage.step();
        stage.targets = nodes("n1 n3");
        stage.step();
        if restarts {
            stage.restart();
        }
        assert!(stage.is_held(), "{:?}", stage.next());
        stage.service.annotations = stage.service.annotations.clone().without(key);
        assert_eq!(stage.question().cause, EnsureCause::Changed, "{restarts}");
        assert_eq!(waiting(&stage), None);
    }
    // It goes with its Service.
    let mut stage = Stage::settled();
    stage.annotate(key, value);
    stage.step();
    stage.service.deleted = Some(at(0));
    assert!(
        matches!(stage.next(), Step::Delete { .. }),
        "{:?}",
        stage.next()
    );
}

/// Another selection is another load balancer: it is ensured, and the Lease does not say what it had before.
#[test]
fn another_selection_is_ensured() {
    let mut stage = Stage::settled();
    stage.restart();
    stage.annotate(ANNOTATION_NODE_SELECTOR, "pool=x");
    stage.targets = nodes("n1");
    assert_eq!(stage.question().cause, EnsureCause::Changed);
    // Its record has no hash now, so that a crash repeats it.
    stage.restart();
    assert_eq!(stage.question().cause, EnsureCause::Changed);

    let mut stage = Stage::settled();
    stage.annotate(ANNOTATION_NODE_SELECTOR, "pool=x");
    stage.restart();
    stage.pause(true);
    stage.step();
    assert!(!LastApplied::of(&stage.service).unwrap().has_hash());
}

/// The Lease speaks of the others only.
#[test]
fn a_released_service_gets_the_targets_that_it_missed() {
    type Edit = fn(&mut Stage);
    let hold: [(Edit, Edit); 2] = [
        (|stage| stage.pause(true), |stage| stage.pause(false)),
        (
            |stage| stage.capability.without_default_class = true,
            |stage| stage.capability.without_default_class = false,
        ),
    ];
    for (begin, end) in hold {
        for restarts in [false, true] {
            let mut stage = Stage::settled();
            stage.restart();
            begin(&mut stage);
            stage.targets = nodes("n1 n3");
            assert!(holds_up(&stage), "until its record says so");
            stage.step();
            assert!(!holds_up(&stage));
            if restarts {
                stage.restart();
            }
            end(&mut stage);
            let question = stage.question();
            stage.answer(
                &question,
                Ok(&answer(
                    LoadBalancerCall::Ensure,
                    Disposition::Ready,
                    "192.0.2.7",
                )),
            );
            assert_eq!(stage.step(), Step::Idle);
            assert_eq!(stage.service.condition(WAITING), None);
            stage.restart();
            assert_eq!(stage.next(), Step::Idle, "the Lease counts again");
        }
    }
}

/// A Service that does not take its targets delays the others only until its status says so.
#[test]
fn one_that_takes_no_targets_is_alone_after_a_restart() {
    for class in [ErrorClass::Quota, ErrorClass::Malformed] {
        let mut stage = Stage::settled();
        stage.targets = nodes("n1 n3");
        stage.update(Err(&failure(class)));
        assert!(holds_up(&stage), "{class:?}");
        for second in [1, 31] {
            stage.now = at(second);
            match stage.step() {
                Step::Update => stage.update(Err(&failure(class))),
                _ => stage.ensure(Err(&failure(class))),
            };
        }
        assert!(!holds_up(&stage), "{class:?}");
        stage.restart();
        assert!(!holds_up(&stage), "{class:?}");
        match stage.step() {
            Step::Update => stage.updated(Disposition::Ready, ""),
            _ => stage.ensured(Disposition::Ready, "192.0.2.7"),
        };
        let conditions = "True:Accepted True:Ready True:InSync";
        assert_eq!(stage.conditions(), conditions, "{class:?}");
        stage.restart();
        assert_eq!(stage.next(), Step::Idle, "{class:?}");
    }
}

/// It is ensured at a start anyway.
#[test]
fn one_that_is_not_settled_does_not_delay_the_others() {
    let mut stage = Stage::settled();
    stage.service.spec.ports[0].port = 81;
    stage.ensure(Err(&failure(ErrorClass::Invalid)));
    stage.targets = nodes("n1 n3");
    assert!(!holds_up(&stage));
    stage.restart();
    assert!(matches!(stage.step(), Step::Ensure(_)));
}

/// Neither this leader nor the next one writes anything more.
#[test]
fn one_that_is_edited_while_it_is_paused_is_ensured_when_it_is_free() {
    let mut stage = Stage::settled();
    stage.pause(true);
    stage.step();
    stage.service.spec.ports[0].port = 81;
    stage.step();
    stage.restart();
    assert!(stage.is_held(), "{:?}", stage.next());
    stage.pause(false);
    assert_eq!(stage.question().cause, EnsureCause::Changed);
}

#[test]
fn a_service_that_is_too_large_is_left_alone_until_it_is_smaller() {
    let mut stage = Stage::settled();
    let whole = stage.service.clone();
    let large = "x".repeat(100_000);
    stage.annotate("example.com/large", &large);
    stage.service.forget_if_too_large();
    let Step::Hold { patch, events, .. } = stage.next() else {
        panic!("{:?}", stage.next());
    };
    let [event] = &*events else {
        panic!("{events:?}")
    };
    let content = (event.kind, &*event.reason);
    assert_eq!(content, (EventType::Warning, "ServiceTooLarge"));
    stage.write(&patch.unwrap());
    assert_eq!(waiting(&stage), Some(("True", "TooLarge")));
    assert!(stage.is_held());
    // Nor is its load balancer deleted: the annotations that it was made with are not known.
    stage.service.deleted = Some(stage.now);
    assert!(stage.is_held());
    // It is whole again, and what it was is settled.
    assert!(needs_sync(&stage.service, &whole, &stage.capability));
    let conditions = stage.service.conditions.clone();
    stage.service = ServiceView {
        conditions,
        ..whole
    };
    assert_eq!(stage.step(), Step::Idle);
    assert_eq!(waiting(&stage), None);
}
