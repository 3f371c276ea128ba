//! Targets change.

use super::*;

fn moved() -> Stage {
    let mut stage = Stage::settled();
    stage.targets = nodes("n1 n3");
    assert_eq!(stage.next(), Step::Update);
    stage
}

/// S-54: no status is written for nodes that come and go.
#[test]
fn new_targets_are_one_call_and_no_write() {
    let mut stage = moved();
    let outcome = stage.updated(Disposition::Ready, "");
    assert_eq!(reasons(&outcome), ["UpdatedLoadBalancer"]);
    assert_eq!((outcome.patch, outcome.requeue), (None, None));
    assert_eq!(stage.next(), Step::Idle);

    stage.targets = nodes("");
    let outcome = stage.updated(Disposition::Ready, "");
    assert_eq!(reasons(&outcome), ["UnAvailableLoadBalancer"]);
}

#[test]
fn an_answer_to_an_update_that_lacks_a_kind_of_address_takes_none_from_the_service() {
    let host = || Ingress {
        hostname: "lb.example.com".into(),
        ..Ingress::default()
    };
    for (held, named, expected) in [
        (
            "192.0.2.7 2001:db8::7",
            "192.0.2.7",
            "192.0.2.7 2001:db8::7",
        ),
        (
            "192.0.2.7 2001:db8::7",
            "2001:db8::8",
            "2001:db8::8 192.0.2.7",
        ),
        (
            "192.0.2.7",
            "192.0.2.8 2001:db8::7",
            "192.0.2.8 2001:db8::7",
        ),
    ] {
        let mut stage = Stage::new(load_balancer("web"));
        let mut made = answer(LoadBalancerCall::Ensure, Disposition::Ready, held);
        let held = held.split_whitespace().map(ip).chain([host()]);
        made.ingress = Some(held.collect());
        stage.ensure(Ok(&made));
        stage.targets = nodes("n1 n3");
        let ready = answer(LoadBalancerCall::Update, Disposition::Ready, named);
        stage.update(Ok(&ready));
        let expected = expected.split_whitespace().map(ip).chain([host()]);
        let expected: Vec<_> = expected.collect();
        assert!(is_same(&stage.service.ingress, &expected), "{named}");
        assert_eq!(stage.next(), Step::Idle);
    }
}

#[test]
fn other_answers_to_an_update() {
    let mut stage = moved();
    let outcome = stage.updated(Disposition::Ready, "192.0.2.9");
    assert!(outcome.patch.is_some());
    assert_eq!(&*stage.service.ingress[0].ip, "192.0.2.9");
    assert_eq!(stage.next(), Step::Idle);

    for disposition in [Disposition::Absent, Disposition::NotManaged] {
        let mut stage = moved();
        let outcome = stage.updated(disposition, "");
        assert_eq!(outcome.requeue, Some(Requeue::After(Duration::ZERO)));
        assert_eq!(stage.question().cause, EnsureCause::TargetsFailed);
    }

    // Not S-55: the Service says that it gets no nodes any more.
    let mut stage = moved();
    stage.updated(Disposition::NotManaged, "");
    let outcome = stage.ensured(Disposition::NotManaged, "");
    assert_eq!(reasons(&outcome), ["LoadBalancerNotManaged"]);
    assert_eq!(stage.conditions(), "False:NotManaged  ");

    let mut stage = moved();
    let outcome = stage.updated(Disposition::InProgress, "");
    assert_eq!(
        outcome.requeue,
        Some(Requeue::After(Duration::from_secs(10)))
    );
    assert_eq!(stage.next(), Step::Update);
}

/// A serving load balancer whose change the provider asked to wait for.
fn at_work() -> Stage {
    let mut stage = Stage::settled();
    stage.service.spec.ports[0].port = 81;
    let mut working = answer(LoadBalancerCall::Ensure, Disposition::InProgress, "");
    working.retry_after = Duration::from_mins(2);
    stage.ensure(Ok(&working));
    assert_eq!(stage.next(), Step::At(at(120)));
    stage
}

