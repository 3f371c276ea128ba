use proptest::prelude::*;

use super::{Ownership, Ownership as O, is_claimed, is_released, lost_finalizer};
use crate::{
    fixture::{any_service, capability, load_balancer},
    service::{
        FINALIZER, ServiceView,
        capability::Capability,
        last_applied::{ANNOTATION_LAST_APPLIED, LastApplied},
    },
};

/// Words: `finalizer`, `deleted`, `record=<provider>`, `class=<class>` (`class=` for none), `type=<type>`.
fn service(words: &str) -> ServiceView {
    let mut service = load_balancer("web");
    for word in words.split_whitespace() {
        match word.split_once('=') {
            None if word == "finalizer" => service.finalizers = [FINALIZER.into()].into(),
            None if word == "deleted" => {
                service.deleted = Some("2026-11-21T10:00:00Z".parse().unwrap());
            }
            Some(("record", provider)) => {
                let owner = Capability {
                    provider: provider.into(),
                    ..capability()
                };
                let record = LastApplied::begun(&service, &owner).to_string();
                service.annotations = service
                    .annotations
                    .with([(ANNOTATION_LAST_APPLIED, &*record)]);
            }
            Some(("class", "")) => service.spec.load_balancer_class = None,
            Some(("class", class)) => service.spec.load_balancer_class = Some(class.into()),
            Some(("type", kind)) => service.spec.kind = kind.into(),
            _ => unreachable!("{word}"),
        }
    }
    service
}

/// S-10, S-11, S-44, Q-6, Q-7.
#[test]
fn services_and_their_wishes() {
    for (words, expected) in [
        ("", O::Provide),
        ("finalizer", O::Provide),
        ("class=example.com/fast", O::Provide),
        ("class=example.com/other", O::Foreign),
        ("type=ClusterIP", O::Unrelated),
        ("type=NodePort", O::Unrelated),
        ("type=NodePort deleted", O::Unrelated),
        // S-11.
        ("finalizer deleted", O::Cleanup),
        ("finalizer type=ClusterIP", O::Cleanup),
        ("finalizer type=ClusterIP deleted", O::Cleanup),
        ("finalizer deleted class=example.com/fast", O::Cleanup),
        // Not Q-6.
        ("deleted", O::Foreign),
        ("deleted record=mock", O::Foreign),
        // Not Q-7: the finalizer is another implementation's.
        ("finalizer deleted class=example.com/other", O::Foreign),
        ("finalizer class=example.com/other", O::Foreign),
        (
            "finalizer deleted class=example.com/other record=other",
            O::Foreign,
        ),
        // S-44: it was ours before it changed its class by way of another type.
        ("finalizer record=mock class=example.com/other", O::Cleanup),
        // The class was served when the record was made.
        ("finalizer class=example.com/other record=mock", O::Hold),
        ("class=example.com/other record=mock", O::Hold),
        ("finalizer class=example.com/other record=other", O::Foreign),
        (
            "finalizer deleted class=example.com/other record=mock",
            O::Cleanup,
        ),
        // Several providers: who has worked on it cleans up.
        ("finalizer type=ClusterIP record=mock", O::Cleanup),
        // A provider that took another name still serves what it serves, by the class of the record.
        ("finalizer deleted record=other", O::Cleanup),
        ("finalizer type=ClusterIP record=other", O::Cleanup),
        ("finalizer type=ClusterIP record=other deleted", O::Cleanup),
        (
            "finalizer class=example.com/fast record=other class= type=ClusterIP",
            O::Cleanup,
        ),
        (
            "finalizer class=example.com/other record=other class= type=ClusterIP",
            O::Foreign,
        ),
    ] {
        assert_eq!(
            Ownership::of(&service(words), Some(&capability())),
            expected,
            "{words}"
        );
    }
}

#[test]
fn without_default_class_only_declared_classes_and_our_own_records_count() {
    let capability = Capability {
        without_default_class: true,
        ..capability()
    };
    for (words, expected) in [
        ("", O::Foreign),
        ("finalizer deleted", O::Foreign),
        ("finalizer type=ClusterIP", O::Foreign),
        ("finalizer type=ClusterIP record=mock", O::Cleanup),
        ("class=example.com/fast", O::Provide),
        // It was served when the record was made.
        ("finalizer record=mock", O::Hold),
        ("finalizer record=mock deleted", O::Cleanup),
        ("finalizer record=other", O::Foreign),
        ("finalizer type=ClusterIP record=other", O::Foreign),
    ] {
        assert_eq!(
            Ownership::of(&service(words), Some(&capability)),
            expected,
            "{words}"
        );
    }
}

/// One of each: type, deletion, finalizer, record and condition that make a difference, of both classes.
fn every_kind() -> Vec<(String, ServiceView)> {
    let words: [&[&str]; 6] = [
        &["", "finalizer"],
        &["", "deleted"],
        // A record is of the class before it.
        &["", "class=example.com/fast", "class=example.com/other"],
        &["", "record=mock", "record=other"],
        &["", "class=example.com/other", "type=ClusterIP"],
        &[""],
    ];
    let mut all = vec![String::new()];
    for choices in words {
        let longer = |text: &String| {
            choices
                .iter()
                .map(|word| format!("{text} {word}"))
                .collect()
        };
        all = all
            .iter()
            .flat_map(|text| -> Vec<_> { longer(text) })
            .collect();
    }
    let all = all.into_iter();
    all.map(|words| (words.clone(), service(&words))).collect()
}

