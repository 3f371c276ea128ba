use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Stage, VolumePatch, left_alone, plan};
use crate::{
    node::labels::{REGION, REGION_BETA, ZONE, ZONE_BETA},
    volume::{
        ANNOTATION_LABELLED, InTreeKind, NodeTerm, RawTopology, ServedVolumes, VolumeTopology,
        VolumeView,
        tests::{all_of, view, within},
    },
};

fn served() -> ServedVolumes {
    ServedVolumes {
        provider: "example".into(),
        csi_drivers: ["disk.example".into()].into(),
        kinds: [InTreeKind::Cinder].into(),
    }
}

type Texts<'a> = &'a [(&'a str, &'a str)];

fn volume(change: impl FnOnce(&mut Value)) -> VolumeView {
    let mut volume = json!({
        "metadata": {"name": "pv", "uid": "u"},
        "spec": {"csi": {"driver": "disk.example", "volumeHandle": "h"}},
    });
    change(&mut volume);
    view(volume)
}

fn labelled(labels: &[(&str, &str)]) -> VolumeView {
    volume(|volume| volume["metadata"]["labels"] = object(labels))
}

fn object(entries: &[(&str, &str)]) -> Value {
    entries
        .iter()
        .map(|(k, v)| ((*k).to_owned(), Value::from(*v)))
        .collect()
}

fn topology(labels: &[(&str, &str)]) -> VolumeTopology {
    let labels = labels.iter();
    let answer = RawTopology {
        labels: labels.map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        ..RawTopology::default()
    };
    answer.check().unwrap()
}

fn write(volume: &VolumeView, topology: &VolumeTopology, stage: Stage) -> VolumePatch {
    plan(volume, topology, &served(), stage).unwrap()
}

fn with_terms(terms: &[NodeTerm]) -> VolumeView {
    let required = json!({"required": {"nodeSelectorTerms": terms}});
    volume(|volume| volume["spec"]["nodeAffinity"] = required)
}

