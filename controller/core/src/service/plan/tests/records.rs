//! Writes of another client, of an earlier leader or of a later version over those of this controller.

use super::*;
use crate::{repairs::Undone, service::change::is_undone};

/// The other client gives the Service these addresses.
fn overwrite(stage: &mut Stage, addresses: &str) {
    let old = stage.service.clone();
    stage.service.ingress = addresses.split_whitespace().map(ip).collect();
    assert!(
        is_undone(&old, &stage.service) && !needs_sync(&old, &stage.service, &stage.capability)
    );
}

/// Takes the write that puts it right, and returns the seconds until it came.
fn repair(stage: &mut Stage, undone: Undone) -> u64 {
    let began = stage.now;
    if let Step::At(time) = stage.next() {
        stage.now = time;
    }
    match stage.next() {
        Step::Write(patch) => {
            assert_eq!(patch.undone(&stage.service), Some(undone));
            stage.write(&patch);
        }
        step => panic!("{step:?}"),
    }
    stage.progress.repaired(stage.now);
    assert_eq!(stage.next(), Step::Idle);
    u64::try_from(stage.now.duration_since(began).as_secs()).unwrap()
}

/// The record's hash of the addresses outlives the process, the addresses do not.
#[test]
fn after_a_restart_foreign_addresses_are_asked_for_once() {
    let mut stage = Stage::settled();
    stage.service.ingress = [ip("203.0.113.9")].into();
    stage.restart();
    let question = stage.question();
    assert_eq!(question.cause, EnsureCause::AddressesLost);
    let ready = answer(LoadBalancerCall::Ensure, Disposition::Ready, "192.0.2.7");
    stage.answer(&question, Ok(&ready));
    assert_eq!(&*stage.service.ingress[0].ip, "192.0.2.7");
    assert_eq!(stage.next(), Step::Idle);
    overwrite(&mut stage, "203.0.113.9");
    repair(&mut stage, Undone::Addresses);
}

/// With another type in between, with a deletion whose answer was lost: it may have no load balancer any more.
#[test]
fn addresses_from_before_a_deletion_are_not_written_again() {
    let mut stage = Stage::settled();
    stage.service.spec.kind = "ClusterIP".into();
    stage.service.ingress = [].into();
    stage.delete(Err(&failure(ErrorClass::Unavailable)));
    stage.progress.check_record(&stage.service);
    stage.service.spec.kind = "LoadBalancer".into();
    assert_eq!(stage.question().cause, EnsureCause::AddressesLost);
}

/// Its Ensure fails, and each removal of the finalizer would be a reason for another one.
#[test]
fn a_service_that_fails_is_not_ensured_for_each_write_of_another_client() {
    let mut stage = Stage::new(load_balancer("web"));
    stage.ensure(Err(&failure(ErrorClass::Quota)));
    stage.service.finalizers = [].into();
    assert!(stage.prepare().is_some());
    stage.progress.repaired(stage.now);
    let due = stage.now + Duration::from_secs(5);
    assert_eq!(stage.next(), Step::At(due));
}

#[test]
fn new_targets_do_not_wait_for_another_client() {
    let mut stage = Stage::settled();
    stage.progress.repaired(stage.now);
    stage.service.finalizers = [].into();
    assert!(matches!(stage.next(), Step::At(_)));
    stage.targets = nodes("n1");
    assert_eq!(stage.step(), Step::Update);
    let moved = answer(LoadBalancerCall::Update, Disposition::Ready, "192.0.2.9");
    stage.update(Ok(&moved));
    assert_eq!(stage.next(), Step::Idle, "the record has the new address");
}

/// Where the address is not the provider's to say, the status may have any, or none, and a restart asks for nothing.
#[test]
fn an_address_that_another_program_writes_is_left_to_it() {
    let made = RawAnswer {
        disposition: Some(Disposition::Ready),
        address_elsewhere: true,
        ..RawAnswer::default()
    };
    let made = made.check(LoadBalancerCall::Ensure, &ForbiddenAddresses::default());
    let mut stage = Stage::new(load_balancer("web"));
    let outcome = stage.ensure(Ok(&made.unwrap()));
    assert_eq!(reasons(&outcome), ["EnsuredLoadBalancer"]);
    for addresses in ["", "198.51.100.1", "198.51.100.2 2001:db8::1", ""] {
        let old = stage.service.clone();
        stage.service.ingress = addresses.split_whitespace().map(ip).collect();
        assert!(!is_undone(&old, &stage.service), "{addresses}");
        assert_eq!(stage.next(), Step::Idle, "{addresses}");
        let mut restarted = stage.clone();
        restarted.restart();
        assert_eq!(restarted.next(), Step::Idle, "{addresses}");
    }
    stage.service.spec.ports[0].port = 81;
    assert_eq!(stage.question().cause, EnsureCause::New);
}

