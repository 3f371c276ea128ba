//! Records that change during a term: by an earlier leader, or by a write of our own that the watch shows first.

use super::*;

/// Called and settled in this term. Then the Service as it was before that.
fn called() -> (Stage, ServiceView) {
    let stage = Stage::settled();
    assert_eq!(stage.next(), Step::Idle);
    (stage, load_balancer("web"))
}

#[test]
fn our_own_record_is_no_reason_whenever_the_watch_shows_it() {
    for watch_is_first in [true, false] {
        let (mut stage, before) = called();
        let progress = &mut stage.progress;
        if watch_is_first {
            progress.record_changed(&before);
        }
        progress.record_written(&stage.service);
        progress.check_record(&stage.service);
        if !watch_is_first {
            progress.record_changed(&before);
            progress.check_record(&stage.service);
        }
        assert_eq!(stage.next(), Step::Idle);
    }
}

/// Its call may have come before ours, so that the load balancer is what its record says, or is not.
#[test]
fn after_a_call_of_this_term_the_record_of_an_earlier_leader_is_doubted() {
    let (mut stage, _) = called();
    stage.progress.record_written(&stage.service);
    let record = stage.service.annotations.get(ANNOTATION_LAST_APPLIED);
    let record = format!("{}~", record.unwrap());
    stage.progress.record_changed(&stage.service);
    stage.annotate(ANNOTATION_LAST_APPLIED, &record);
    stage.progress.check_record(&stage.service);
    assert_eq!(mode(&stage), Mode::Update, "{:?}", stage.next());
    stage.update(Ok(&answer(
        LoadBalancerCall::Update,
        Disposition::Ready,
        "",
    )));
    assert_eq!(stage.question().cause, EnsureCause::Reconfigured);
}

#[test]
fn before_a_call_of_this_term_its_targets_alone_are_unknown() {
    let (mut stage, _) = called();
    stage.restart();
    assert_eq!(stage.next(), Step::Idle);
    let old = stage.service.clone();
    stage.progress.record_changed(&old);
    let record = old.annotations.get(ANNOTATION_LAST_APPLIED).unwrap();
    stage.annotate(ANNOTATION_LAST_APPLIED, &format!("{record}~"));
    stage.progress.check_record(&stage.service);
    assert_eq!(stage.next(), Step::Update);
    stage.update(Ok(&answer(
        LoadBalancerCall::Update,
        Disposition::Ready,
        "",
    )));
    assert_eq!(stage.next(), Step::Idle);
}

/// Its targets may be those of before, and not those that the Lease names.
#[test]
fn a_record_that_relies_on_the_lease_since_this_term_began_is_not_believed() {
    let (mut stage, _) = called();
    stage.restart();
    let mut before = stage.clone();
    let record = before.service.annotations.get(ANNOTATION_LAST_APPLIED);
    let record = format!("{}~", record.unwrap());
    before.annotate(ANNOTATION_LAST_APPLIED, &record);
    stage.progress.record_changed(&before.service);
    stage.progress.check_record(&stage.service);
    assert_eq!(stage.next(), Step::Update);
}
