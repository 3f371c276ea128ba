use proptest::prelude::*;

use super::{
    AllowedEffects, DropCause, Dropped, Effects, EffectsObject, GrantedPrefixes, MAX_ANNOTATIONS,
    MAX_CONDITIONS, MAX_EVENTS, MAX_REMOVALS, RawEffects, is_of_controller,
};
use crate::{
    condition::Condition,
    event::EventType,
    fixture::{capability, map},
    node::labels,
    string_map::StringMap,
};

fn granted(prefixes: &[&str]) -> Result<GrantedPrefixes, String> {
    GrantedPrefixes::new(prefixes.iter().map(|&prefix| prefix.to_owned()))
}

/// Allowed for the provider of [`capability`], on an object that has nothing.
fn effects(raw: RawEffects) -> Effects {
    on(&StringMap::default(), &[], raw)
}

fn on(annotations: &StringMap, conditions: &[Condition], raw: RawEffects) -> Effects {
    let object = EffectsObject {
        annotations,
        conditions,
    };
    raw.check(&capability().effects, object)
}

fn condition(kind: &str) -> Condition {
    serde_json::from_value(serde_json::json!({"type": kind, "status": "True"})).unwrap()
}

fn wanted(kind: &str) -> (String, String, String, String) {
    (kind.into(), "True".into(), "Sure".into(), "because".into())
}

fn keys(effects: &Effects) -> Vec<&str> {
    effects.annotations.iter().map(|(key, _)| &**key).collect()
}

fn causes(effects: &Effects) -> Vec<DropCause> {
    effects.dropped.reports().map(|(cause, _)| cause).collect()
}

#[test]
fn annotations_stay_within_the_declared_prefixes() {
    let set = |keys: &[&str]| keys.iter().map(|k| ((*k).into(), "v".into())).collect();
    let effects_read = effects(RawEffects {
        set_annotations: set(&[
            "example.com/status-id",
            "example.com/flavour",
            "outrigger.dev/last-applied",
            "example.com/status-not legal",
        ]),
        remove_annotations: vec!["example.com/status-old".into(), "other.example/x".into()],
        ..RawEffects::default()
    });
    assert_eq!(
        effects_read.annotations,
        [
            ("example.com/status-id".into(), Some("v".into())),
            ("example.com/status-old".into(), None),
        ]
    );
    assert_eq!(effects_read.dropped.count(), 4);
    assert_eq!(
        causes(&effects_read),
        [DropCause::Undeclared, DropCause::Illegal]
    );
}