fn forget(stage: &mut Stage) {
    let annotations = stage.service.annotations.clone();
    stage.service.annotations = annotations.without(ANNOTATION_LAST_APPLIED);
    stage.progress.check_record(&stage.service);
}

/// By a client that replaces Services by its manifests.
#[test]
fn a_record_that_another_client_removes_comes_back_with_back_off_and_without_a_call() {
    let mut stage = Stage::settled();
    let settled = stage.service.annotations.clone();
    let mut waits = Vec::new();
    for _ in 0..3 {
        forget(&mut stage);
        waits.push(repair(&mut stage, Undone::Record));
        assert_eq!(stage.service.annotations, settled);
    }
    assert_eq!(waits, [0, 5, 10]);
}

/// It would speak for targets that the load balancer does not have, or for another Service.
#[test]
fn a_record_that_is_not_right_any_more_does_not_come_back() {
    let mut stage = Stage::settled();
    forget(&mut stage);
    let mut moved = stage.clone();
    moved.targets = nodes("n1");
    assert_eq!(moved.next(), Step::Update);
    moved.updated(Disposition::InProgress, "");
    let ensure = moved.progress.ensure(&moved.service, &moved.facts());
    assert_eq!(ensure.unwrap().cause, EnsureCause::Unrecorded);

    // A call for other inputs may have worked.
    stage.service.spec.ports[0].port = 81;
    stage.ensure(Err(&failure(ErrorClass::Unavailable)));
    forget(&mut stage);
    stage.service.spec.ports[0].port = 80;
    assert!(
        matches!(stage.step(), Step::Ensure(_)),
        "{:?}",
        stage.next()
    );
}

/// Its call may have come before ours, so that the load balancer is what its record says, or is not.
#[test]
fn the_record_of_an_earlier_leader_that_arrives_late_is_doubted() {
    for is_called in [true, false] {
        let mut stage = Stage::settled();
        if !is_called {
            stage.restart();
        }
        let old = stage.service.clone();
        let record = LastApplied::own(&old, &stage.capability).unwrap();
        let other = record.with_addresses(&[ip("192.0.2.9")]).to_string();
        stage.annotate(ANNOTATION_LAST_APPLIED, &other);
        stage.service.ingress = [ip("192.0.2.9")].into();
        assert!(stage.progress.has_foreign_record(&stage.service));
        stage.progress.check_record(&stage.service);
        assert_eq!(stage.next(), Step::Update);
        stage.updated(Disposition::Ready, "");
        assert_eq!(stage.question().cause, EnsureCause::Reconfigured);
        stage.ensured(Disposition::Ready, "192.0.2.7");
        assert_eq!(stage.next(), Step::Idle);
    }
}

/// After a downgrade: more behind, before or between, another mark, or nothing that this release can read.
#[test]
fn a_record_of_a_later_version_costs_one_ensure_and_loses_nothing() {
    let written = Stage::settled();
    let record = written
        .service
        .annotations
        .get(ANNOTATION_LAST_APPLIED)
        .unwrap();
    let (owner, made_from) = record.split_once("//").unwrap();
    for later in [
        format!("{record};later"),
        format!("{record}/later"),
        format!("{record}!"),
        format!("{record}~later~"),
        format!("later:{record}"),
        format!("{owner}//later/{made_from}"),
        "{\"later\": 1}".to_owned(),
    ] {
        let mut stage = written.clone();
        stage.annotate(ANNOTATION_LAST_APPLIED, &later);
        stage.restart();
        let mut deleted = stage.clone();
        deleted.service.deleted = Some(at(0));
        let step = deleted.next();
        assert!(matches!(step, Step::Delete { .. }), "{later}: {step:?}");

        // A process that has read the targets as those of another revision sends the present ones.
        if stage.step() == Step::Update {
            stage.updated(Disposition::Ready, "");
        }
        if let Step::Ensure(question) = stage.step() {
            let ready = answer(LoadBalancerCall::Ensure, Disposition::Ready, "192.0.2.7");
            stage.answer(&question, Ok(&ready));
        }
        assert_eq!(stage.next(), Step::Idle, "{later}");
        let now = stage.service.annotations.get(ANNOTATION_LAST_APPLIED);
        assert_eq!(now, Some(record), "{later}");
        assert_eq!(stage.service.ingress, written.service.ingress, "{later}");
        stage.restart();
        assert_eq!(stage.next(), Step::Idle, "{later}");
    }
}
