use jiff::Timestamp;
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::{FinalizerChange, PatchDraft, is_same};
use crate::{
    condition::{Condition, ConditionChange, Status},
    fixture::{any_service, capability, load_balancer},
    service::{
        FINALIZER, Ingress, ServiceView,
        condition::{PROVISIONED, WAITING},
        last_applied::{ANNOTATION_LAST_APPLIED, Hash, LastApplied},
    },
};

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(secs).unwrap()
}

fn ip(ip: &str, mode: Option<&str>) -> Ingress {
    Ingress {
        ip: ip.into(),
        ip_mode: mode.map(Into::into),
        ..Ingress::default()
    }
}

/// Not Q-9: the API server has filled in what the provider left out.
#[test]
fn addresses_are_compared_as_they_are_stored() {
    let stored = [ip("192.0.2.7", Some("VIP"))];
    assert!(is_same(&stored, &[ip("192.0.2.7", None)]));
    assert!(!is_same(&stored, &[ip("192.0.2.7", Some("Proxy"))]));
    assert!(!is_same(&stored, &[]));
    assert!(!is_same(&stored, &[ip("192.0.2.8", None)]));
    let named = Ingress {
        hostname: "lb.example.com".into(),
        ..Ingress::default()
    };
    let two = [stored[0].clone(), named.clone()];
    assert!(!is_same(&two, &stored) && !is_same(&stored, &two));
    assert!(!is_same(&two, &[named, ip("192.0.2.8", None)]));

    let service = ServiceView {
        ingress: stored.into(),
        ..load_balancer("web")
    };
    let mut draft = PatchDraft::over(&service, at(5));
    draft.ingress(&[ip("192.0.2.7", None)]);
    assert_eq!(draft.finish(), None);
}

#[test]
fn the_order_of_a_load_balancers_addresses_is_no_difference_and_is_written_as_the_provider_has_it()
{
    let both = [ip("192.0.2.7", Some("VIP")), ip("2001:db8::7", Some("VIP"))];
    let reversed = [ip("2001:db8::7", None), ip("192.0.2.7", None)];
    assert!(is_same(&both, &reversed));
    let service = ServiceView {
        ingress: both.into(),
        ..load_balancer("web")
    };
    let mut draft = PatchDraft::over(&service, at(5));
    draft.ingress(&reversed);
    assert_eq!(draft.finish(), None);
    let other = [reversed[0].clone(), ip("192.0.2.8", None)];
    let mut draft = PatchDraft::over(&service, at(5));
    draft.ingress(&other);
    assert_eq!(draft.finish().unwrap().ingress.as_deref(), Some(&other[..]));
}

