//! Records as no release before this one wrote them.

use super::*;

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
