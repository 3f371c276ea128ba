use proptest::prelude::*;

use super::{Wants, leaves_behind, lost_finalizer, wants};
use crate::{
    fixture::{any_service, capability, load_balancer},
    service::{
        FINALIZER, ServiceView,
        capability::Capability,
        settled::{ANNOTATION_SETTLED, Record},
    },
};

/// Words: `finalizer`, `deleted`, `record=<provider>`, `class=<class>`, `type=<type>`.
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
                let record = Record::begun(&service, &owner).to_string();
                service.annotations = service.annotations.with([(ANNOTATION_SETTLED, &*record)]);
            }
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
        ("", Wants::LoadBalancer),
        ("finalizer", Wants::LoadBalancer),
        ("class=example.com/fast", Wants::LoadBalancer),
        ("class=example.com/other", Wants::Nothing),
        ("type=ClusterIP", Wants::Nothing),
        ("type=NodePort", Wants::Nothing),
        ("type=NodePort deleted", Wants::Nothing),
        // S-11.
        ("finalizer deleted", Wants::Cleanup),
        ("finalizer type=ClusterIP", Wants::Cleanup),
        ("finalizer type=ClusterIP deleted", Wants::Cleanup),
        ("finalizer deleted class=example.com/fast", Wants::Cleanup),
        // Not Q-6.
        ("deleted", Wants::Nothing),
        ("deleted record=mock", Wants::Nothing),
        // Not Q-7: the finalizer is another implementation's.
        ("finalizer deleted class=example.com/other", Wants::Nothing),
        ("finalizer class=example.com/other", Wants::Nothing),
        (
            "finalizer deleted class=example.com/other record=other",
            Wants::Nothing,
        ),
        // S-44: it was ours before it changed its class by way of another type.
        (
            "finalizer record=mock class=example.com/other",
            Wants::Cleanup,
        ),
        // The class was served when the record was made.
        ("finalizer class=example.com/other record=mock", Wants::Hold),
        ("class=example.com/other record=mock", Wants::Hold),
        (
            "finalizer class=example.com/other record=other",
            Wants::Nothing,
        ),
        (
            "finalizer deleted class=example.com/other record=mock",
            Wants::Cleanup,
        ),
        // Several providers: who has worked on it cleans up.
        ("finalizer type=ClusterIP record=mock", Wants::Cleanup),
        ("finalizer type=ClusterIP record=other", Wants::Nothing),
        // A provider that took another name still serves what it serves.
        ("finalizer deleted record=other", Wants::Cleanup),
    ] {
        assert_eq!(wants(&service(words), &capability()), expected, "{words}");
    }
}

#[test]
fn without_default_class_only_declared_classes_and_our_own_records_count() {
    let capability = Capability {
        without_default_class: true,
        ..capability()
    };
    for (words, expected) in [
        ("", Wants::Nothing),
        ("finalizer deleted", Wants::Nothing),
        ("finalizer type=ClusterIP", Wants::Nothing),
        ("finalizer type=ClusterIP record=mock", Wants::Cleanup),
        ("class=example.com/fast", Wants::LoadBalancer),
        // It was served when the record was made.
        ("finalizer record=mock", Wants::Hold),
        ("finalizer record=mock deleted", Wants::Cleanup),
        ("finalizer record=other", Wants::Nothing),
    ] {
        assert_eq!(wants(&service(words), &capability), expected, "{words}");
    }
}

/// Its annotations came along, but it is another Service.
#[test]
fn a_copied_record_proves_nothing() {
    let mut copy = service("finalizer deleted class=example.com/other record=mock");
    copy.uid = "uid-of-the-copy".into();
    assert_eq!(wants(&copy, &capability()), Wants::Nothing);
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
        assert_eq!(
            leaves_behind(&service(words), &capability()),
            expected,
            "{words}"
        );
    }
}

/// Q-5, with the Service still there.
#[test]
fn a_service_taken_out_of_our_hands_leaves_a_load_balancer_behind() {
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
        // As at the end of a cleanup.
        ("finalizer type=ClusterIP", "type=ClusterIP", true),
        ("finalizer deleted", "deleted", true),
        // It goes on.
        ("finalizer", "", false),
        ("finalizer", "finalizer type=ClusterIP", false),
        // It was never begun, or is another controller's.
        ("", "type=ClusterIP", false),
        ("", "deleted", false),
        ("finalizer class=example.com/other", "type=ClusterIP", false),
        (
            "finalizer type=ClusterIP record=other",
            "type=ClusterIP",
            false,
        ),
        ("type=ClusterIP", "type=NodePort", false),
    ] {
        let found = lost_finalizer(&service(old), &service(new), &capability());
        assert_eq!(found, expected, "{old:?} to {new:?}");
    }
}

proptest! {
    #[test]
    fn a_service_being_deleted_never_gets_a_load_balancer(service in any_service()) {
        let wanted = wants(&service, &capability());
        prop_assert!(service.deleted.is_none() || wanted != Wants::LoadBalancer);
        prop_assert!(service.has_finalizer() || wanted != Wants::Cleanup);
        let foreign = service.is_load_balancer()
            && !capability().serves(service.spec.load_balancer_class.as_deref())
            && Record::of(&service).is_none();
        prop_assert!(!foreign || wanted == Wants::Nothing);
    }
}
