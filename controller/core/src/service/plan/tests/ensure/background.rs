//! After a restart, and in the background.

use super::*;

/// S-12 is not copied: only what differs is ensured.
#[test]
fn why_a_load_balancer_is_ensured_after_a_restart() {
    type Case = (&'static str, fn(&mut Stage), Option<(EnsureCause, bool)>);
    let cases: [Case; 7] = [
        (
            "port",
            |s| s.service.spec.ports[0].port = 81,
            Some((EnsureCause::Changed, false)),
        ),
        (
            "resync",
            |s| s.service.annotations = s.service.annotations.with([("outrigger.dev/resync", "1")]),
            Some((EnsureCause::Changed, false)),
        ),
        (
            "configuration",
            |s| s.capability.configuration_revision = "r2".into(),
            Some((EnsureCause::Reconfigured, true)),
        ),
        (
            "another provider's record",
            |s| s.capability.provider = "renamed".into(),
            Some((EnsureCause::Unrecorded, true)),
        ),
        // READY without stored ingress is not settled.
        (
            "no ingress",
            |s| s.service.ingress = [].into(),
            Some((EnsureCause::AddressesLost, false)),
        ),
        (
            "labels",
            |s| s.service.labels = [("a", "b")].into_iter().collect(),
            None,
        ),
        (
            "paused",
            |s| {
                s.service.spec.ports[0].port = 81;
                let annotations = s
                    .service
                    .annotations
                    .with([("outrigger.dev/paused", "true")]);
                s.service.annotations = annotations;
            },
            None,
        ),
    ];
    for (what, edit, expected) in cases {
        let mut stage = Stage::settled();
        edit(&mut stage);
        stage.restart();
        let work = match stage.step() {
            Step::Ensure(ensure) => Some((ensure.cause, ensure.manner != Manner::Announced)),
            Step::Idle | Step::Hold { .. } => None,
            step => panic!("{what}: {step:?}"),
        };
        assert_eq!(work, expected, "{what}");
    }
}

/// First start over a cluster without records: no event when nothing differs.
#[test]
fn background_calls_are_quiet() {
    let unrecorded = || {
        let mut stage = Stage::settled();
        stage.service.annotations = StringMap::default();
        stage.service.conditions = [].into();
        stage.restart();
        stage.updated(Disposition::Ready, "");
        stage
    };
    let mut stage = unrecorded();
    assert!(stage.question().events(&stage.targets).is_empty());
    let outcome = stage.ensured(Disposition::Ready, "192.0.2.7");
    assert!(outcome.events.is_empty() && outcome.patch.is_some());
    assert_eq!(stage.next(), Step::Idle);

    let mut stage = unrecorded();
    let outcome = stage.ensured(Disposition::Ready, "192.0.2.8");
    assert_eq!(reasons(&outcome), ["EnsuredLoadBalancer"]);
}

/// A crash while the provider is at work: nothing on the Service says that it is settled.
#[test]
fn a_restart_goes_on_with_what_was_begun() {
    let mut stage = Stage::settled();
    stage.service.spec.ports[0].port = 81;
    stage.ensured(Disposition::InProgress, "192.0.2.7");
    stage.restart();
    assert!(matches!(stage.next(), Step::Ensure(_)));
}

/// The record keeps its hash: it is right as long as the configuration is what it was.
#[test]
fn a_reconfigured_provider_is_background_work_without_a_write_before() {
    let mut stage = Stage::settled();
    assert!(!is_background(&stage));
    stage.capability.configuration_revision = "r2".into();
    assert!(is_background(&stage));
    assert_eq!(stage.prepare(), None);
    // A change of the Service is not.
    stage.service.spec.ports[0].port = 81;
    assert!(!is_background(&stage));
}

/// The call may have worked.
#[test]
fn a_configuration_that_is_taken_back_after_a_failure_is_applied_again() {
    let mut stage = Stage::settled();
    stage.capability.configuration_revision = "r2".into();
    assert!(is_background(&stage));
    stage.ensure(Err(&failure(ErrorClass::Transient)));
    stage.capability = capability();
    assert_eq!(stage.question().cause, EnsureCause::Reconfigured);
}

/// A cloud that lists one of two addresses for a moment takes no traffic from the other one. A comparison that finds one
/// gone has the load balancer ensured, and that answer counts.
#[test]
fn an_address_that_an_answer_lacks_goes_only_with_a_change_or_a_comparison() {
    let both = "192.0.2.7 2001:db8::7";
    let ready = |addresses| answer(LoadBalancerCall::Ensure, Disposition::Ready, addresses);
    let mut dual_stack = Stage::new(load_balancer("web"));
    dual_stack.ensure(Ok(&ready(both)));
    let addresses = |stage: &Stage| {
        let all: Vec<_> = stage.service.ingress.iter().map(|one| &*one.ip).collect();
        all.join(" ")
    };

    let mut reconfigured = dual_stack.clone();
    reconfigured.capability.configuration_revision = "r2".into();
    let outcome = reconfigured.ensure(Ok(&ready("192.0.2.7")));
    assert_eq!(
        (addresses(&reconfigured), reasons(&outcome)),
        (both.to_owned(), vec![])
    );
    assert_eq!(reconfigured.next(), Step::Idle);
    // An address that is replaced by another of its kind goes.
    reconfigured.capability.configuration_revision = "r3".into();
    reconfigured.ensure(Ok(&ready("192.0.2.8")));
    assert_eq!(addresses(&reconfigured), "192.0.2.8 2001:db8::7");

    let mut edited = dual_stack.clone();
    edited.service.spec.ports[0].port = 81;
    let begun = answer(
        LoadBalancerCall::Ensure,
        Disposition::InProgress,
        "192.0.2.7",
    );
    edited.ensure(Ok(&begun));
    assert_eq!(addresses(&edited), both);
    edited.now = at(300);
    edited.ensure(Ok(&ready("192.0.2.7")));
    assert_eq!(addresses(&edited), "192.0.2.7");

    let mut drifted = dual_stack;
    let get = answer(LoadBalancerCall::Get, Disposition::Ready, "192.0.2.7");
    assert!(drifted.observed(&get));
    drifted.ensure(Ok(&ready("192.0.2.7")));
    assert_eq!(addresses(&drifted), "192.0.2.7");
}