/// A node that is gone would get traffic for as long.
#[test]
fn new_targets_do_not_wait_for_the_providers_own_work() {
    let mut stage = at_work();
    stage.targets = nodes("n1");
    assert_eq!(stage.next(), Step::Update);
    let outcome = stage.updated(Disposition::Ready, "");
    // The wait for the rest is not forgotten.
    assert_eq!(outcome.requeue, Some(Requeue::After(Duration::ZERO)));
    assert_eq!(stage.next(), Step::At(at(120)));
    stage.now = at(120);
    assert_eq!(stage.question().cause, EnsureCause::Continued);
}

#[test]
fn an_update_beside_the_providers_own_work_is_not_repeated_in_a_loop() {
    // It takes time too: the next Ensure brings them.
    let mut stage = at_work();
    stage.targets = nodes("n1");
    stage.now = at(50);
    let working = answer(LoadBalancerCall::Update, Disposition::InProgress, "");
    stage.update(Ok(&working));
    assert_eq!(stage.next(), Step::At(at(60)));

    // Not taken: an Ensure at once, and its answer is waited for with these targets.
    let mut stage = at_work();
    stage.targets = nodes("n1");
    let outcome = stage.update(Err(&failure(ErrorClass::Transient)));
    assert_eq!(outcome.requeue, Some(Requeue::After(Duration::ZERO)));
    let question = stage.question();
    assert_eq!(question.cause, EnsureCause::Continued);
    stage.answer(
        &question,
        Ok(&answer(
            LoadBalancerCall::Ensure,
            Disposition::InProgress,
            "",
        )),
    );
    assert_eq!(stage.next(), Step::At(at(10)));
    assert!(stage.progress.is_waiting() && !stage.progress.is_refused());

    // Time alone heals it: the update once more, after the back-off.
    let mut stage = at_work();
    stage.targets = nodes("n1");
    let outcome = stage.update(Err(&failure(ErrorClass::Unavailable)));
    assert_eq!(outcome.requeue, Some(Requeue::BackOff));
    assert_eq!(stage.next(), Step::Update);
}

/// S-55: a full Ensure at once, in upstream's words.
#[test]
fn targets_that_were_not_taken_lead_to_an_ensure() {
    let mut stage = moved();
    let outcome = stage.update(Err(&failure(ErrorClass::Transient)));
    assert_eq!(outcome.requeue, Some(Requeue::After(Duration::ZERO)));
    let [event] = &*outcome.events else {
        panic!("{:?}", outcome.events);
    };
    assert_eq!(
        (event.kind, &*event.reason),
        (EventType::Warning, "UpdateLoadBalancerFailed")
    );
    let text = "Error updating load balancer with new hosts [n1 n3] [node names limited, total \
                number of nodes: 2], error: no luck";
    assert_eq!(&*event.message, text);
    // Whatever else changes.
    stage.service.spec.ports[0].port = 81;
    assert_eq!(stage.question().cause, EnsureCause::TargetsFailed);
    stage.ensured(Disposition::Ready, "192.0.2.7");
    assert_eq!(stage.next(), Step::Idle);
}

#[test]
fn an_update_of_an_invalid_service_leads_to_an_ensure() {
    let mut stage = moved();
    let outcome = stage.update(Err(&failure(ErrorClass::Invalid)));
    assert_eq!(outcome.requeue, Some(Requeue::After(Duration::ZERO)));
    assert_eq!(stage.question().cause, EnsureCause::TargetsFailed);
}

/// Its load balancer stays, and the answer to an Ensure would be the same.
#[test]
fn a_service_that_is_refused_gets_its_targets_by_updates_alone() {
    let mut stage = moved();
    stage.service.spec.ports[0].protocol = "SCTP".into();
    let refused = stage.ensure(Err(&failure(ErrorClass::Invalid)));
    assert_eq!(refused.requeue, Some(Requeue::After(Duration::ZERO)));
    for (class, requeue) in [
        (ErrorClass::Transient, Requeue::BackOff),
        (ErrorClass::Forbidden, Requeue::SlowBackOff),
        (ErrorClass::Invalid, Requeue::OnChange),
    ] {
        assert_eq!(stage.next(), Step::Update, "{class:?}");
        let outcome = stage.update(Err(&failure(class)));
        assert_eq!(outcome.requeue, Some(requeue), "{class:?}");
    }
    stage.updated(Disposition::Ready, "");
    assert_eq!(stage.next(), Step::Idle);
}

