use super::*;

fn read(flag: &str) -> Result<FeatureGates, String> {
    let list: Vec<_> = flag.split(',').map(str::to_owned).collect();
    FeatureGates::new(&list)
}

fn gates(flag: &str) -> FeatureGates {
    read(flag).unwrap()
}

#[test]
fn defaults_are_upstreams() {
    let gates = gates("");
    assert!(GATES.into_iter().all(|gate| gates.enabled(gate)));
    assert_eq!(gates.warning(), None);
}

#[test]
fn a_named_gate_goes_before_the_bulk_switch() {
    let gates = gates("ComponentFlagz=true,AllBeta=false");
    assert!(gates.enabled(FLAGZ));
    assert!(!gates.enabled(STATUSZ));
    assert!(gates.enabled(WEBHOOK));
    assert_eq!(gates.warning(), None);
}

#[test]
fn the_last_mention_counts() {
    let gates = gates("ComponentFlagz=true,ComponentFlagz=false");
    assert!(!gates.enabled(FLAGZ));
}

#[test]
fn cli_80_gates_without_effect_are_accepted_with_one_warning() {
    let gates =
        gates("InPlacePodVerticalScaling=true,ComponentFlagz=true,AllAlpha=false,Bogus=true");
    let warning = "feature gates without effect here: InPlacePodVerticalScaling, AllAlpha, Bogus";
    assert_eq!(gates.warning().as_deref(), Some(warning));
    assert!(gates.enabled(FLAGZ));
}

#[test]
fn malformed_pairs_are_refused() {
    for item in ["AllAlpha", "AllAlpha=x"] {
        let expected = format!("--feature-gates: {item:?}: it must be true or false");
        assert_eq!(read(item).unwrap_err(), expected);
    }
}
