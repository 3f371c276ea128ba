//! Reports of load balancers without changes: lists and plans.

use outrigger_api::v1;
use outrigger_core::error_class::ErrorClass;

use super::{
    fake::{Reply, Step},
    rig::{Rig, service, targets},
};
use crate::{OwnedLoadBalancer, Owner, PlanOperation, PlannedChange};

fn owned(names: &[&str], complete: bool) -> Step<v1::ListLoadBalancersResponse> {
    let owned = |name: &&str| v1::OwnedLoadBalancer {
        identity: Some(v1::LoadBalancerIdentity {
            id: format!("lb-{name}"),
            name: format!("{name}\n"),
        }),
        service: (*name != "tagless").then(|| v1::ServiceRef {
            namespace: "shop".into(),
            name: (*name).into(),
            uid: format!("uid-{name}"),
        }),
        status: None,
    };
    Step::Say(v1::ListLoadBalancersResponse {
        items: names.iter().map(owned).collect(),
        complete,
    })
}

#[tokio::test(start_paused = true)]
async fn load_balancers_are_listed_with_their_services() {
    let rig = Rig::balancing(|_| {}).await;
    let list = async |steps| {
        rig.fake.balancers.on_list(steps);
        rig.provider.load_balancers().list().await
    };
    let listed = list(vec![owned(&["web"], false), owned(&["tagless"], true)]).await;
    assert_eq!(
        listed.unwrap(),
        [
            OwnedLoadBalancer {
                id: "lb-web".into(),
                name: "web\\n".into(),
                service: Some(Owner {
                    namespace: "shop".into(),
                    name: "web".into(),
                    uid: "uid-web".into(),
                }),
            },
            OwnedLoadBalancer {
                id: "lb-tagless".into(),
                name: "tagless\\n".into(),
                service: None,
            },
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_plan_has_texts_fit_for_a_terminal() {
    let rig = Rig::balancing(|_| {}).await;
    rig.fake.balancers.plan.on(|_| {
        let change = |action: v1::ChangeAction| v1::PlannedChange {
            action: action.into(),
            resource_type: "target-group".into(),
            resource_id: "tg\u{1b}[2J".into(),
            summary: "x".repeat(5000),
        };
        Reply::Say(v1::PlanLoadBalancerResponse {
            changes: vec![
                change(v1::ChangeAction::Unspecified),
                change(v1::ChangeAction::Replace),
            ],
        })
    });
    let (web, all) = (service("web"), targets(["a"]));
    let provider = &rig.provider;
    let plan = provider
        .load_balancers()
        .plan(PlanOperation::Ensure, &web, &all);
    let change = |action| PlannedChange {
        action,
        resource_type: "target-group".into(),
        resource_id: "tg\\u{1b}[2J".into(),
        summary: "x".repeat(1024).into(),
    };
    let expected = [change("change"), change("replace")];
    assert_eq!(plan.await.unwrap(), expected);
    let plan = provider
        .load_balancers()
        .plan(PlanOperation::Delete, &web, &all);
    plan.await.unwrap();
    let calls: Vec<_> = rig.fake.balancers.plan.calls();
    let calls: Vec<_> = calls
        .iter()
        .map(|(_, r)| (r.operation(), r.targets.is_some()))
        .collect();
    assert_eq!(
        calls,
        [
            (v1::PlanOperation::Ensure, true),
            (v1::PlanOperation::Delete, false)
        ]
    );
    rig.fake.balancers.plan.on(|_| {
        Reply::Say(v1::PlanLoadBalancerResponse {
            changes: vec![v1::PlannedChange::default(); 1001],
        })
    });
    let plan = provider
        .load_balancers()
        .plan(PlanOperation::Ensure, &web, &all);
    assert_eq!(plan.await.unwrap_err().class(), ErrorClass::Malformed);
}