/// Not Q-28.
#[test]
fn the_providers_own_time_is_kept() {
    let after = Some(Duration::from_secs(7));
    for (class, requeue) in [
        (
            ErrorClass::RateLimited { retry_after: after },
            Requeue::After(Duration::from_secs(7)),
        ),
        (
            ErrorClass::InProgress { retry_after: after },
            Requeue::After(Duration::from_secs(7)),
        ),
        (ErrorClass::Unavailable, Requeue::BackOff),
        (ErrorClass::Unauthenticated, Requeue::BackOff),
        // One Ensure for each Service of a batch would load a full provider more.
        (
            ErrorClass::RateLimited { retry_after: None },
            Requeue::BackOff,
        ),
    ] {
        let mut stage = moved();
        let outcome = stage.update(Err(&failure(class)));
        assert_eq!(
            (outcome.requeue, outcome.events),
            (Some(requeue), vec![]),
            "{class:?}"
        );
        assert_eq!(stage.next(), Step::Update, "{class:?}");
    }
}

#[test]
fn targets_in_sync_turns_false_after_thirty_seconds_of_failure() {
    let in_sync = |stage: &Stage| {
        let condition = stage.service.condition(TARGETS_IN_SYNC).unwrap();
        condition.status.to_string()
    };
    let mut stage = moved();
    stage.update(Err(&failure(ErrorClass::Transient)));
    for (secs, expected) in [(0, "True"), (29, "True"), (30, "False"), (60, "False")] {
        stage.now = at(secs);
        stage.ensure(Err(&failure(ErrorClass::Transient)));
        assert_eq!(in_sync(&stage), expected, "{secs}");
    }
    stage.ensured(Disposition::Ready, "192.0.2.7");
    assert_eq!(in_sync(&stage), "True");
    // And the time counts again.
    stage.targets = nodes("n5");
    stage.update(Err(&failure(ErrorClass::Transient)));
    assert_eq!(in_sync(&stage), "True");
}

/// A condition on every Service of the cluster would say of none what is wrong with it.
#[test]
fn a_failure_that_concerns_all_services_writes_none() {
    for class in [
        ErrorClass::Unavailable,
        ErrorClass::Unauthenticated,
        ErrorClass::RateLimited { retry_after: None },
    ] {
        let mut stage = moved();
        for secs in [0, 31, 600] {
            stage.now = at(secs);
            let outcome = stage.update(Err(&failure(class)));
            assert_eq!(outcome.patch, None, "{class:?}");
        }
        assert!(holds_up(&stage), "a start gives them once more: {class:?}");
        // The time of its own failures counts from the first of them.
        stage.update(Err(&failure(ErrorClass::Quota)));
        stage.now = at(629);
        stage.update(Err(&failure(ErrorClass::Quota)));
        assert_eq!(stage.conditions(), "True:Accepted True:Ready True:InSync");
        stage.now = at(630);
        stage.update(Err(&failure(ErrorClass::Quota)));
        let conditions = "True:Accepted True:Ready False:Quota";
        assert_eq!(stage.conditions(), conditions, "{class:?}");
    }
}

/// The revision that all load balancers have is kept once for all, over a restart.
#[test]
fn a_restart_updates_only_if_the_lease_does_not_name_the_present_targets() {
    for (inheritance, expected) in [
        (Inheritance::InSync, Step::Idle),
        (Inheritance::TargetsUnknown, Step::Update),
    ] {
        let mut stage = Stage::settled();
        stage.begin_term(inheritance);
        assert_eq!(stage.next(), expected);
    }
    let mut stage = Stage::settled();
    stage.begin_term(Inheritance::Nothing);
    assert_eq!(stage.next(), Step::Update);
    stage.updated(Disposition::Ready, "");
    assert_eq!(stage.question().cause, EnsureCause::Reconfigured);
    // Nothing was ever done for it.
    let mut stage = Stage::new(load_balancer("web"));
    stage.begin_term(Inheritance::Nothing);
    assert_eq!(stage.question().cause, EnsureCause::New);
}

