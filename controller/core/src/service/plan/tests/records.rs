//! Records that change during a term, by an earlier leader or by a write of our own that the watch shows first; and those of
//! a later version.

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
fn the_record_of_an_earlier_leader_that_arrives_late_is_doubted() {
    for is_called in [true, false] {
        let (mut stage, _) = called();
        if is_called {
            stage.progress.record_written(&stage.service);
        } else {
            stage.restart();
        }
        let old = stage.service.clone();
        stage.progress.record_changed(&old);
        let record = LastApplied::own(&old, &stage.capability).unwrap();
        let other = record.with_addresses(&[ip("192.0.2.9")]).to_string();
        stage.annotate(ANNOTATION_LAST_APPLIED, &other);
        stage.service.ingress = [ip("192.0.2.9")].into();
        stage.progress.check_record(&stage.service);
        assert!(needs_targets(&stage));
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
        let ready = answer(LoadBalancerCall::Ensure, Disposition::Ready, "192.0.2.7");
        match stage.step() {
            Step::Ensure(question) => drop(stage.answer(&question, Ok(&ready))),
            Step::Update => {
                let ready = answer(LoadBalancerCall::Update, Disposition::Ready, "");
                stage.update(Ok(&ready));
            }
            step => panic!("{later}: {step:?}"),
        }
        assert_eq!(stage.next(), Step::Idle, "{later}");
        let now = stage.service.annotations.get(ANNOTATION_LAST_APPLIED);
        assert_eq!(now, Some(record), "{later}");
        assert_eq!(stage.service.ingress, written.service.ingress, "{later}");
        stage.restart();
        assert_eq!(stage.next(), Step::Idle, "{later}");
    }
}
