//! The targets of load balancers: `UpdateLoadBalancerNodes`, and Ensure without any.

use outrigger_api::v1::{
    LoadBalancerAnswer, LoadBalancerDisposition as Disposition, Node, Service,
};

use crate::{
    call_error::CallError,
    case::{Check, check},
    subject::{Subject, describe, expect_one_of},
    verdict::{Verdict, expect},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("LBS-15", updates),
        check("LBS-17", makes_none),
        check("LBS-34", nothing_else),
    ]
}

async fn update(
    subject: &Subject,
    service: &Service,
    nodes: &[Node],
) -> Verdict<Result<LoadBalancerAnswer, CallError>> {
    let targets = subject.targets(nodes).await?;
    Ok(subject.update(service, targets).await)
}

/// Updates until READY, as the controller does.
async fn update_until_ready(subject: &Subject, service: &Service, nodes: &[Node]) -> Verdict {
    let within = crate::inputs::limit(subject.inputs().limits.ready);
    let look = async || {
        let answer = update(subject, service, nodes).await??;
        let is_ready = answer.disposition() == Disposition::Ready;
        expect(is_ready, "READY", describe(&answer))
    };
    subject
        .wait_for("UpdateLoadBalancerNodes is READY", within, look)
        .await
}

/// Holds Get with these targets against READY.
async fn has(subject: &Subject, service: &Service, nodes: &[Node]) -> Verdict {
    let targets = subject.targets(nodes).await?;
    let answer = subject.get(service, targets).await?;
    let names: Vec<_> = nodes.iter().map(|node| &node.name).collect();
    let expected = format!("GetLoadBalancer with the targets {names:?} is READY");
    expect_one_of(&[Disposition::Ready], &answer, expected)
}

async fn updates(subject: &Subject) -> Verdict {
    let service = subject.service();
    let all = subject.target_nodes();
    let (first, rest) = all.split_at(1);
    subject.ensure(&service, &[]).await?;
    has(subject, &service, &[]).await?;
    for nodes in [first, &all[..], rest, &[], first] {
        update_until_ready(subject, &service, nodes).await?;
        has(subject, &service, nodes).await?;
    }
    Ok(())
}

async fn makes_none(subject: &Subject) -> Verdict {
    let service = subject.service();
    let outcome = update(subject, &service, &subject.target_nodes()).await?;
    if let Ok(answer) = &outcome {
        expect_one_of(&[Disposition::Absent], answer, "ABSENT, or an error")?;
    }
    subject.get_is(&service, Disposition::Absent).await
}

async fn nothing_else(subject: &Subject) -> Verdict {
    let (service, before) = subject.balanced().await?;
    update_until_ready(subject, &service, &[]).await?;
    let after = subject.get(&service, None).await?;
    expect(
        after.disposition() == Disposition::Ready
            && (after.status.is_none() || after.status == before.status),
        describe(&before),
        describe(&after),
    )
}
