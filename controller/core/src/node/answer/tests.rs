use jiff::Timestamp;
use proptest::{collection::vec, prelude::*, sample::select};

use super::{RawInstance, Rules};
use crate::fault::{Excerpt, Fault};
use crate::forbidden_addresses::ForbiddenAddresses;
use crate::{
    fixture::{addresses, map},
    node::{
        instance::{Instance, PowerState},
        maintenance::{MaintenanceKind, PlannedMaintenance},
        ownership::Prefixes,
    },
    syntax,
};

/// The last whole second that a [`Timestamp`] can hold.
const LAST_SECOND: Timestamp = Timestamp::constant(253_402_207_200, 0);

fn good() -> RawInstance {
    RawInstance {
        provider_id: "mock://zone-1/i-1".into(),
        ..RawInstance::default()
    }
}

fn check(raw: RawInstance) -> Result<Instance, Fault> {
    let prefixes = Prefixes::new("mock", [""; 0]).unwrap();
    raw.check(Rules {
        prefixes: &prefixes,
        empty_provider_id: false,
        forbidden: &ForbiddenAddresses::default(),
    })
}

fn refusal(raw: RawInstance) -> String {
    check(raw).unwrap_err().to_string()
}

fn with_addresses(words: &[(&str, &str)]) -> RawInstance {
    let words = words.iter();
    RawInstance {
        addresses: words
            .map(|(kind, a)| ((*kind).into(), (*a).into()))
            .collect(),
        ..good()
    }
}

fn with_labels(labels: &[(&str, &str)]) -> RawInstance {
    let labels = labels.iter();
    RawInstance {
        additional_labels: labels.map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        ..good()
    }
}

#[test]
fn a_legal_answer_becomes_an_instance_unchanged() {
    let raw = RawInstance {
        provider_id: "mock://zone-1/i-1".into(),
        node_name: "n6.example.com".into(),
        instance_type: "m5.large".into(),
        zone: "eu-west-1a".into(),
        region: "eu-west-1".into(),
        additional_labels: vec![
            ("example.com/rack".into(), "7".into()),
            // Illegal for a provider to add, but legal: initialisation drops it with a warning.
            ("node.kubernetes.io/x".into(), String::new()),
        ],
        power_state: PowerState::Running,
        pod_cidrs: vec!["10.1.2.0/24".into()],
        planned_maintenance: Some(maintenance()),
        ..with_addresses(&[
            ("InternalIP", "10.0.0.5"),
            ("InternalIP", "fd00::5"),
            ("ExternalIP", "198.51.100.7"),
            ("Hostname", "N6"),
            ("Hostname", "fd00::5"),
            ("InternalDNS", "n6.internal"),
            ("ExternalDNS", "n6.example.com."),
        ])
    };
    let expected = Instance {
        provider_id: "mock://zone-1/i-1".into(),
        node_name: "n6.example.com".into(),
        instance_type: "m5.large".into(),
        addresses: addresses(
            "InternalIP=10.0.0.5 InternalIP=fd00::5 ExternalIP=198.51.100.7 Hostname=N6 \
             Hostname=fd00::5 InternalDNS=n6.internal ExternalDNS=n6.example.com.",
        ),
        faulty_addresses: [].into(),
        zone: "eu-west-1a".into(),
        region: "eu-west-1".into(),
        additional_labels: map(&[("example.com/rack", "7"), ("node.kubernetes.io/x", "")]),
        power_state: PowerState::Running,
        pod_cidrs: ["10.1.2.0/24".into()].into(),
        planned_maintenance: Some(maintenance()),
    };
    assert_eq!(check(raw), Ok(expected));
}

fn maintenance() -> PlannedMaintenance {
    PlannedMaintenance {
        starts_at: Some(LAST_SECOND),
        ends_at: Some(LAST_SECOND),
        kind: MaintenanceKind::Reboot,
        id: "x".repeat(128).into(),
        in_progress: true,
        reason: "new host".into(),
    }
}

