//! A load balancer goes only because its Service does, or became another: nothing that a provider
//! declares leads there.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::{
    fixture::any_service,
    service::ownership::{Ownership, is_released, lost_finalizer},
};

fn fast() -> Stage {
    let mut service = load_balancer("web");
    service.spec.load_balancer_class = Some("example.com/fast".into());
    let mut stage = Stage::new(service);
    stage.ensured(Disposition::Ready, "192.0.2.7");
    stage.restart();
    stage.capability.classes = [].into();
    stage
}

fn delete(stage: &mut Stage, disposition: Disposition) -> Consequence {
    assert!(
        matches!(stage.step(), Step::Delete { .. }),
        "{:?}",
        stage.next()
    );
    stage.delete(Ok(&answer(LoadBalancerCall::Delete, disposition, "")))
}

#[test]
fn a_class_that_is_served_no_longer_holds() {
    let mut stage = fast();
    assert!(matches!(stage.step(), Step::Hold { .. }));
    stage.service.finalizers = [].into();
    assert!(matches!(stage.step(), Step::Hold { .. }));
    let mut changed = stage.clone();
    changed.service.spec.ports[0].port = 81;
    assert!(matches!(changed.step(), Step::Hold { .. }));
    changed.capability = capability();
    assert_eq!(changed.question().cause, EnsureCause::Changed);
}

#[test]
fn its_own_end_ends_it() {
    let ends: [fn(&mut ServiceView); 3] = [
        |service| service.deleted = Some(at(0)),
        |service| {
            service.spec.kind = "ClusterIP".into();
            service.spec.load_balancer_class = None;
        },
        |service| service.spec.load_balancer_class = Some("example.com/other".into()),
    ];
    for end in ends {
        let mut stage = fast();
        stage.step();
        end(&mut stage.service);
        let kept = delete(&mut stage, Disposition::NotManaged);
        let expected = (vec!["SyncLoadBalancerFailed"], Some(Requeue::BackOff));
        assert_eq!((reasons(&kept), kept.requeue), expected);
        assert!(stage.service.has_finalizer());
        let provisioned = stage.service.condition(PROVISIONED).unwrap();
        assert_eq!(&*provisioned.reason, "ClassNotServed");
        let message = &provisioned.message;
        assert!(message.contains("remove the finalizer"), "{message}");
        let mut back = stage.clone();
        back.capability = capability();
        for mut stage in [stage, back] {
            delete(&mut stage, Disposition::Absent);
            assert!(!stage.service.has_finalizer());
            assert_eq!(stage.step(), Step::Idle);
        }
    }
}

/// A Service that this provider never managed is released.
#[test]
fn not_managed_is_no_loss() {
    let mut service = load_balancer("web");
    service.spec.load_balancer_class = Some("example.com/fast".into());
    let mut stage = Stage::new(service);
    stage.ensured(Disposition::NotManaged, "");
    stage.capability.classes = [].into();
    assert!(stage.is_held());
    stage.service.deleted = Some(at(0));
    let outcome = delete(&mut stage, Disposition::NotManaged);
    assert_eq!(outcome.requeue, None);
    assert!(!stage.service.has_finalizer());
}

/// Its new class is known before the first call for it.
#[test]
fn a_service_that_changed_its_class_is_held_under_the_new_one() {
    let mut stage = fast();
    stage.capability.classes = ["example.com/slow".into()].into();
    stage.service.spec.load_balancer_class = Some("example.com/slow".into());
    stage.question();
    stage.capability.classes = [].into();
    assert!(matches!(stage.step(), Step::Hold { .. }));
}

fn any_capability() -> impl Strategy<Value = Capability> {
    (
        select(vec![
            "",
            "example.com/fast",
            "example.com/other",
            "example.com/fast example.com/other",
        ]),
        any::<bool>(),
        select(vec!["mock", "mock", "mock", "other"]),
        select(vec!["r1", "r2", ""]),
    )
        .prop_map(
            |(classes, without_default_class, provider, revision)| Capability {
                provider: provider.into(),
                classes: classes.split_whitespace().map(Into::into).collect(),
                without_default_class,
                configuration_revision: revision.into(),
                ..capability()
            },
        )
}

#[derive(Clone, Debug)]
enum Turn {
    Declares(Box<Capability>),
    Ready,
    NotManaged,
    InProgress,
    Fails(ErrorClass),
    Restart,
    Pause(bool),
    Strip,
}

fn turn() -> impl Strategy<Value = Turn> {
    let others = select(vec![
        Turn::Ready,
        Turn::Ready,
        Turn::NotManaged,
        Turn::InProgress,
        Turn::Fails(ErrorClass::Transient),
        Turn::Fails(ErrorClass::Invalid),
        Turn::Restart,
        Turn::Pause(true),
        Turn::Pause(false),
        Turn::Strip,
    ]);
    let declares = |capability| Turn::Declares(Box::new(capability));
    prop_oneof![2 => any_capability().prop_map(declares), 3 => others]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_declaration_deletes_a_load_balancer(service in any_service(), turns in vec(turn(), 1..20)) {
        let mut service = service;
        service.spec.kind = "LoadBalancer".into();
        service.deleted = None;
        prop_assume!(LastApplied::of(&service).is_none_or(|record| !record.is_of_other_class(&service)));
        let mut stage = Stage::new(service);
        for turn in turns {
            let before = stage.service.clone();
            let result = match turn {
                Turn::Declares(capability) => {
                    stage.capability = *capability;
                    let declared = Some(&stage.capability);
                    stage.progress.provider_changed(&stage.service, declared);
                    None
                }
                Turn::Ready => Some(Ok((Disposition::Ready, "192.0.2.7"))),
                Turn::NotManaged => Some(Ok((Disposition::NotManaged, ""))),
                Turn::InProgress => Some(Ok((Disposition::InProgress, ""))),
                Turn::Fails(class) => Some(Err(failure(class))),
                Turn::Restart => {
                    stage.restart();
                    None
                }
                Turn::Pause(is_paused) => {
                    stage.pause(is_paused);
                    None
                }
                Turn::Strip => {
                    stage.service.finalizers = [].into();
                    None
                }
            };
            match (stage.step(), result) {
                (Step::Ensure(question), Some(result)) => {
                    let result = result.map(|(disposition, ip)| answer(LoadBalancerCall::Ensure, disposition, ip));
                    stage.answer(&question, result.as_ref());
                }
                (Step::Update, Some(result)) => {
                    let result = result.map(|(disposition, _)| answer(LoadBalancerCall::Update, disposition, ""));
                    stage.update(result.as_ref());
                }
                _ => {}
            }
            let (now, capability) = (&stage.service, &stage.capability);
            let deletes = matches!(stage.next(), Step::Delete { .. });
            prop_assert!(!deletes);
            prop_assert!(!lost_finalizer(&before, now, Some(capability)));
            prop_assert!(!is_released(&before, now, Some(capability)));
            // Once it is gone, what it had is.
            let was_ours = LastApplied::own(now, capability).is_some();
            prop_assert!(!was_ours || Ownership::of(now, Some(capability)).may_be_ours());
        }
    }
}
