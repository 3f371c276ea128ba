//! Ensure succeeds, and when it is asked for.

use super::*;

mod background;

/// S-30.
#[test]
fn a_new_service() {
    let mut stage = Stage::new(load_balancer("web"));
    let patch = stage.prepare().expect("the finalizer comes first");
    stage.service = patch.applied_to(&stage.service, "8");
    assert!(stage.service.has_finalizer());
    assert_eq!(stage.conditions(), "Unknown:Pending False:Pending ");

    let question = stage.question();
    assert_eq!(question.cause, EnsureCause::New);
    assert_eq!(question.manner, Manner::Announced);
    let events = question.events(&stage.targets);
    let events: Vec<_> = events.iter().map(|e| (&*e.reason, &*e.message)).collect();
    assert_eq!(events, [("EnsuringLoadBalancer", "Ensuring load balancer")]);

    let ready = answer(LoadBalancerCall::Ensure, Disposition::Ready, "192.0.2.7");
    let outcome = stage.answer(&question, Ok(&ready));
    assert_eq!(reasons(&outcome), ["EnsuredLoadBalancer"]);
    assert_eq!(outcome.requeue, None);
    assert_eq!(stage.conditions(), "True:Accepted True:Ready True:InSync");
    assert_eq!(&*stage.service.ingress[0].ip, "192.0.2.7");
    assert_eq!(stage.next(), Step::Idle);
}

/// S-30, S-32.
#[test]
fn an_empty_set_of_targets_makes_an_event_and_is_ensured() {
    let mut stage = Stage::new(load_balancer("web"));
    stage.targets = nodes("");
    let events = stage.question().events(&stage.targets);
    let reasons: Vec<_> = events.iter().map(|e| (e.kind, &*e.reason)).collect();
    let expected = [
        (EventType::Normal, "EnsuringLoadBalancer"),
        (EventType::Warning, "UnAvailableLoadBalancer"),
    ];
    assert_eq!(reasons, expected);
}

/// Not an error, no back-off; addresses that are known early are published early.
#[test]
fn a_provider_at_work_is_asked_again_when_it_wants() {
    let mut stage = Stage::new(load_balancer("web"));
    let working = answer(
        LoadBalancerCall::Ensure,
        Disposition::InProgress,
        "192.0.2.7",
    );
    let outcome = stage.ensure(Ok(&working));
    assert!(outcome.events.is_empty());
    assert_eq!(
        outcome.requeue,
        Some(Requeue::After(Duration::from_secs(10)))
    );
    assert_eq!(stage.conditions(), "True:Accepted False:InProgress ");
    assert_eq!(&*stage.service.ingress[0].ip, "192.0.2.7");
    assert_eq!(stage.next(), Step::At(at(10)));

    stage.now = at(10);
    let question = stage.question();
    assert_eq!(question.cause, EnsureCause::Continued);
    assert!(question.events(&stage.targets).is_empty());
    let ready = answer(LoadBalancerCall::Ensure, Disposition::Ready, "192.0.2.7");
    assert_eq!(
        reasons(&stage.answer(&question, Ok(&ready))),
        ["EnsuredLoadBalancer"]
    );
    assert_eq!(stage.next(), Step::Idle);
}

#[test]
fn a_change_does_not_wait_for_what_was_wanted_before() {
    let mut stage = Stage::new(load_balancer("web"));
    stage.ensured(Disposition::InProgress, "");
    stage.service.spec.ports[0].port = 81;
    assert_eq!(stage.question().cause, EnsureCause::New);
}

/// The clock of waits may have begun with a wrong time of day.
#[test]
fn conditions_have_the_time_of_day() {
    let mut stage = Stage::new(load_balancer("web"));
    let ensure = stage.question();
    let ready = answer(LoadBalancerCall::Ensure, Disposition::Ready, "192.0.2.7");
    let facts = ServiceFacts {
        capability: &stage.capability,
        targets: stage.targets.revision(),
        now: at(0),
        time_of_day: at(1_500),
    };
    let (progress, call) = (
        &mut stage.progress,
        BalancerCall::Ensure(&ensure, &stage.targets),
    );
    let outcome = progress.concluded(&stage.service, &call, &Ok(ready), &facts);
    let service = outcome.patch.unwrap().applied_to(&stage.service, "w");
    let accepted = service.condition(ACCEPTED).unwrap();
    assert_eq!(accepted.last_transition_time, Some(at(1_500)));
}