/// Nothing of it is a reason to refuse the instance.
#[test]
fn maintenance_is_cut_to_a_line_of_256_bytes_an_id_and_times_that_have_a_meaning() {
    let checked = |maintenance| {
        let raw = RawInstance {
            planned_maintenance: Some(maintenance),
            ..good()
        };
        check(raw).unwrap().planned_maintenance.unwrap()
    };
    let read = |starts_at, reason: &str| {
        checked(PlannedMaintenance {
            starts_at,
            reason: reason.into(),
            ..PlannedMaintenance::default()
        })
    };
    let at = Timestamp::constant;
    for (starts_at, expected) in [
        (None, None),
        (Some(Timestamp::MIN), None),
        (Some(at(-1, 0)), None),
        (Some(Timestamp::UNIX_EPOCH), None),
        (Some(at(1, 999_999_999)), Some(at(1, 0))),
        (Some(Timestamp::MAX), Some(LAST_SECOND)),
    ] {
        assert_eq!(read(starts_at, "").starts_at, expected);
    }
    for (reason, expected) in [
        ("x".repeat(5_000), "x".repeat(256)),
        (
            "a\nb\u{1b}[2J\u{202e}".into(),
            "a\\nb\\u{1b}[2J\\u{202e}".into(),
        ),
    ] {
        assert_eq!(*read(None, &reason).reason, *expected);
    }
    for (ends_at, expected) in [
        (Timestamp::UNIX_EPOCH, None),
        (at(9, 999_999_999), None),
        (at(10, 1), Some(at(10, 0))),
    ] {
        let kept = checked(PlannedMaintenance {
            starts_at: Some(at(10, 5)),
            ends_at: Some(ends_at),
            ..maintenance()
        });
        assert_eq!(kept.ends_at, expected);
    }
    for id in ["x".repeat(129), "a b".into(), "\u{e9}".into()] {
        let id = id.into();
        assert_eq!(
            &*checked(PlannedMaintenance {
                id,
                ..maintenance()
            })
            .id,
            ""
        );
    }
}

#[test]
fn pod_cidrs_are_cut_to_a_bound_and_spoil_nothing() {
    let raw = RawInstance {
        pod_cidrs: vec!["x".repeat(1_000); 1_000],
        ..good()
    };
    let kept = check(raw).unwrap().pod_cidrs;
    assert_eq!(kept.len(), 3);
    assert!(kept.iter().all(|text| text.len() < 100));
}

#[test]
fn provider_ids() {
    let long = format!("mock://{}", "i".repeat(1_017));
    assert_eq!(long.len(), 1_024);
    for legal in ["mock://i", "mock:///subscriptions/a/Größe_(1)", &long] {
        let raw = RawInstance {
            provider_id: legal.into(),
            ..good()
        };
        assert_eq!(&*check(raw).unwrap().provider_id, legal);
    }
    let too_long = format!("{long}i");
    for (id, complaint) in [
        ("mock://", "has nothing after its prefix"),
        (
            "mock://a b",
            "has spaces or characters that cannot be printed",
        ),
        (
            "mock://a\n",
            "has spaces or characters that cannot be printed",
        ),
        (
            "mock://a\u{202e}b",
            "has spaces or characters that cannot be printed",
        ),
        (
            "mock://a\u{a0}b",
            "has spaces or characters that cannot be printed",
        ),
        (
            "mock://a\u{200b}b",
            "has spaces or characters that cannot be printed",
        ),
        (&too_long, "is longer than 1,024 bytes"),
    ] {
        let raw = RawInstance {
            provider_id: id.into(),
            ..good()
        };
        let expected = Fault::illegal("provider_id", id, complaint);
        assert_eq!(check(raw), Err(expected));
    }
}

#[test]
fn a_provider_id_of_another_provider_is_refused_with_the_prefixes() {
    for id in ["other://i", "i-1"] {
        let raw = RawInstance {
            provider_id: id.into(),
            ..good()
        };
        let expected =
            format!("the provider's provider_id {id:?} starts with none of its prefixes: mock://");
        assert_eq!(refusal(raw), expected);
    }
}

/// N-31 needs the Node, so a lookup lets an empty id pass; a list does not.
#[test]
fn n31_an_empty_provider_id_passes_only_where_it_may() {
    let raw = RawInstance::default();
    assert_eq!(refusal(raw.clone()), "the provider's provider_id is empty");
    let prefixes = Prefixes::new("mock", [""; 0]).unwrap();
    let rules = Rules {
        prefixes: &prefixes,
        empty_provider_id: true,
        forbidden: &ForbiddenAddresses::default(),
    };
    assert_eq!(raw.check(rules), Ok(Instance::default()));
}

