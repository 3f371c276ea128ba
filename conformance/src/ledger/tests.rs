use outrigger_api::{
    RpcStatus,
    v1::{Instance, InstanceResult, instance_result},
};
use prost::Message as _;

use super::*;

#[test]
fn a_secret_is_found_in_any_text_of_an_answer_and_not_kept() {
    let ledger = Ledger::new(&["hush".to_owned(), String::new()]);
    let answer = |text: &str| {
        let outcome = instance_result::Outcome::Found(Instance {
            zone: text.to_owned(),
            ..Instance::default()
        });
        InstanceResult::new("node".to_owned(), outcome).encode_to_vec()
    };
    ledger.search("Quiet", || answer("zone-hus-h"));
    assert!(ledger.observations().with_secrets.is_empty());
    ledger.search("Lookup", || answer("zone-hush-1"));
    assert_eq!(
        ledger.observations().with_secrets,
        BTreeSet::from(["Lookup"])
    );
}

#[test]
fn results_of_batches_leave_errors_effects_and_answers() {
    let ledger = Ledger::new(&[]);
    let failed = RpcStatus {
        code: 13,
        ..RpcStatus::default()
    };
    let effects = Some(KubernetesEffects::default());
    let of_node = InstanceResult {
        effects: effects.clone(),
        ..InstanceResult::new("node".to_owned(), instance_result::Outcome::Error(failed))
    };
    ledger.see_result("Lookup", &of_node);
    let answer = Some(LoadBalancerAnswer {
        effects,
        ..LoadBalancerAnswer::default()
    });
    ledger.see("Update", &UpdateLoadBalancerNodesResponse { answer });
    let observations = ledger.observations();
    let errors: Vec<_> = observations
        .errors
        .iter()
        .map(|one| (one.rpc, one.of_item))
        .collect();
    assert_eq!(errors, [("Lookup", true)]);
    let answers: Vec<_> = observations.answers.iter().map(|(rpc, _)| *rpc).collect();
    assert_eq!(answers, ["Update"]);
    assert_eq!(
        (
            observations.node_effects.len(),
            observations.service_effects.len()
        ),
        (1, 1)
    );
}
