use super::*;

fn gates(flag: &str) -> (FeatureGates, Vec<String>) {
    FeatureGates::evaluate(&flag.parse().unwrap())
}

#[test]
fn defaults_are_upstreams() {
    let (gates, warnings) = gates("");
    assert!(gates.enabled(Gate::ComponentFlagz));
    assert!(gates.enabled(Gate::ComponentStatusz));
    assert!(gates.enabled(Gate::RemoteRequestHeaderUid));
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn a_named_gate_goes_before_the_bulk_switches() {
    let (gates, _) = gates("ComponentFlagz=true,AllBeta=false");
    assert!(gates.enabled(Gate::ComponentFlagz));
    assert!(!gates.enabled(Gate::ComponentStatusz));
}

#[test]
fn the_last_mention_counts() {
    let (gates, _) = gates("ComponentFlagz=true,ComponentFlagz=false");
    assert!(!gates.enabled(Gate::ComponentFlagz));
}

#[test]
fn cli_81_gates_without_effect_are_accepted_with_a_reason() {
    let (_, warnings) = gates(
        "CloudControllerManagerWatchBasedRoutesReconciliation=true,InPlacePodVerticalScaling=true,MemoryQoS=false",
    );
    assert_eq!(
        warnings,
        [
            "feature gate CloudControllerManagerWatchBasedRoutesReconciliation has no effect here: \
             routes are always reconciled on changes",
            "feature gates of other components have no effect here: InPlacePodVerticalScaling, MemoryQoS",
        ]
    );
}

#[test]
fn malformed_pairs_are_refused() {
    let check = |flag: &str, expected: &str| {
        assert_eq!(flag.parse::<Pairs>(), Err(expected.into()), "{flag}");
    };
    check("Bogus=true", "unrecognized feature gate: Bogus");
    check(
        "AllAlpha",
        "missing bool value for AllAlpha; write AllAlpha=true",
    );
    check(
        "AllAlpha=x",
        "invalid value of AllAlpha=x: it must be true or false",
    );
}

#[test]
fn no_gate_is_listed_twice() {
    let mut names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
    assert!(names.is_sorted());
    names.extend(ELSEWHERE.lines());
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