/// S-34: success, no event, no status; kept over a restart.
#[test]
fn a_service_that_is_not_managed() {
    let mut stage = Stage::new(load_balancer("web"));
    let outcome = stage.ensured(Disposition::NotManaged, "192.0.2.7");
    assert_eq!((outcome.events, outcome.requeue), (vec![], None));
    assert!(stage.service.ingress.is_empty() && stage.service.has_finalizer());
    assert_eq!(stage.conditions(), "False:NotManaged  ");
    let accepted = stage.service.condition(ACCEPTED).unwrap();
    assert!(!accepted.message.is_empty());
    assert_eq!(stage.next(), Step::Idle);
    stage.targets = nodes("n3");
    assert_eq!(stage.next(), Step::Idle);
    stage.restart();
    stage.targets = nodes("n4");
    assert_eq!(stage.next(), Step::Idle);
    stage.service.spec.ports[0].port = 81;
    assert_eq!(stage.question().cause, EnsureCause::New);
}

/// The Service says so, and the provider is asked again with a back-off; an address that is there stays.
#[test]
fn ready_without_address_is_not_settled() {
    let refused = RawAnswer {
        disposition: Some(Disposition::Ready),
        ingress: Some(Vec::new()),
        ..RawAnswer::default()
    };
    let refusal = refused.check(LoadBalancerCall::Ensure, &ForbiddenAddresses::default());
    let failure = Failure::from(&refusal.unwrap_err());
    for mut stage in [Stage::new(load_balancer("web")), Stage::settled()] {
        let before = stage.service.ingress.clone();
        stage.service.spec.ports[0].port = 81;
        let outcome = stage.ensure(Err(&failure));
        assert_eq!(outcome.requeue, Some(Requeue::SlowBackOff));
        assert_eq!(reasons(&outcome), ["SyncLoadBalancerFailed"]);
        assert_eq!(stage.service.ingress, before);
        let provisioned = stage.service.condition(PROVISIONED).unwrap();
        assert_eq!(&*provisioned.status, "False");
        assert_eq!(provisioned.message, failure.message);
        stage.question();
        stage.restart();
        stage.question();
    }
}

/// A client that follows the Service, such as external-dns, would withdraw the address.
#[test]
fn an_empty_status_takes_no_address_away() {
    let mut stage = Stage::settled();
    stage.service.spec.ports[0].port = 81;
    let working = answer(LoadBalancerCall::Ensure, Disposition::InProgress, "");
    stage.ensure(Ok(&working));
    assert_eq!(&*stage.service.ingress[0].ip, "192.0.2.7");
    assert_eq!(
        stage.conditions(),
        "True:Accepted False:InProgress True:InSync"
    );

    let mut stage = Stage::settled();
    stage.targets = nodes("n3");
    stage.updated(Disposition::Ready, "");
    assert_eq!(&*stage.service.ingress[0].ip, "192.0.2.7");
}

fn not_managed() -> Stage {
    let mut stage = Stage::settled();
    stage.service.spec.ports[0].port = 81;
    let outcome = stage.ensured(Disposition::NotManaged, "");
    assert_eq!(reasons(&outcome), ["LoadBalancerNotManaged"]);
    assert_eq!(&*stage.service.ingress[0].ip, "192.0.2.7");
    stage.targets = nodes("n3");
    assert_eq!(stage.next(), Step::Idle);
    stage
}

