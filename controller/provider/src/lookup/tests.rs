use outrigger_api::{RpcStatus, v1};
use outrigger_core::{
    error_class::ErrorClass, forbidden_addresses::ForbiddenAddresses, node::ownership::Prefixes,
};

use super::*;
use crate::{
    batch::{BatchAnswer, one_each, speaks_for_all},
    fixture::result,
    tests::rig::node,
};

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

/// Answers that were read of the results of a call.
#[derive(Debug)]
struct Read {
    results: Vec<Result<Lookup, Error>>,
    strays: usize,
}

fn read_results(names: &[&str], results: Vec<v1::InstanceResult>, purpose: LookupPurpose) -> Read {
    let (outcomes, strays) = one_each(names, results, TOOK);
    let repeats = Repeats::default();
    let lookups = names.iter().map(|name| NodeLookup {
        node: node(name),
        purpose,
    });
    let read = |(lookup, outcome): (NodeLookup, BatchAnswer<Outcome>)| LookupAnswer {
        result: outcome
            .result
            .and_then(|outcome| read_batch(outcome, &lookup, TOOK, Some(&instances()), &repeats)),
        effects: outcome.effects,
    };
    let mut answers: Vec<_> = lookups.zip(outcomes).map(read).collect();
    refuse_shared_ids(&mut answers);
    Read {
        results: answers.into_iter().map(|answer| answer.result).collect(),
        strays,
    }
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
        let read = read_results(&["a"], results, FRESH);
        assert_eq!(read.results.len(), 1);
        let error = read.results[0].clone().expect_err(case);
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
        let read = read_results(&["a"], vec![result("a", absent)], purpose);
        let lookup = Lookup::Absent {
            confirmed: expected,
        };
        assert_eq!(read.results, [Ok(lookup)], "{certainty:?} {age:?}");
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
fn results_come_in_any_order_and_strays_are_counted() {
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
    let read = read_results(&["a", "b", "c"], results, FRESH);
    assert_eq!(read.strays, 1);
    let Ok(Lookup::Found(a)) = &read.results[0] else {
        panic!("{:?}", read.results)
    };
    assert_eq!(&*a.provider_id, "fake://a");
    assert!(read.results[1].is_err());
    assert_eq!(
        read.results[2],
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
    let read = read_results(&["a", "b", "c"], results, FRESH);
    let failed: Vec<bool> = read.results.iter().map(Result::is_err).collect();
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
    let read = read_results(&["a"], instance, LookupPurpose::Lifecycle);
    let Ok(Lookup::Found(instance)) = &read.results[0] else {
        panic!("{:?}", read.results)
    };
    assert_eq!(
        (instance.power_state, &*instance.zone),
        (PowerState::Shutdown, "")
    );
}

#[test]
fn a_node_that_has_a_provider_id_may_be_found_without_one() {
    let read = read_results(&["a"], vec![result("a", found(""))], FRESH);
    assert!(read.results[0].is_ok());
}

#[test]
fn an_error_of_single_nodes_may_speak_for_the_class() {
    let refusal = |reason: v1::ErrorReason| Error::Refused {
        rpc: "x",
        reason,
        message: "y".into(),
        retry_after: None,
        effects: None,
    };
    let check = |results: Vec<Result<Lookup, Error>>, speaks: bool| {
        let errors = results.iter().map(|result| result.as_ref().err());
        assert_eq!(speaks_for_all(errors).is_some(), speaks, "{results:?}");
    };
    let fine = || Ok(Lookup::Absent { confirmed: false });
    let limited = || Err(refusal(v1::ErrorReason::RateLimited));
    let down = || Err(refusal(v1::ErrorReason::CloudUnavailable));
    let bad = || Err(refusal(v1::ErrorReason::MalformedProviderId));
    check(vec![fine(), limited()], true);
    check(vec![fine(), down()], false);
    check(vec![down(), down()], true);
    check(vec![bad(), bad()], false);
    check(vec![fine(), bad()], false);
}
