//! Writes of another client over those of this controller.

use super::*;
use crate::{repairs::Undone, service::change::is_undone};

/// The other client gives the Service these addresses.
fn overwrite(stage: &mut Stage, addresses: &str) {
    let old = stage.service.clone();
    stage.service.ingress = addresses.split_whitespace().map(ip).collect();
    assert!(
        is_undone(&old, &stage.service) && !needs_sync(&old, &stage.service, &stage.capability)
    );
    stage.progress.undone(&old);
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
            stage.service = patch.applied_to(&stage.service, "r");
        }
        step => panic!("{step:?}"),
    }
    stage.progress.repaired(stage.now);
    assert_eq!(stage.next(), Step::Idle);
    u64::try_from(stage.now.duration_since(began).as_secs()).unwrap()
}

#[test]
fn addresses_that_another_client_writes_are_put_right_with_back_off_and_without_a_call() {
    for theirs in ["", "203.0.113.9", "192.0.2.7 203.0.113.9"] {
        let mut stage = Stage::settled();
        let settled = stage.service.ingress.clone();
        let mut waits = Vec::new();
        for _ in 0..4 {
            overwrite(&mut stage, theirs);
            waits.push(repair(&mut stage, Undone::Addresses));
            assert_eq!(stage.service.ingress, settled, "{theirs}");
        }
        assert_eq!(waits, [0, 5, 10, 20], "{theirs}");
    }
}

#[test]
fn a_finalizer_that_another_client_removes_comes_back_with_back_off() {
    let mut stage = Stage::settled();
    let mut waits = Vec::new();
    for _ in 0..3 {
        let old = stage.service.clone();
        stage.service.finalizers = [].into();
        assert!(is_undone(&old, &stage.service));
        stage.progress.undone(&old);
        waits.push(repair(&mut stage, Undone::Finalizer));
        assert!(stage.service.has_finalizer());
    }
    assert_eq!(waits, [0, 5, 10]);
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
fn addresses_from_before_an_edit_are_not_written_again() {
    let mut stage = Stage::settled();
    overwrite(&mut stage, "");
    stage.progress.edited(&stage.service, &stage.capability);
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
    // An edit of its owner does not wait.
    stage.service.spec.ports[0].port = 81;
    stage.progress.edited(&stage.service, &stage.capability);
    assert!(stage.prepare().is_some());
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
    assert_eq!(stage.question().cause, EnsureCause::Changed);
}

fn forget(stage: &mut Stage) {
    let old = stage.service.clone();
    let annotations = old.annotations.clone();
    stage.service.annotations = annotations.without(ANNOTATION_LAST_APPLIED);
    assert!(is_undone(&old, &stage.service));
    stage.progress.undone(&old);
    stage.progress.record_changed(&old);
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
    assert!(!holds_up(&stage), "it has the targets that the Lease names");
    stage.targets = nodes("n1");
    assert!(holds_up(&stage));
    assert_eq!(stage.question().cause, EnsureCause::Unrecorded);
    // While it takes no targets it is in the way of no other.
    let mut paused = stage.clone();
    paused.pause(true);
    assert!(!holds_up(&paused));
    for seconds in [0, 31] {
        assert!(holds_up(&stage));
        stage.now = at(seconds);
        stage.update(Err(&failure(ErrorClass::Quota)));
    }
    assert!(!holds_up(&stage));

    let mut stage = Stage::settled();
    forget(&mut stage);
    stage.service.spec.ports[0].port = 81;
    stage.progress.edited(&stage.service, &stage.capability);
    assert_eq!(stage.question().manner, Manner::Announced);
}