/// A provider that was wrong once, or is another version now.
#[test]
fn a_service_that_is_managed_again_gets_its_nodes() {
    let mut compared = not_managed();
    let observation = answer(LoadBalancerCall::Get, Disposition::Ready, "192.0.2.7");
    assert!(compared.observed(&observation));
    let mut restarted = not_managed();
    restarted.restart();
    let service = &restarted.service;
    restarted.progress.provider_changed(service, None);
    for mut stage in [compared, restarted] {
        assert!(is_background(&stage));
        let mut again = stage.clone();
        stage.ensured(Disposition::Ready, "192.0.2.7");
        assert_eq!(stage.conditions(), "True:Accepted True:Ready True:InSync");
        assert_eq!(stage.next(), Step::Idle);
        stage.targets = nodes("n4");
        assert_eq!(stage.next(), Step::Update);

        // The same answer as before is no news.
        let same = answer(LoadBalancerCall::Ensure, Disposition::NotManaged, "");
        assert_eq!(again.ensure(Ok(&same)), Consequence::default());
        assert_eq!(again.next(), Step::Idle);
    }
    // The provider's word stands as long as it says the same.
    let mut stage = not_managed();
    let observation = answer(LoadBalancerCall::Get, Disposition::NotManaged, "");
    assert!(!stage.observed(&observation));
}

/// The hash of the request is remembered, not that of the Service as it is meanwhile.
#[test]
fn a_change_during_the_call_is_ensured_next() {
    let mut stage = Stage::new(load_balancer("web"));
    let question = stage.question();
    stage.service.spec.ports[0].port = 81;
    stage.answer(
        &question,
        Ok(&answer(
            LoadBalancerCall::Ensure,
            Disposition::Ready,
            "192.0.2.7",
        )),
    );
    assert_eq!(stage.question().cause, EnsureCause::Changed);
}

/// Not Q-5: only the finalizer is written again.
#[test]
fn a_removed_finalizer_is_restored() {
    let mut stage = Stage::settled();
    stage.restart();
    stage.service.finalizers = ["example.com/x".into()].into();
    let Step::Write(patch) = stage.next() else {
        panic!("{:?}", stage.next());
    };
    assert!(patch.annotations.is_empty() && patch.conditions.is_empty());
    assert_eq!(stage.step(), Step::Idle);
    assert!(stage.service.has_finalizer());
}

#[test]
fn drift_is_repaired() {
    for (disposition, addresses, is_drift) in [
        (Disposition::Ready, "", false),
        (Disposition::Ready, "192.0.2.7", false),
        (Disposition::Ready, "192.0.2.8", true),
        (Disposition::InProgress, "192.0.2.7", true),
        (Disposition::NotManaged, "", true),
        (Disposition::Absent, "", true),
        (Disposition::Differs, "192.0.2.7", true),
    ] {
        let mut stage = Stage::settled();
        let observation = answer(LoadBalancerCall::Get, disposition, addresses);
        let drift = stage.observed(&observation);
        assert_eq!(drift, is_drift, "{disposition:?}");
        if is_drift {
            assert_eq!(stage.question().cause, EnsureCause::Drifted);
            stage.ensured(Disposition::Ready, "192.0.2.8");
        }
        assert_eq!(stage.next(), Step::Idle, "{disposition:?}");
    }
}

/// S-38: the whole sync once more.
#[test]
fn a_failed_write_repeats_the_call() {
    let mut stage = Stage::settled();
    let before = stage.service.clone();
    stage.observed(&answer(LoadBalancerCall::Get, Disposition::Absent, ""));
    stage.ensured(Disposition::Ready, "192.0.2.8");
    stage.service = before;
    stage.progress.not_written();
    assert_eq!(stage.question().cause, EnsureCause::NotWritten);
}

/// A lost answer, or a crash before it was written: the cloud may have port 81 though the Service
/// never says so again. One more Ensure repairs it.
#[test]
fn back_to_what_it_was_is_ensured_all_the_same() {
    for restart in [false, true] {
        let mut stage = Stage::settled();
        stage.service.spec.ports[0].port = 81;
        assert!(stage.prepare().is_some());
        let question = stage.question();
        assert_eq!(question.cause, EnsureCause::Changed);
        if restart {
            stage.restart();
        } else {
            stage.answer(&question, Err(&failure(ErrorClass::Transient)));
        }
        stage.service.spec.ports[0].port = 80;
        let question = stage.question();
        assert_eq!(question.cause, EnsureCause::Changed, "restart: {restart}");
        stage.answer(
            &question,
            Ok(&answer(
                LoadBalancerCall::Ensure,
                Disposition::Ready,
                "192.0.2.7",
            )),
        );
        assert_eq!(stage.next(), Step::Idle);
        stage.restart();
        assert_eq!(stage.next(), Step::Idle);
    }
}