/// Each declares something else about the Services of [`every_kind`].
fn capabilities() -> Vec<Capability> {
    let classes = ["example.com/fast", "example.com/other"];
    let mut all = Vec::new();
    for provider in ["mock", "other"] {
        for served in 0..=classes.len() {
            for without_default_class in [false, true] {
                all.push(Capability {
                    provider: provider.into(),
                    classes: classes.iter().take(served).map(|c| (*c).into()).collect(),
                    without_default_class,
                    ..capability()
                });
            }
        }
    }
    all
}

#[test]
fn without_a_capability_it_is_undecided_where_declarations_decide() {
    for (words, service) in every_kind() {
        let all = capabilities();
        let mut states = all.iter().map(|c| Ownership::of(&service, Some(c)));
        let expected = if states.clone().any(Ownership::may_be_ours) {
            Ownership::Undecided
        } else {
            let first = states.next().unwrap();
            assert!(states.all(|other| other == first), "{words}");
            first
        };
        assert_eq!(Ownership::of(&service, None), expected, "{words}");
    }
}

#[test]
fn a_finalizer_claims_where_it_says_whose_it_is() {
    let without_default = Capability {
        without_default_class: true,
        ..capability()
    };
    for (words, capability, expected) in [
        ("", capability(), false),
        ("record=mock", capability(), false),
        ("finalizer", capability(), true),
        ("finalizer", without_default.clone(), false),
        ("finalizer record=mock", without_default, true),
        ("class=example.com/fast finalizer", capability(), false),
        (
            "class=example.com/fast finalizer record=mock",
            capability(),
            true,
        ),
        (
            "class=example.com/fast finalizer record=other",
            capability(),
            false,
        ),
    ] {
        assert_eq!(
            is_claimed(&service(words), &capability),
            expected,
            "{words}"
        );
    }
}

/// a user strips the finalizer and deletes the Service.
#[test]
fn a_service_gone_without_cleanup_leaves_a_load_balancer_behind() {
    for (words, expected) in [
        ("", true),
        ("finalizer deleted", true),
        ("deleted record=mock", false),
        ("class=example.com/other", false),
        ("class=example.com/other record=mock", true),
    ] {
        let ownership = Ownership::of(&service(words), Some(&capability()));
        assert_eq!(ownership.may_be_ours(), expected, "{words}");
    }
}

/// Q-5, with the Service still there.
#[test]
fn a_service_that_is_released_leaves_a_load_balancer_behind() {
    for (old, new, expected) in [
        ("finalizer", "type=ClusterIP", true),
        ("record=mock", "type=ClusterIP record=mock", true),
        ("record=mock", "deleted record=mock", true),
        // A class that is not served any more.
        (
            "finalizer class=example.com/other record=mock",
            "class=example.com/other record=mock",
            false,
        ),
        (
            "finalizer class=example.com/other record=mock",
            "class=example.com/other",
            false,
        ),
        (
            "finalizer class=example.com/other record=mock",
            "type=ClusterIP",
            true,
        ),
        (
            "finalizer record=mock class=example.com/other",
            "class=example.com/other",
            true,
        ),
        // The end of a cleanup looks so.
        ("finalizer type=ClusterIP", "type=ClusterIP", true),
        (
            "finalizer type=ClusterIP record=other",
            "type=ClusterIP",
            true,
        ),
        ("finalizer deleted", "deleted", true),
        // It goes on.
        ("finalizer", "", false),
        ("finalizer", "finalizer type=ClusterIP", false),
        // It was never begun, or is another controller's.
        ("", "type=ClusterIP", false),
        ("", "deleted", false),
        ("finalizer class=example.com/other", "type=ClusterIP", false),
        (
            "finalizer class=example.com/other record=other class= type=ClusterIP",
            "type=ClusterIP",
            false,
        ),
        ("type=ClusterIP", "type=NodePort", false),
    ] {
        let (old, new) = (service(old), service(new));
        let is_lost = lost_finalizer(&old, &new, Some(&capability()));
        assert_eq!(is_lost, expected, "{old:?} to {new:?}");
    }
}

/// While it is not known what the provider declares: later a cleanup asks again.
#[test]
fn without_a_capability_each_begun_service_may_leave_a_load_balancer_behind() {
    for (old, new, expected) in [
        ("finalizer", "type=ClusterIP", true),
        ("finalizer record=mock", "deleted record=mock", true),
        ("finalizer class=example.com/other", "type=ClusterIP", true),
        // The finalizer went before.
        ("record=mock", "type=ClusterIP record=mock", true),
        ("record=mock", "deleted record=mock", true),
        ("finalizer record=mock", "record=mock", false),
        ("", "type=ClusterIP", false),
        ("", "deleted", false),
        ("type=ClusterIP", "type=NodePort", false),
    ] {
        let (before, now) = (service(old), service(new));
        let is_lost = lost_finalizer(&before, &now, None);
        assert_eq!(is_lost, expected, "{old:?} to {new:?}");
        let released = is_released(&before, &now, None);
        assert_eq!(
            released,
            now.deleted.is_some() || !now.is_load_balancer(),
            "{new:?}"
        );
    }
}

proptest! {
    #[test]
    fn a_service_being_deleted_never_gets_a_load_balancer(service in any_service()) {
        let ownership = Ownership::of(&service, Some(&capability()));
        prop_assert!(service.deleted.is_none() || ownership != O::Provide);
        prop_assert!(service.has_finalizer() || ownership != O::Cleanup);
        let foreign = service.is_load_balancer()
            && !capability().serves(service.spec.load_balancer_class.as_deref())
            && LastApplied::of(&service).is_none();
        prop_assert!(!foreign || !ownership.may_be_ours());
    }
}
