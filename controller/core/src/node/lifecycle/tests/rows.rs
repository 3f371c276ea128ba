//! Ends of a row of absences: a deletion takes two, one after the other.

use super::*;

/// A row of two absences with something in between. Returns whether it has to begin again.
fn begins_again(between: impl FnOnce(&mut Rig, &NodeView)) -> bool {
    let mut rig = Rig::new(DeletionLimits::default());
    let node = lost("n1");
    rig.check(0, &node);
    rig.answered(1, &node, &GONE);
    between(&mut rig, &node);
    rig.check(20, &node);
    let LifecycleDecision { action, .. } = rig.answered(20, &node, &GONE);
    let LifecycleAction::Withhold(Withheld::Refused(refusal)) = action else {
        return false;
    };
    matches!(refusal, DeletionRefusal::LookAgain { .. })
}

#[test]
fn another_answer_or_a_ready_kubelet_ends_a_row_of_absences() {
    assert!(!begins_again(|_, _| {}));
    for (name, answer) in [
        ("uncertain", NOT_SEEN),
        ("found", found(&lost("n1"), PowerState::Running)),
        ("another", found(&lost("n2"), PowerState::Running)),
    ] {
        let is_ended = begins_again(|rig, node| {
            rig.answered(6, node, &answer);
        });
        assert!(is_ended, "{name}");
    }
    assert!(begins_again(|rig, node| {
        rig.check(6, &ready(node));
    }));
}
