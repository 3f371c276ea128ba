//! A decision has a rule and a sentence.

use jiff::Timestamp;

use super::*;
use crate::{
    effects::Effects,
    error_class::ErrorClass,
    fixture::{addresses, capability, load_balancer, registered, taints},
    node::{TAINT_UNINITIALIZED, instance::Instance, plan::Policy},
    service::plan::BalancerCall,
    targets::Targets,
};

fn instance() -> Instance {
    Instance {
        provider_id: "mock://1".into(),
        zone: "zone-a".into(),
        addresses: addresses("InternalIP=10.0.0.5"),
        power_state: PowerState::Running,
        ..Instance::default()
    }
}

/// The reason on the Node, its instance and a provider without declarations.
fn initialized(node: &NodeView, instance: &Instance) -> DecisionReason {
    DecisionReason::of_plan(&plan::plan(node, instance, &Policy::default()))
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
}

#[test]
fn a_refresh_names_what_it_writes() {
    let node = NodeView {
        taints: taints(""),
        provider_id: "mock://1".into(),
        ..registered("a")
    };
    let rule = |instance: &Instance| initialized(&node, instance);
    let settled = Instance {
        addresses: [].into(),
        ..instance()
    };
    assert_eq!(rule(&settled).rule, "in_sync");
    let moved = Instance {
        addresses: addresses("InternalIP=10.0.0.6"),
        ..instance()
    };
    let reason = rule(&moved);
    assert_eq!(reason.rule, "refresh");
    assert!(reason.text.contains("InternalIP=10.0.0.6"), "{reason:?}");
}

#[test]
fn a_service_is_told_by_its_rule() {
    let capability = capability();
    let targets = Targets::among((0..25).map(|at| registered(&format!("n{at}")).into()));
    let facts = ServiceFacts {
        capability: &capability,
        targets: targets.revision(),
        now: Timestamp::UNIX_EPOCH,
        time_of_day: Timestamp::UNIX_EPOCH,
    };
    let service = load_balancer("web");
    let mut progress = Progress::default();
    let step = progress.next(&service, &facts);
    let reason = DecisionReason::of_step(&service, &facts, &progress, &step);
    assert_eq!(reason.rule, "write");

    let failure = Failure {
        class: ErrorClass::Quota,
        reason: "LimitReached".into(),
        message: "no more".into(),
        effects: Effects::default(),
    };
    let result = Err(Box::new(failure));
    let call = BalancerCall::Update(&targets);
    let consequence = progress.concluded(&service, &call, &result, &facts);
    let reason = DecisionReason::of_answer(&result, &consequence);
    assert_eq!((call.name(), reason.rule), ("update", "quota"));
    assert!(
        reason.text.starts_with("LimitReached: no more"),
        "{reason:?}"
    );

    let idle =
        |progress: &Progress| DecisionReason::of_step(&service, &facts, progress, &Step::Idle).rule;
    assert_eq!(idle(&progress), "settled");
    let refused = Err(Box::new(Failure {
        class: ErrorClass::Invalid,
        reason: "".into(),
        message: "".into(),
        effects: Effects::default(),
    }));
    let ensure = progress.ensure(&service, &facts).unwrap();
    let call = BalancerCall::Ensure(&ensure, &targets);
    progress.concluded(&service, &call, &refused, &facts);
    assert_eq!(idle(&progress), "refused");
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
        assert_eq!(DecisionReason::of_check(&Check::Idle(idle)).rule, rule);
    }
}