#[test]
fn a_volume_is_asked_about_only_if_something_can_follow() {
    type Change = fn(&mut Value);
    let table: [(Change, Option<&str>); 14] = [
        (|_| (), None),
        (|v| v["spec"] = json!({"cinder": {"volumeID": "c"}}), None),
        (
            |v| v["spec"] = json!({"azureDisk": {"diskName": "d"}}),
            Some("not served"),
        ),
        (
            |v| v["spec"]["csi"]["driver"] = "other.example".into(),
            Some("not served"),
        ),
        (|v| v["spec"] = json!({"nfs": {}}), Some("not served")),
        (
            |v| v["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
            Some("being deleted"),
        ),
        (
            |v| v["metadata"]["annotations"] = json!({"outrigger.dev/paused": "true"}),
            Some("paused"),
        ),
        // P-23.
        (
            |v| v["spec"]["csi"]["volumeHandle"] = "placeholder-for-provisioning".into(),
            Some("not made yet"),
        ),
        // As long as the contract allows.
        (
            |v| v["spec"]["csi"]["volumeHandle"] = "h".repeat(1024).into(),
            None,
        ),
        (
            |v| v["spec"]["csi"]["volumeAttributes"] = json!({"k": "v".repeat((16 << 10) - 1)}),
            None,
        ),
        (
            |v| v["spec"]["csi"]["volumeHandle"] = "h".repeat(1025).into(),
            Some("source too long"),
        ),
        (
            |v| v["spec"]["csi"]["volumeAttributes"] = json!({"k": "v".repeat(16 << 10)}),
            Some("source too long"),
        ),
        (
            |v| {
                v["metadata"]["annotations"] = json!({"pv.kubernetes.io/provisioned-by": "x"});
                let term = json!({"matchExpressions": [{"key": "k", "operator": "Exists"}]});
                v["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [term]}});
            },
            Some("provisioned"),
        ),
        // The mark of another source: a copied manifest.
        (
            |v| v["metadata"]["annotations"] = json!({ANNOTATION_LABELLED: "example/0"}),
            None,
        ),
    ];
    for (change, left) in table {
        let volume = volume(change);
        assert_eq!(
            left_alone(&volume, &served(), Stage::Existing),
            left,
            "{volume:?}"
        );
    }
}

/// In whatever part of it the size is: the webhook reads what any client of its port sends.
#[test]
fn a_volume_whose_affinity_is_too_large_is_not_asked_about() {
    let none = within("", &[]);
    let by_fields = NodeTerm {
        match_fields: vec![none.clone(); 2_000],
        ..NodeTerm::default()
    };
    let long = "n".repeat(32 << 10);
    let table = [
        (
            vec![all_of(vec![within("host", &["node-1.example"]); 500])],
            None,
        ),
        (vec![all_of(vec![none; 2_000])], Some("affinity too large")),
        (vec![by_fields], Some("affinity too large")),
        (vec![NodeTerm::default(); 2_000], Some("affinity too large")),
        (
            vec![all_of([within("", &[""; 5_000])])],
            Some("affinity too large"),
        ),
        (
            vec![all_of([within(&long, &[&long])])],
            Some("affinity too large"),
        ),
    ];
    for (at, (terms, left)) in table.iter().enumerate() {
        for stage in [Stage::Admission, Stage::Existing] {
            let why = left_alone(&with_terms(terms), &served(), stage);
            assert_eq!(why, *left, "{at} {stage:?}");
        }
    }
}

/// Labels are set where they are absent; a label of the volume's own that says otherwise refuses it.
#[test]
fn a_label_of_the_volume_is_never_overwritten() {
    let answer = topology(&[(ZONE, "a__b"), (REGION, "r")]);
    let table: [(Texts<'_>, Result<&[&str], &str>); 7] = [
        (&[], Ok(&[REGION, ZONE])),
        (&[("x", "y")], Ok(&[REGION, ZONE])),
        (&[(ZONE, "b__a")], Ok(&[REGION])),
        (&[(ZONE_BETA, "a__b")], Ok(&[REGION, ZONE])),
        (&[(ZONE, "a")], Err(ZONE)),
        (&[(REGION_BETA, "s")], Err(REGION_BETA)),
        (&[(ZONE, "a__b"), (ZONE_BETA, "c")], Err(ZONE_BETA)),
    ];
    for (labels, expected) in table {
        let decision = plan(&labelled(labels), &answer, &served(), Stage::Admission);
        match (decision, expected) {
            (Ok(patch), Ok(keys)) => {
                let written: Vec<_> = patch.labels.iter().map(|(key, _)| &**key).collect();
                assert_eq!(written, keys, "{labels:?}");
            }
            (Err(problem), Err(key)) => {
                let text = problem.to_string();
                assert!(text.starts_with(&format!("label {key} is ")), "{text}");
            }
            (decision, _) => panic!("{labels:?}: {decision:?}"),
        }
    }
}

/// P-31.
#[test]
fn affinity_is_added_to_every_term_or_not_at_all() {
    let answer = topology(&[(ZONE, "a")]);
    let zone = within(ZONE, &["a"]);
    let [host, tier] = [within("host", &["n"]), within("tier", &["x"])];
    let table: [(&[NodeTerm], Option<Vec<NodeTerm>>); 5] = [
        (&[], Some(vec![all_of([zone.clone()])])),
        (
            &[all_of([host.clone()]), all_of([tier.clone()])],
            Some(vec![
                all_of([host.clone(), zone.clone()]),
                all_of([tier.clone(), zone.clone()]),
            ]),
        ),
        (
            &[all_of([host.clone()]), all_of([within(ZONE, &["b"])])],
            None,
        ),
        (&[all_of([within(ZONE_BETA, &["a"])])], None),
        (&[NodeTerm::default()], Some(vec![all_of([zone])])),
    ];
    for (own, expected) in table {
        let patch = write(&with_terms(own), &answer, Stage::Admission);
        assert_eq!(patch.node_terms.map(Vec::from), expected, "{own:?}");
        assert_eq!(patch.labels.len(), 1, "labels are set all the same");
    }
}

#[test]
fn a_choice_of_terms_goes_with_every_term_of_the_volume() {
    let term = |zone: &str| vec![(ZONE.to_owned(), vec![zone.to_owned()])];
    let answer = RawTopology {
        node_terms: vec![term("a"), term("b")],
        ..RawTopology::default()
    };
    let host = within("host", &["n"]);
    let patch = write(
        &with_terms(&[all_of([host.clone()])]),
        &answer.check().unwrap(),
        Stage::Admission,
    );
    let both = [
        all_of([host.clone(), within(ZONE, &["a"])]),
        all_of([host, within(ZONE, &["b"])]),
    ];
    assert_eq!(patch.node_terms.as_deref(), Some(&both[..]));
}

/// The API server lets no client change the affinity of a volume that has one.
#[test]
fn affinity_of_a_volume_that_exists_is_reported_as_missing() {
    let answer = topology(&[(ZONE, "a")]);
    let own = with_terms(&[all_of([within("host", &["n"])])]);
    let patch = write(&own, &answer, Stage::Existing);
    assert_eq!((patch.node_terms, patch.labels.len()), (None, 1));
    assert_eq!(patch.missing.as_deref(), Some(&*answer.node_terms));
    let none = labelled(&[]);
    let first = write(&none, &answer, Stage::Existing);
    assert_eq!(first.node_terms.as_deref(), Some(&*answer.node_terms));
}

/// P-32, not Q-27.
#[test]
fn an_empty_answer_changes_nothing_but_the_mark() {
    let volume = labelled(&[("x", "y")]);
    let patch = write(&volume, &VolumeTopology::default(), Stage::Existing);
    assert!(patch.labels.is_empty() && patch.node_terms.is_none());
    let after = patch.applied_to(&volume, "2");
    let again = left_alone(&after, &served(), Stage::Existing);
    assert_eq!(again, Some("labelled"));
    // In a new volume it is copied from another manifest.
    assert_eq!(left_alone(&after, &served(), Stage::Admission), None);
    // Another provider, or another source, has not labelled it.
    let other = ServedVolumes {
        provider: "other".into(),
        ..served()
    };
    assert_eq!(left_alone(&after, &other, Stage::Existing), None);
}

/// Computed by hand from the lengths and texts.
#[test]
fn the_mark_never_changes() {
    let patch = write(&labelled(&[]), &VolumeTopology::default(), Stage::Existing);
    let mark = patch.labelled.unwrap();
    assert_eq!(&*mark, "example/52dd15d03ff34008eac4bbd63c6affc7");
}

fn any_labels() -> impl Strategy<Value = Vec<(String, String)>> {
    let key = prop::sample::select(vec![ZONE, ZONE_BETA, REGION, REGION_BETA, "example.com/x"]);
    let value = prop::sample::select(vec!["a", "b", "a__b", "b__a"]);
    prop::collection::vec(
        (key.prop_map(String::from), value.prop_map(String::from)),
        0..4,
    )
}

fn any_terms() -> impl Strategy<Value = Vec<NodeTerm>> {
    let key = prop::sample::select(vec![ZONE, ZONE_BETA, "host", "tier"]);
    let term = prop::collection::vec(key.prop_map(|key| within(key, &["a"])), 0..3);
    prop::collection::vec(term.prop_map(all_of), 0..3)
}

proptest! {
    /// Whatever a volume has and the provider answers: own labels and terms stay, and once the plan is
    /// written nothing more is to be done.
    #[test]
    fn a_plan_only_adds_and_is_carried_out_once(
        own in any_labels(),
        terms in any_terms(),
        answer in any_labels(),
        exists in any::<bool>(),
    ) {
        let mut volume = with_terms(&terms);
        volume.labels = own.into_iter().collect();
        let answer = RawTopology { labels: answer.into_iter().collect(), ..RawTopology::default() };
        let answer = answer.check().unwrap();
        let stage = if exists { Stage::Existing } else { Stage::Admission };
        let Ok(patch) = plan(&volume, &answer, &served(), stage) else {
            return Ok(());
        };
        let after = patch.applied_to(&volume, "2");
        for (key, value) in volume.labels.iter() {
            prop_assert_eq!(after.labels.get(key), Some(value));
        }
        for (key, _) in answer.labels.iter() {
            prop_assert!(after.labels.contains_key(key));
        }
        for own in &volume.node_terms {
            let stays = |term: &NodeTerm| term.match_expressions.starts_with(&own.match_expressions);
            prop_assert!(after.node_terms.iter().any(stays));
        }
        if exists && !terms.is_empty() {
            prop_assert_eq!(&after.node_terms, &volume.node_terms);
        }
        if let Some(missing) = patch.missing {
            prop_assert!(exists && !terms.is_empty() && *missing == *answer.node_terms);
        }
        prop_assert_eq!(left_alone(&after, &served(), Stage::Existing), Some("labelled"));
    }
}