/// The Lease may have been written since for the others alone.
#[test]
fn a_service_that_the_store_lacked_is_given_its_targets() {
    let mut stage = Stage::settled();
    stage.progress = Progress::default();
    assert_eq!(stage.next(), Step::Update);
}

/// Its address is not the provider's to say, or another client has taken it away.
#[test]
fn a_settled_load_balancer_without_address_gets_its_targets_after_a_restart() {
    let mut stage = Stage::new(load_balancer("web"));
    let raw = RawAnswer {
        disposition: Some(Disposition::Ready),
        address_elsewhere: true,
        ..RawAnswer::default()
    };
    let ready = raw.check(LoadBalancerCall::Ensure, &ForbiddenAddresses::default());
    stage.ensure(Ok(&ready.unwrap()));
    stage.restart();
    assert_eq!(stage.next(), Step::Idle);
    stage.targets = nodes("n3");
    assert_eq!(stage.next(), Step::Update);
}

/// The API server may have taken it: a start would believe the Lease.
#[test]
fn a_write_that_failed_holds_up_the_lease_until_the_next_answer() {
    let ready = answer(LoadBalancerCall::Ensure, Disposition::Ready, "192.0.2.7");
    let mut stage = Stage::new(load_balancer("web"));
    let mut question = stage.question();
    let before = stage.service.clone();
    stage.answer(&question, Ok(&ready));
    stage.service = before;
    stage.progress.not_written();
    stage.targets = nodes("n3");
    assert!(holds_up(&stage));
    question = stage.question();
    stage.answer(&question, Err(&failure(ErrorClass::Unavailable)));
    assert!(holds_up(&stage));
    question = stage.question();
    stage.answer(&question, Ok(&ready));
    assert!(!holds_up(&stage));
}

/// A Service as upstream's controller leaves it.
fn adopted() -> Stage {
    let mut stage = Stage::new(load_balancer("web"));
    stage.service.finalizers = [FINALIZER.into()].into();
    stage.service.ingress = [ip("192.0.2.7")].into();
    stage.restart();
    stage
}

/// It has no hash, by which a start would take the word of the Lease.
#[test]
fn one_that_is_taken_over_gets_the_nodes_before_it_is_ensured() {
    let mut stage = adopted();
    assert!(needs_targets(&stage) && !holds_up(&stage));
    assert_eq!(stage.next(), Step::Update);
    // A load balancer that the provider does not find is created in its turn, not all of them together.
    for disposition in [Disposition::Absent, Disposition::Ready] {
        let mut stage = stage.clone();
        let none = answer(LoadBalancerCall::Update, disposition, "");
        let requeue = stage.update(Ok(&none)).requeue;
        assert_eq!(requeue, Some(Requeue::After(Duration::ZERO)));
        assert!(!needs_targets(&stage) && is_background(&stage));
    }
    stage.pause(true);
    let Step::Hold { patch, .. } = stage.next() else {
        panic!("{:?}", stage.next());
    };
    assert!(patch.unwrap().annotations.is_empty());
}

/// A change of nodes must not cut the back-off of its Ensure short.
#[test]
fn one_that_was_never_made_follows_no_targets() {
    let mut stage = Stage::new(load_balancer("web"));
    stage.question();
    let follows = |stage: &Stage| {
        let progress = &stage.progress;
        progress.follows_targets(&stage.service, &stage.capability)
    };
    assert!(stage.service.has_finalizer() && !follows(&stage));
    assert!(follows(&Stage::settled()));
}

/// An answer that was lost: the cloud may have them, or not.
#[test]
fn targets_that_come_back_are_given_again() {
    for class in [ErrorClass::Transient, ErrorClass::Unavailable] {
        let mut stage = moved();
        stage.update(Err(&failure(class)));
        stage.targets = nodes("n1 n2");
        assert!(
            matches!(stage.next(), Step::Update | Step::Ensure(_)),
            "{class:?}"
        );
    }
    let mut stage = Stage::settled();
    stage.restart();
    stage.targets = nodes("n1 n3");
    stage.updated(Disposition::InProgress, "");
    stage.targets = nodes("n1 n2");
    assert_eq!(stage.next(), Step::Update);
}
