//! Decisions as data: the same after a recording, and told by their rules.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    fixture::{
        addresses, any_service, capability, full_service, load_balancer, registered, taints,
    },
    node::{
        NetworkUnavailable, NodeAddress, Ready, TAINT_UNINITIALIZED, instance::PowerState,
        lifecycle::Idle,
    },
    service::plan::BalancerCall,
};

/// Panics unless `decision`, written and read again, is decided as `outcome`.
pub(crate) fn assert_again(decision: &RecordedDecision<'_>, outcome: &DecisionOutcome<'_>) {
    let text = serde_json::to_string(decision).unwrap();
    let read: RecordedDecision<'_> = serde_json::from_str(&text).unwrap();
    let recorded: Value = serde_json::to_value(outcome).unwrap();
    let again = serde_json::to_value(read.decide()).unwrap();
    assert_eq!(again, recorded, "{text}");
}

fn instance() -> Instance {
    Instance {
        provider_id: "mock://1".into(),
        zone: "zone-a".into(),
        addresses: addresses("InternalIP=10.0.0.5"),
        power_state: PowerState::Running,
        ..Instance::default()
    }
}

/// The reason on the Node, its instance and a provider without declarations, after a recording.
fn initialized(node: &NodeView, instance: &Instance) -> DecisionReason {
    let policy = Policy::default();
    let planned = initialize::plan(node, instance, &policy);
    let decision = RecordedDecision::Initialize {
        node: Cow::Borrowed(node),
        instance: Cow::Borrowed(instance),
        policy: Cow::Borrowed(&policy),
    };
    let outcome = DecisionOutcome::Initialize((&planned).into());
    assert_again(&decision, &outcome);
    DecisionReason::of(&decision, &outcome)
}

#[test]
fn an_initialisation_is_told_by_its_rule() {
    let node = registered("a");
    let reason = initialized(&node, &instance());
    assert_eq!(reason.rule, "initialize");
    let taint =
        format!("removes the taint {TAINT_UNINITIALIZED}; sets the provider ID mock://1; labels ");
    assert!(reason.text.starts_with(&taint), "{reason:?}");
    assert!(
        reason.text.contains("topology.kubernetes.io/zone=zone-a"),
        "{reason:?}"
    );

    let without_id = Instance {
        provider_id: "".into(),
        ..instance()
    };
    let reason = initialized(&node, &without_id);
    assert_eq!(reason.rule, "no_provider_id");
    assert!(
        reason.text.contains("does not set node provider ID"),
        "{reason:?}"
    );

    let settled = NodeView {
        taints: taints(""),
        ..registered("a")
    };
    assert_eq!(initialized(&settled, &instance()).rule, "in_sync");
}

#[test]
fn a_refresh_names_what_it_writes() {
    let policy = Policy::default();
    let node = NodeView {
        taints: taints(""),
        provider_id: "mock://1".into(),
        ..registered("a")
    };
    let rule = |instance: &Instance| {
        let plan = refresh::plan(&node, instance, &policy);
        let decision = RecordedDecision::Refresh {
            node: Cow::Borrowed(&node),
            instance: Cow::Borrowed(instance),
            policy: Cow::Borrowed(&policy),
        };
        let outcome = DecisionOutcome::Refresh(Cow::Borrowed(&plan));
        assert_again(&decision, &outcome);
        DecisionReason::of(&decision, &outcome)
    };
    let reason = rule(&instance());
    assert!(reason.rule == "in_sync" && reason.is_in_sync());
    let moved = Instance {
        addresses: addresses("InternalIP=10.0.0.6"),
        ..instance()
    };
    let reason = rule(&moved);
    assert!(reason.rule == "refresh" && !reason.is_in_sync());
    assert!(reason.text.contains("InternalIP=10.0.0.6"), "{reason:?}");
}

/// All of a view that a decision looks at, also what another client has written over.
#[test]
fn a_node_is_the_same_after_a_recording() {
    let full = NodeView {
        ready: Ready::False,
        ready_since: "2026-01-02T03:04:05Z".parse().ok(),
        deleted: "2026-01-02T03:04:06Z".parse().ok(),
        created: "2026-01-01T00:00:00Z".parse().unwrap(),
        pod_cidrs: ["10.1.0.0/24".into()].into(),
        unschedulable: true,
        reported: Some(
            [NodeAddress {
                kind: "InternalIP".into(),
                address: "6.6.6.6".into(),
            }]
            .into(),
        ),
        network_unavailable: Some(Box::new(NetworkUnavailable {
            status: None,
            reason: "R".into(),
            message: "m".into(),
            since: None,
        })),
        system_uuid: "u-u".into(),
        ..registered("a")
    };
    let since = NodeView {
        ready_since: full.ready_since,
        ..registered("b")
    };
    let far = NodeView {
        ready_since: Some(Timestamp::MAX),
        ready: Ready::True,
        ..registered("c")
    };
    let timeless = NodeView {
        ready: Ready::False,
        ready_since: None,
        ..registered("d")
    };
    for node in [registered("a"), full, since, far, timeless] {
        let text = serde_json::to_string(&node).unwrap();
        assert_eq!(
            serde_json::from_str::<NodeView>(&text).unwrap(),
            node,
            "{text}"
        );
    }
}