#[test]
fn nothing_is_written_that_the_operator_has_not_granted() {
    let prefixes = [
        "vendor.example/",
        "external-dns.alpha.kubernetes.io/",
        "flannel.alpha",
    ];
    let declared: Box<[Box<str>]> = prefixes.map(Into::into).into();
    let raw = RawEffects {
        events: vec![("Warning".into(), "Quota".into(), "x".into())],
        set_annotations: [
            "external-dns.alpha.kubernetes.io/hostname",
            "flannel.alpha.coreos.com/public-ip",
            "vendor.example/id",
        ]
        .map(|key| (key.to_owned(), "v".to_owned()))
        .into(),
        remove_annotations: vec!["vendor.example/old".into()],
        conditions: vec![wanted("vendor.example/Ready")],
        remove_conditions: vec!["vendor.example/Old".into()],
    };
    let check = |granted: GrantedPrefixes| {
        let allowed = AllowedEffects {
            annotations: declared.clone(),
            conditions: declared.clone(),
            granted,
        };
        let annotations = StringMap::default();
        let object = EffectsObject {
            annotations: &annotations,
            conditions: &[],
        };
        raw.clone().check(&allowed, object)
    };
    let none = check(GrantedPrefixes::default());
    assert!(none.annotations.is_empty() && none.conditions.is_empty());
    assert_eq!((none.events.len(), none.dropped.count()), (1, 6));
    let (cause, report) = none.dropped.reports().next().unwrap();
    assert_eq!(cause, DropCause::NotGranted);
    assert!(
        report
            .message
            .contains(r#""vendor.example/old" and 5 more: --provider-effect-prefixes"#),
        "{}",
        report.message
    );
    let some = check(granted(&["vendor.example/i", "vendor.example/Ready"]).unwrap());
    assert_eq!(keys(&some), ["vendor.example/id"]);
    assert_eq!((some.conditions.len(), some.dropped.count()), (1, 4));
}

#[test]
fn a_grant_names_a_whole_domain_that_is_neither_kubernetes_nor_ours() {
    for prefix in [
        "vendor.example/",
        "vendor.example/status-",
        "a.b/c",
        "notkubernetes.io/",
    ] {
        assert!(granted(&[prefix]).is_ok(), "{prefix}");
    }
    for prefix in [
        "",
        "/",
        "*",
        "vendor.example",
        "status-",
        "Vendor.Example/",
        "a b/",
        "-a/",
    ] {
        let refused = granted(&["vendor.example/", prefix]).unwrap_err();
        assert!(refused.contains("is no domain"), "{prefix}: {refused}");
    }
    for prefix in [
        "outrigger.dev/",
        "outrigger.dev/paused",
        "outrigger.dev.node-restriction.kubernetes.io/",
        "status.outrigger.dev/",
        "kubernetes.io/",
        "kubectl.kubernetes.io/",
        "service.beta.kubernetes.io/vendor-",
        "external-dns.alpha.kubernetes.io/",
        "k8s.io/",
        "node.k8s.io/x",
    ] {
        let refused = granted(&[prefix]).unwrap_err();
        assert!(refused.contains("belongs to"), "{prefix}");
    }
}

#[test]
fn annotations_of_former_answers_take_room_and_stay() {
    let large = |name: &str| (format!("example.com/status-{name}"), "v".repeat(7_000));
    let effects_read = effects(RawEffects {
        set_annotations: ["a", "b", "c"].map(large).into(),
        ..RawEffects::default()
    });
    assert_eq!(
        keys(&effects_read),
        ["example.com/status-a", "example.com/status-b"]
    );
    assert_eq!(causes(&effects_read), [DropCause::TooMany]);

    let former = map(&[
        ("example.com/status-a", &*"v".repeat(7_000)),
        ("example.com/status-b", &*"v".repeat(7_000)),
        ("example.com/users", &*"v".repeat(100_000)),
    ]);
    let set = |names: &[&str]| names.iter().map(|name| large(name)).collect();
    let effects_read = on(
        &former,
        &[],
        RawEffects {
            set_annotations: set(&["b", "c"]),
            ..RawEffects::default()
        },
    );
    assert_eq!(
        (keys(&effects_read), effects_read.dropped.count()),
        (vec!["example.com/status-b"], 1)
    );
    // In the place of one that the same answer removes.
    let effects_read = on(
        &former,
        &[],
        RawEffects {
            set_annotations: set(&["c"]),
            remove_annotations: vec!["example.com/status-a".into()],
            ..RawEffects::default()
        },
    );
    assert_eq!(effects_read.dropped.count(), 0);
    assert_eq!(
        keys(&effects_read),
        ["example.com/status-c", "example.com/status-a"]
    );
}

#[test]
fn an_object_may_be_full_and_what_shrinks_or_stays_is_accepted() {
    const KEY: &str = "example.com/status-a";
    let full = MAX_ANNOTATIONS - KEY.len();
    let sets = |former: usize, lengths: &[usize]| {
        let former = map(&[(KEY, &*"v".repeat(former))]);
        let sets = lengths
            .iter()
            .map(|length| (KEY.to_owned(), "w".repeat(*length)));
        let raw = RawEffects {
            set_annotations: sets.collect(),
            ..RawEffects::default()
        };
        on(&former, &[], raw).annotations.len()
    };
    assert_eq!(sets(0, &[full]), 1);
    assert_eq!(sets(0, &[full + 1]), 0);
    // The value before makes room for the next one, also within one answer.
    assert_eq!(sets(full, &[full]), 1);
    assert_eq!(sets(full, &[full - 1, full, full + 1]), 2);
    // Larger than allowed, by another version of the controller.
    assert_eq!(sets(2 * full, &[2 * full + 1]), 0);
    assert_eq!(sets(2 * full, &[2 * full, 2 * full - 1]), 2);
}

#[test]
fn nothing_is_written_of_a_provider_that_declares_no_effects() {
    let raw = RawEffects {
        events: vec![("Normal".into(), "Quota".into(), "x".into())],
        set_annotations: vec![("example.com/a".into(), "v".into())],
        remove_annotations: vec!["example.com/b".into()],
        conditions: vec![wanted("example.com/C")],
        remove_conditions: vec!["example.com/D".into()],
    };
    let undeclared = raw.undeclared();
    assert!(undeclared.is_empty());
    assert_eq!(undeclared.dropped.count(), 5);
    assert_eq!(causes(&undeclared), [DropCause::Undeclared]);
}

#[test]
fn keys_of_the_controller_and_of_kubectl_are_reserved() {
    for (key, is_reserved) in [
        ("outrigger.dev/paused", true),
        ("kubectl.kubernetes.io/last-applied-configuration", true),
        ("kubectl.kubernetes.io/restartedAt", false),
        ("example.com/outrigger.dev/x", false),
    ] {
        assert_eq!(is_of_controller(key), is_reserved, "{key}");
    }
}

#[test]
fn each_cause_is_told_once_with_its_number() {
    let mut dropped = Dropped::default();
    dropped.add(DropCause::Illegal, "a");
    assert_eq!(
        dropped.to_string(),
        "The provider may not write \"a\": it is not legal in Kubernetes"
    );
    dropped.add(DropCause::Illegal, "b");
    dropped.add(DropCause::Refused, "c");
    let text = dropped.to_string();
    let parts: Vec<_> = text.split("; The provider").collect();
    assert_eq!(parts.len(), 2, "{text}");
    assert!(parts[0].contains("\"a\" and 1 more: "), "{text}");
    assert!(parts[1].contains("\"c\": the API server"), "{text}");
}

#[test]
fn conditions_of_former_answers_take_room_and_stay() {
    let kind = |number: usize| format!("example.com/C{number}");
    let many = |range: std::ops::Range<usize>| range.map(|n| wanted(&kind(n))).collect();
    let effects_read = effects(RawEffects {
        conditions: many(0..1_500),
        ..RawEffects::default()
    });
    assert_eq!(effects_read.conditions.len(), MAX_CONDITIONS);
    assert_eq!(effects_read.dropped.count(), 1_500 - MAX_CONDITIONS);
    assert_eq!(causes(&effects_read), [DropCause::TooMany]);

    let mut former: Vec<_> = (0..MAX_CONDITIONS).map(|n| condition(&kind(n))).collect();
    former.push(condition("outrigger.dev/Provisioned"));
    let raw = RawEffects {
        conditions: many(15..18),
        ..RawEffects::default()
    };
    let effects_read = on(&StringMap::default(), &former, raw.clone());
    assert_eq!(
        (effects_read.conditions.len(), effects_read.dropped.count()),
        (1, 2)
    );
    let raw = RawEffects {
        remove_conditions: vec![kind(3)],
        ..raw
    };
    let effects_read = on(&StringMap::default(), &former, raw);
    assert_eq!(
        (effects_read.conditions.len(), effects_read.dropped.count()),
        (3, 1)
    );
}

#[test]
fn removals_are_few() {
    let effects_read = effects(RawEffects {
        remove_annotations: (0..1_000)
            .map(|n| format!("example.com/status-{n}"))
            .collect(),
        remove_conditions: (0..1_000).map(|n| format!("example.com/C{n}")).collect(),
        ..RawEffects::default()
    });
    assert_eq!(
        effects_read.annotations.len() + effects_read.conditions.len(),
        MAX_REMOVALS
    );
    assert_eq!(effects_read.dropped.count(), 2_000 - MAX_REMOVALS);
}

#[test]
fn conditions_are_the_providers_own_and_legal() {
    let one = |kind: &str, status: &str, reason: &str| {
        (kind.into(), status.into(), reason.into(), "because".into())
    };
    let effects_read = effects(RawEffects {
        conditions: vec![
            one("example.com/CertificateReady", "True", "Issued"),
            one("example.com/CertificateReady", "Yes", "Issued"),
            one("example.com/CertificateReady", "True", ""),
            one("outrigger.dev/Provisioned", "True", "Issued"),
            one("Ready", "True", "Issued"),
        ],
        remove_conditions: vec!["example.com/Old".into(), "outrigger.dev/Accepted".into()],
        ..RawEffects::default()
    });
    let kinds: Vec<_> = effects_read
        .conditions
        .iter()
        .map(|(k, w)| (&**k, w.is_some()))
        .collect();
    let expected = [
        ("example.com/CertificateReady", true),
        ("example.com/Old", false),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(effects_read.dropped.count(), 5);
}

#[test]
fn events_are_few_and_legal() {
    let event = |kind: &str, reason: &str| (kind.into(), reason.into(), "x".into());
    let normal = effects(RawEffects {
        events: vec![event("Normal", "Quota")],
        ..RawEffects::default()
    });
    assert_eq!(normal.events[0].kind, EventType::Normal);
    let mut events = vec![event("Error", "Quota"), event("Normal", "not CamelCase")];
    events.extend((0..=MAX_EVENTS).map(|_| event("Warning", "Quota")));
    let effects_read = effects(RawEffects {
        events,
        ..RawEffects::default()
    });
    assert_eq!(
        (effects_read.events.len(), effects_read.dropped.count()),
        (MAX_EVENTS, 3)
    );
    assert_eq!(effects_read.events[0].kind, EventType::Warning);
}

fn any_key() -> impl Strategy<Value = String> {
    let domain = prop_oneof![
        Just("example.com"),
        Just("example.com.evil"),
        Just("kubernetes.io"),
        Just("a.k8s.io"),
        Just("outrigger.dev"),
        Just("example"),
    ];
    let name = prop_oneof!["status-[a-c]{1,2}", "[A-C]{1,3}", "[a-c]{0,3}"];
    (domain, prop_oneof![Just("/"), Just("")], name)
        .prop_map(|(domain, slash, name)| format!("{domain}{slash}{name}"))
}

fn any_raw() -> impl Strategy<Value = RawEffects> {
    let value = (0_usize..9_000).prop_map(|length| "v".repeat(length));
    (
        prop::collection::btree_map(any_key(), value, 0..20),
        prop::collection::vec(any_key(), 0..8),
        prop::collection::vec(any_key(), 0..60),
        prop::collection::vec(any_key(), 0..8),
    )
        .prop_map(|(set, remove, conditions, remove_conditions)| RawEffects {
            events: Vec::new(),
            set_annotations: set.into_iter().collect(),
            remove_annotations: remove,
            conditions: conditions.iter().map(|kind| wanted(kind)).collect(),
            remove_conditions,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a provider declares and sends, one answer after the other.
    #[test]
    fn an_object_stays_bounded_and_keeps_all_that_is_not_granted(
        declared in prop::collection::vec(any_key(), 0..4),
        answers in prop::collection::vec(any_raw(), 1..6),
    ) {
        let declared: Box<[Box<str>]> = declared.into_iter().map(Into::into).collect();
        let grant = granted(&["example.com/"]).unwrap();
        let allowed = AllowedEffects {
            annotations: declared.clone(),
            conditions: declared,
            granted: grant.clone(),
        };
        let mut annotations = map(&[("kubernetes.io/theirs", "kept"), ("example", "kept")]);
        let mut kinds: std::collections::BTreeSet<Box<str>> =
            ["Ready".into(), "kubernetes.io/A".into()].into();
        for raw in answers {
            let conditions: Vec<_> = kinds.iter().map(|kind| condition(kind)).collect();
            let object = EffectsObject { annotations: &annotations, conditions: &conditions };
            let found = raw.check(&allowed, object);
            for (key, _) in &found.annotations {
                prop_assert!(grant.has(key) && !labels::is_reserved(key), "{}", key);
            }
            annotations = annotations.changed(&found.annotations);
            for (kind, wanted) in &found.conditions {
                prop_assert!(grant.has(kind));
                if wanted.is_some() { kinds.insert(kind.clone()); } else { kinds.remove(kind); }
            }
            let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
            prop_assert!(bytes <= MAX_ANNOTATIONS + 64);
            prop_assert!(kinds.len() <= MAX_CONDITIONS + 2);
            prop_assert_eq!(annotations.get("kubernetes.io/theirs"), Some("kept"));
        }
    }
}