#[test]
fn refusals_name_the_field_and_the_value() {
    let field = |raw: RawInstance, expected: &str| assert_eq!(refusal(raw), expected);
    let no_value = "is no label value: letters, digits, '-', '_' and '.', the first and last a \
                    letter or digit";
    field(
        RawInstance {
            zone: "zone 1".into(),
            ..good()
        },
        &format!(r#"the provider's zone "zone 1" {no_value}"#),
    );
    field(
        RawInstance {
            region: "-r".into(),
            ..good()
        },
        &format!(r#"the provider's region "-r" {no_value}"#),
    );
    field(
        RawInstance {
            instance_type: "t".repeat(64),
            ..good()
        },
        &format!(
            r#"the provider's instance_type "{}" is longer than 63 bytes"#,
            "t".repeat(64)
        ),
    );
    field(
        RawInstance {
            node_name: "My VM".into(),
            ..good()
        },
        r#"the provider's node_name "My VM" is no node name: a DNS subdomain of at most 253 bytes, in lower case"#,
    );
    field(
        with_labels(&[("ok", "v"), ("a b", "v")]),
        r#"the provider's additional_labels key "a b" is no label key: [prefix/]name with a name of at most 63 letters, digits, '-', '_' and '.', the first and last a letter or digit"#,
    );
    field(
        with_labels(&[("Bad.com/x", "v")]),
        r#"the provider's additional_labels key "Bad.com/x" has a prefix that is no DNS subdomain of at most 253 bytes"#,
    );
    field(
        with_labels(&[("example.com/x", "v\n")]),
        &format!(r#"the provider's additional_labels["example.com/x"] "v\n" {no_value}"#),
    );
}

/// A machine without a public IP, a cloud's own type: no reason to keep a Node from its other addresses.
#[test]
fn a_faulty_address_is_left_out_and_the_rest_counts() {
    let raw = with_addresses(&[
        ("ExternalIP", ""),
        ("InternalIP", "10.0.0.5"),
        ("ExternalIP", "10.0.0.5/24"),
        ("INTERNAL_IP", "10.0.0.6"),
        ("Hostname", "My Server"),
    ]);
    let instance = check(raw).unwrap();
    assert_eq!(instance.addresses, addresses("InternalIP=10.0.0.5"));
    let faults = instance.faulty_addresses.iter().map(|fault| &**fault);
    assert_eq!(
        faults.collect::<Vec<_>>(),
        [
            r#"the provider's addresses[0].address "" is no IP address"#,
            r#"the provider's addresses[2].address "10.0.0.5/24" is no IP address"#,
            r#"the provider's addresses[3].type "INTERNAL_IP" is no address type of Kubernetes, such as InternalIP"#,
            r#"the provider's addresses[4].address "My Server" is no DNS name"#,
        ]
    );
}

#[test]
fn addresses_fit_their_type() {
    let fault = |kind: &str, address: &str| {
        let instance = check(with_addresses(&[(kind, address)])).unwrap();
        assert_eq!(*instance.addresses, [], "{kind} {address:?}");
        instance.faulty_addresses[0].to_string()
    };
    let part = "n".repeat(63);
    let long_name = format!("{part}.{part}.{part}.{part}n");
    for (kind, address) in [
        ("InternalIP", "n6"),
        ("InternalIP", ""),
        ("InternalIP", "010.0.0.5"),
        ("InternalIP", "fe80::1%eth0"),
        ("InternalIP", "169.254.169.254"),
        ("InternalIP", "::ffff:127.0.0.1"),
        ("ExternalIP", "0.0.0.0"),
        ("Hostname", "224.0.0.1"),
        ("Hostname", "localhost"),
        ("InternalDNS", "kubernetes.default.svc"),
        ("ExternalDNS", "Metadata.google.internal."),
        ("ExternalIP", "[fd00::5]"),
        ("ExternalIP", " 10.0.0.5"),
        ("Hostname", ""),
        ("Hostname", "my host"),
        ("Hostname", &long_name),
        ("InternalDNS", "a..b"),
        ("InternalDNS", "fd00::5"),
        ("ExternalDNS", "-a"),
    ] {
        let fault = fault(kind, address);
        assert!(fault.contains("addresses[0].address "), "{fault}");
    }
    for kind in ["", "a b", "a\0", "ä", "Later", &"k".repeat(640)] {
        let fault = fault(kind, "10.0.0.5");
        assert!(fault.contains("addresses[0].type "), "{fault}");
        assert!(fault.len() < 300 && !fault.contains('\0'), "{fault}");
    }
}

#[test]
fn more_than_64_addresses_are_left_out_and_more_labels_refused() {
    let addresses = |count| RawInstance {
        addresses: vec![("InternalIP".into(), "10.0.0.5".into()); count],
        ..good()
    };
    assert_eq!(check(addresses(64)).unwrap().addresses.len(), 64);
    let many = check(addresses(65)).unwrap();
    assert_eq!(many.addresses.len(), 64);
    assert_eq!(
        *many.faulty_addresses,
        [
            "the provider's addresses has 65 entries, more than 64: those after them are left out"
                .into()
        ]
    );
    let labels = |count: usize| RawInstance {
        additional_labels: (0..count)
            .map(|n| (format!("l{n}"), String::new()))
            .collect(),
        ..good()
    };
    assert_eq!(check(labels(64)).unwrap().additional_labels.len(), 64);
    assert_eq!(
        refusal(labels(65)),
        "the provider's additional_labels has 65 entries, more than 64"
    );
}

#[test]
fn an_excerpt_is_quoted_escaped_and_cut() {
    let excerpt = |text: &str| Excerpt::of(text).to_string();
    assert_eq!(excerpt("plain"), r#""plain""#);
    assert_eq!(
        excerpt("a\"\n\u{1b}[31m\u{202e}\u{2028}"),
        r#""a\"\n\u{1b}[31m\u{202e}\u{2028}""#
    );
    let long = "ä".repeat(10_000);
    assert_eq!(
        excerpt(&long),
        format!(r#""{}"… (20000 bytes)"#, "ä".repeat(80))
    );
    assert_eq!(excerpt(&"x".repeat(80)), format!("\"{}\"", "x".repeat(80)));
}

/// Texts that are often legal, so that the properties see both outcomes.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,6}[a-zA-Z0-9])?",
        1 => any::<String>(),
        1 => Just(String::new()),
        1 => "[a-z]{60,70}",
        1 => "[a-z]{1,3}/[ -~]{0,4}",
    ]
}

prop_compose! {
    fn any_answer()(
        provider_id in prop_oneof![4 => Just("mock://i".to_owned()), 1 => text()],
        instance_type in text(),
        zone in text(),
        region in text(),
        kinds in vec(select(vec!["InternalIP", "ExternalIP", "Hostname", "InternalDNS", "Later"]), 0..3),
        address in prop_oneof![2 => Just("10.0.0.5".to_owned()), 1 => text()],
        additional_labels in vec((text(), text()), 0..3),
        node_name in prop_oneof![2 => Just(String::new()), 1 => text()],
    ) -> RawInstance {
        RawInstance {
            provider_id,
            node_name,
            instance_type,
            addresses: kinds.into_iter().map(|kind| (kind.into(), address.clone())).collect(),
            zone,
            region,
            additional_labels,
            ..RawInstance::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_instance_is_always_legal_and_a_refusal_always_short(raw in any_answer()) {
        match check(raw.clone()) {
            Ok(instance) => {
                for value in [&*instance.zone, &instance.region, &instance.instance_type] {
                    prop_assert_eq!(syntax::label_value(value), Ok(()));
                }
                for (key, value) in instance.additional_labels.iter() {
                    prop_assert_eq!(syntax::label_key(key), Ok(()));
                    prop_assert_eq!(syntax::label_value(value), Ok(()));
                }
                prop_assert!(instance.provider_id.starts_with("mock://"));
                let (legal, faulty) = (instance.addresses.len(), instance.faulty_addresses.len());
                prop_assert_eq!(legal + faulty, raw.addresses.len());
            }
            Err(refusal) => {
                let text = refusal.to_string();
                prop_assert!(text.chars().all(|c| !c.is_control()), "{}", text);
                prop_assert!(text.len() < 4_096, "{}", text);
            }
        }
    }
}