#[test]
fn all_fields_of_a_service_are_the_same_after_a_recording() {
    let service: ServiceView = serde_json::from_value(full_service()).unwrap();
    let text = serde_json::to_string(&service).unwrap();
    assert_eq!(
        serde_json::from_str::<ServiceView>(&text).unwrap(),
        service,
        "{text}"
    );
}

proptest! {
    #[test]
    fn a_service_is_the_same_after_a_recording(service in any_service()) {
        // A store has no more than the type of any other Service.
        prop_assume!(service.is_load_balancer() || service.has_finalizer());
        let text = serde_json::to_string(&service).unwrap();
        prop_assert_eq!(serde_json::from_str::<ServiceView>(&text).unwrap(), service, "{}", text);
    }
}

#[test]
fn a_service_is_told_by_its_rule() {
    let capability = capability();
    let targets = Targets::among((0..25).map(|at| registered(&format!("n{at}")).into()));
    let facts = ServiceFacts {
        capability: &capability,
        targets: &targets,
        applied: None,
        time_of_day: Timestamp::UNIX_EPOCH,
    };
    let (now, service) = (Timestamp::UNIX_EPOCH, load_balancer("web"));
    let mut progress = Progress::default();
    let step = progress.next(now, &service, &facts);
    let decision = RecordedDecision::NextStep {
        now,
        service: Cow::Borrowed(&service),
        facts: (&facts).into(),
        state: Cow::Borrowed(&progress),
    };
    let outcome = DecisionOutcome::NextStep(Cow::Borrowed(&step));
    assert_again(&decision, &outcome);
    let reason = DecisionReason::of(&decision, &outcome);
    assert_eq!(reason.rule, "new");
    assert!(reason.text.contains("finalizer add"), "{reason:?}");

    // An event names the targets, of which a recording has no more than that many.
    let failure = Failure {
        class: crate::error_class::ErrorClass::Quota,
        reason: "LimitReached".into(),
        message: "no more".into(),
        effects: crate::effects::Effects::default(),
    };
    let result = Err(Box::new(failure));
    let call = BalancerCall::Update(Cow::Borrowed(&targets));
    let before = progress.clone();
    let consequence = progress.concluded(now, &service, &call, &result, &facts);
    let decision = RecordedDecision::Conclude {
        now,
        service: Cow::Borrowed(&service),
        call,
        result: Cow::Borrowed(&result),
        facts: (&facts).into(),
        state: Cow::Owned(before),
    };
    let outcome = DecisionOutcome::Conclude(Cow::Borrowed(&consequence));
    assert_again(&decision, &outcome);
    let reason = DecisionReason::of(&decision, &outcome);
    assert_eq!((decision.name(), reason.rule), ("update", "quota"));
    assert!(
        reason.text.starts_with("LimitReached: no more"),
        "{reason:?}"
    );
}

#[test]
fn a_node_that_is_left_alone_is_told_why() {
    for (idle, rule) in [
        (Idle::Ready, "ready"),
        (Idle::BeingDeleted, "being_deleted"),
        (Idle::Paused, "paused"),
        (Idle::Foreign, "foreign"),
        (Idle::NotManaged, "not_managed"),
    ] {
        let outcome = DecisionOutcome::Check(Cow::Owned(Check::Idle(idle)));
        let decision = RecordedDecision::Addresses {
            node: Cow::Owned(registered("a")),
            instance: Cow::Owned(instance()),
        };
        assert_eq!(DecisionReason::of(&decision, &outcome).rule, rule);
    }
}

#[test]
fn a_line_with_a_field_of_another_program_is_refused() {
    let text = r#"{"addresses":{"node":{"metadata":{"name":"a"}},"instance":{},"more":1}}"#;
    assert!(serde_json::from_str::<RecordedDecision<'_>>(text).is_err());
}
