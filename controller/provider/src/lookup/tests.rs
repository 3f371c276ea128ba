use outrigger_api::{RpcStatus, v1};
use outrigger_core::{
    error_class::ErrorClass, forbidden_addresses::ForbiddenAddresses, node::ownership::Prefixes,
};

use super::*;
use crate::{fixture::result, tests::rig::node};

/// An age.
fn millis(millis: i32) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::from(millis / 1000),
        nanos: millis % 1000 * 1_000_000,
    }
}

/// How long a call takes.
const TOOK: Duration = Duration::from_secs(1);

const FRESH: LookupPurpose = LookupPurpose::Initialization;

fn instances() -> InstancesCapability {
    InstancesCapability {
        max_batch_size: 100,
        preference: v1::LookupPreference::Batch,
        prefixes: Prefixes::new("fake", ["fake://"]).unwrap(),
        visibility_delay: std::time::Duration::ZERO,
        without_provider_id: false,
        managed_label_keys: Box::default(),
        allocates_pod_cidrs: false,
        forbidden: ForbiddenAddresses::default(),
    }
}

fn read(
    names: &[&str],
    results: Vec<v1::InstanceResult>,
    purpose: LookupPurpose,
) -> Vec<Result<Lookup, Error>> {
    let lookups = names.iter().map(|name| NodeLookup {
        node: node(name),
        purpose,
    });
    let lookups: Vec<_> = lookups.collect();
    let (instances, repeats) = (instances(), Repeats::default());
    let answers = read_answers(lookups.iter(), results, TOOK, &instances, &repeats);
    answers.into_iter().map(|answer| answer.result).collect()
}

fn found(id: &str) -> Outcome {
    Outcome::Found(v1::Instance {
        provider_id: id.into(),
        ..v1::Instance::default()
    })
}

fn absent(certainty: AbsenceCertainty, age: Option<prost_types::Duration>) -> Outcome {
    Outcome::Absent(v1::Absent {
        certainty: certainty.into(),
        age,
        ..v1::Absent::default()
    })
}

#[test]
fn nonsense_is_never_found_and_never_absent() {
    let broken = |change: fn(&mut v1::Instance)| {
        let mut instance = v1::Instance {
            provider_id: "fake://a".into(),
            ..v1::Instance::default()
        };
        change(&mut instance);
        vec![result("a", Outcome::Found(instance))]
    };
    let ok = Outcome::Error(RpcStatus::default());
    let table = [
        ("nothing", vec![]),
        (
            "no outcome",
            vec![v1::InstanceResult {
                key: "a".into(),
                ..Default::default()
            }],
        ),
        ("another node", vec![result("b", found("fake://a"))]),
        ("no name", vec![result("", found("fake://a"))]),
        (
            "twice",
            vec![
                result("a", found("fake://a")),
                result("a", found("fake://a")),
            ],
        ),
        (
            "thrice",
            vec![
                result("a", found("fake://a")),
                result("a", absent(AbsenceCertainty::Confirmed, None)),
                result("a", absent(AbsenceCertainty::Confirmed, None)),
            ],
        ),
        ("error that is none", vec![result("a", ok)]),
        (
            "foreign provider id",
            broken(|i| i.provider_id = "aws://a".into()),
        ),
        ("illegal zone", broken(|i| i.zone = "a b".into())),
        ("illegal region", broken(|i| i.region = "\u{1b}".into())),
        ("illegal type", broken(|i| i.instance_type = "x".repeat(64))),
        (
            "illegal label",
            broken(|i| {
                i.additional_labels.insert("a b".into(), "c".into());
            }),
        ),
    ];
    for (case, results) in table {
        let read = read(&["a"], results, FRESH);
        assert_eq!(read.len(), 1);
        let error = read[0].clone().expect_err(case);
        assert_eq!(error.class(), ErrorClass::Malformed, "{case}");
    }
}

#[test]
fn an_absence_is_confirmed_only_by_a_look_during_a_call_that_wanted_nothing_older() {
    use AbsenceCertainty::{Confirmed, NotVisibleYet, Unspecified};
    let stale = LookupPurpose::Refresh {
        max_staleness: Duration::from_mins(1),
    };
    let check = |purpose, certainty, age, expected: bool| {
        let absent = absent(certainty, age);
        let read = read(&["a"], vec![result("a", absent)], purpose);
        let lookup = Lookup::Absent {
            confirmed: expected,
        };
        assert_eq!(read, [Ok(lookup)], "{certainty:?} {age:?}");
    };
    // No clock, no age: asked for this call.
    check(FRESH, Confirmed, None, true);
    check(FRESH, Confirmed, Some(millis(0)), true);
    check(FRESH, Confirmed, Some(millis(1000)), true);
    check(FRESH, Confirmed, Some(millis(1001)), false);
    check(FRESH, Confirmed, Some(millis(3_600_000)), false);
    check(FRESH, Confirmed, Some(millis(-1)), false);
    check(FRESH, NotVisibleYet, None, false);
    check(FRESH, Unspecified, None, false);
    // A question that allows a cache confirms nothing, whatever is said.
    check(stale, Confirmed, None, false);
    check(stale, Unspecified, Some(millis(3_600_000)), false);
}

#[test]
fn results_come_in_any_order_and_strays_are_left_out() {
    let results = vec![
        result(
            "c",
            Outcome::NotManaged(v1::NotManaged {
                reason: "no\ntag".into(),
            }),
        ),
        result("x", found("fake://x")),
        result("a", found("fake://a")),
    ];
    let read = read(&["a", "b", "c"], results, FRESH);
    let Ok(Lookup::Found(a)) = &read[0] else {
        panic!("{read:?}")
    };
    assert_eq!(&*a.provider_id, "fake://a");
    assert!(read[1].is_err());
    assert_eq!(
        read[2],
        Ok(Lookup::NotManaged {
            reason: "no\\ntag".into()
        })
    );
}

#[test]
fn two_nodes_with_one_provider_id_are_both_refused() {
    let results = vec![
        result("a", found("fake://same")),
        result("b", found("fake://b")),
        result("c", found("fake://same")),
    ];
    let read = read(&["a", "b", "c"], results, FRESH);
    let failed: Vec<bool> = read.iter().map(Result::is_err).collect();
    assert_eq!(failed, [true, false, true]);
}

#[test]
fn a_view_of_the_state_reads_nothing_else() {
    let instance = v1::Instance {
        provider_id: "fake://a".into(),
        zone: "no legal zone".into(),
        power_state: v1::PowerState::Shutdown.into(),
        ..v1::Instance::default()
    };
    let instance = vec![result("a", Outcome::Found(instance))];
    let read = read(&["a"], instance, LookupPurpose::Lifecycle);
    let Ok(Lookup::Found(instance)) = &read[0] else {
        panic!("{read:?}")
    };
    assert_eq!(
        (instance.power_state, &*instance.zone),
        (PowerState::Shutdown, "")
    );
}

#[test]
fn a_node_that_has_a_provider_id_may_be_found_without_one() {
    let read = read(&["a"], vec![result("a", found(""))], FRESH);
    assert!(read[0].is_ok());
}