/// A write of a killed process may arrive after another process has decided otherwise.
#[test]
fn patches_that_harm_when_late_hold_for_one_version_alone() {
    type Change<'a> = &'a dyn Fn(&mut PatchDraft<'_>);
    let mut service = load_balancer("web");
    service.finalizers = [FINALIZER.into()].into();
    let settled =
        LastApplied::with_hash(&service, &capability(), Hash::of(&service, &capability()));
    let begun = LastApplied::begun(&service, &capability());
    let record = |record: &LastApplied| {
        let record = record.to_string();
        move |draft: &mut PatchDraft<'_>| draft.annotate(ANNOTATION_LAST_APPLIED, Some(&record))
    };
    let changes: [(Change<'_>, bool); 6] = [
        (&|draft| draft.remove_finalizer(), true),
        (&record(&settled), true),
        (&record(&begun), false),
        (&|draft| draft.annotate("example.com/a", Some("1")), false),
        (&|draft| draft.ingress(&[ip("192.0.2.7", None)]), false),
        (
            &|draft| draft.condition(WAITING, Status::True, "Paused", ""),
            true,
        ),
    ];
    for (number, (change, expected)) in changes.into_iter().enumerate() {
        let mut draft = PatchDraft::over(&service, at(5));
        change(&mut draft);
        assert_eq!(draft.finish().unwrap().is_exact(), expected, "{number}");
    }
}

/// The API server has refused all of it, and the controller's own part is right.
#[test]
fn the_providers_part_of_a_patch_can_be_left_out() {
    let service = load_balancer("web");
    let own = |draft: &mut PatchDraft<'_>| {
        draft.annotate(ANNOTATION_LAST_APPLIED, Some("mock/uid-web///"));
        draft.condition(PROVISIONED, Status::True, "Ready", "");
    };
    let mut draft = PatchDraft::over(&service, at(5));
    own(&mut draft);
    let expected = draft.finish().unwrap();
    assert_eq!(expected.without_effects(), None);

    let mut draft = PatchDraft::over(&service, at(5));
    own(&mut draft);
    draft.annotate("example.com/id", Some("lb-1"));
    draft.condition("example.com/Ready", Status::True, "Ready", "");
    let (rest, dropped) = draft.finish().unwrap().without_effects().unwrap();
    assert_eq!((rest, dropped.count()), (expected, 2));
}

/// S-46.
#[test]
fn the_finalizers_of_others_stay() {
    let mut service = load_balancer("web");
    service.finalizers = ["example.com/x".into()].into();
    let mut draft = PatchDraft::over(&service, at(5));
    draft.add_finalizer();
    let patch = draft.finish().unwrap();
    assert_eq!(patch.finalizer, Some(FinalizerChange::Add));
    let added = patch.applied_to(&service, "8");
    assert_eq!(
        *added.finalizers,
        ["example.com/x".into(), FINALIZER.into()]
    );
    assert_eq!(patch.applied_to(&added, "8"), added);
    let mut draft = PatchDraft::over(&added, at(5));
    draft.remove_finalizer();
    let removed = draft.finish().unwrap().applied_to(&added, "9");
    assert_eq!(removed.finalizers, service.finalizers);
    assert_eq!(&*removed.resource_version, "9");
}

/// The time is that of the status, not of the words, as in Kubernetes' own conditions.
#[test]
fn a_condition_keeps_its_time_until_its_status_changes() {
    let written = |service: &ServiceView, secs, status, message: &str| {
        let mut draft = PatchDraft::over(service, at(secs));
        draft.condition(PROVISIONED, status, "Reason", message);
        draft.finish().map(|patch| patch.applied_to(service, "8"))
    };
    let since =
        |service: &ServiceView| service.condition(PROVISIONED).unwrap().last_transition_time;
    let first = written(&load_balancer("web"), 5, Status::False, "a").unwrap();
    assert_eq!(since(&first), Some(at(5)));
    assert_eq!(written(&first, 6, Status::False, "a"), None);
    let reworded = written(&first, 7, Status::False, "b").unwrap();
    assert_eq!(since(&reworded), Some(at(5)));
    let turned = written(&reworded, 8, Status::True, "b").unwrap();
    assert_eq!(since(&turned), Some(at(8)));
    assert_eq!(turned.conditions.len(), 1);
}

#[test]
fn the_last_word_about_a_key_or_type_counts() {
    let service = load_balancer("web");
    let mut draft = PatchDraft::over(&service, at(5));
    draft.annotate("a", Some("1"));
    draft.annotate("a", None);
    draft.condition("x/A", Status::True, "R", "");
    draft.remove_condition("x/A");
    assert_eq!(draft.finish(), None);
    let mut draft = PatchDraft::over(&service, at(5));
    draft.condition("x/A", Status::True, "R", "");
    draft.condition("x/A", Status::False, "R", "");
    let patch = draft.finish().unwrap();
    assert!(matches!(&*patch.conditions, [ConditionChange::Set(c)] if &*c.status == "False"));
}

proptest! {
    /// Compare before write: what was written is not written again.
    #[test]
    fn a_patch_that_was_applied_leaves_nothing_to_write(
        service in any_service(),
        add in any::<bool>(),
        annotations in vec((select(vec!["a", "b"]), option::of(select(vec!["1", "2"]))), 0..4),
        conditions in vec((select(vec!["x/A", "x/B"]), option::of(select(vec!["R", "S"]))), 0..4),
        ingress in vec(
            (select(vec!["192.0.2.7", "192.0.2.8"]), option::of(select(vec!["VIP", "Proxy"]))),
            0..3,
        ),
        before in option::of(select(vec!["R", "S"])),
    ) {
        let ingress: Vec<_> = ingress.into_iter().map(|(a, mode)| ip(a, mode)).collect();
        let mut service = service;
        service.conditions = before.into_iter().map(|reason| Condition {
            kind: "x/A".into(), status: "True".into(), reason: reason.into(), message: "".into(),
            last_transition_time: Some(at(1)),
        }).collect();
        let draft = |service: &ServiceView, secs| {
            let mut draft = PatchDraft::over(service, at(secs));
            if add { draft.add_finalizer() } else { draft.remove_finalizer() }
            for (key, value) in &annotations {
                draft.annotate(key, *value);
            }
            for (kind, reason) in &conditions {
                match reason {
                    Some(reason) => draft.condition(kind, Status::True, reason, ""),
                    None => draft.remove_condition(kind),
                }
            }
            draft.ingress(&ingress);
            draft.finish()
        };
        if let Some(patch) = draft(&service, 5) {
            let after = patch.applied_to(&service, "9");
            prop_assert_ne!(&after, &service);
            prop_assert_eq!(draft(&after, 6), None);
            prop_assert_eq!(after.has_finalizer(), add);
        }
    }
}
