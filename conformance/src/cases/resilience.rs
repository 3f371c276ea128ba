//! Broken connections, deadlines, restarts, and nothing left behind.

mod hanging;
mod load_balancers;
mod process;

use std::time::Duration;

use outrigger_api::v1::{
    BatchGetInstancesRequest, GetStatusRequest, ListInstancesRequest, ListLoadBalancersRequest,
    Node,
};

use crate::{
    case::{Capability, Case, must},
    client::{CallError, Client},
    proxy::{Fault, Proxy},
    subject::{NAMESPACE, Subject},
    verdict::{Verdict, expect, failed},
};

const FILE: &str = "common.proto";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        must("RES-02", "a deadline of 1 ms leaves the provider healthy")
            .of(Capability::Instances)
            .clause(FILE, "", "After cancel, deadline or loss of the connection a provider starts no further cloud change for that call, lets a running one end, and leaves a state from which the next call converges")
            .check(|subject| Box::pin(short_deadline(subject))),
        must("RES-11", "a connection that is cut in a call leaves the provider healthy")
            .of(Capability::Instances)
            .clause(FILE, "", "leaves a state from which the next call converges")
            .check(|subject| Box::pin(cut(subject))),
        must("RES-12", "a lookup whose reply was lost is answered when it is sent again")
            .of(Capability::Instances)
            .clause(FILE, "", "a provider MUST survive a duplicate all the same: a lost reply, a restarted controller,")
            .check(|subject| Box::pin(lost_reply(subject))),
        must("RES-13", "replies that arrive late are replies")
            .of(Capability::Instances)
            .clause("provider.proto", "GetStatus", "Cheap status and the heartbeat of the connection")
            .check(|subject| Box::pin(late_replies(subject))),
        must("RES-20", "a list whose reader goes away leaves the provider healthy")
            .of(Capability::InstancesList)
            .clause(FILE, "", "leaves a state from which the next call converges")
            .check(|subject| Box::pin(abandoned_list(subject))),
    ];
    cases.extend(hanging::cases());
    cases.extend(process::cases());
    cases.extend(load_balancers::cases());
    cases
}

/// The last case of all.
pub(super) fn of_the_run() -> Vec<Case> {
    vec![
        must("RES-09", "nothing that the run made is left in the cloud")
            .of(Capability::LoadBalancers)
            .mutates()
            .clause(
                "load_balancers.proto",
                "DeleteLoadBalancer",
                "Removes the load balancer and every part of it.",
            )
            .check(|subject| Box::pin(nothing_left(subject))),
    ]
}

async fn look_up(subject: &Subject, client: &Client) -> Result<(), CallError> {
    let request = BatchGetInstancesRequest {
        context: subject.context(),
        nodes: vec![Node {
            name: subject.name(),
            uid: "u".to_owned(),
            ..Node::default()
        }],
        ..BatchGetInstancesRequest::default()
    };
    client.batch_get_instances(request).await.map(drop)
}

async fn is_healthy(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    client.get_status(GetStatusRequest {}).await?;
    look_up(subject, &client).await?;
    Ok(())
}

fn proxied(subject: &Subject) -> Verdict<Proxy> {
    let started = Proxy::start(subject.endpoint());
    started.map_err(|error| failed("the suite's proxy starts", error))
}

async fn short_deadline(subject: &Subject) -> Verdict {
    let client = subject
        .connect()
        .await?
        .with_deadline(Duration::from_millis(1));
    for _ in 0..10 {
        // In time or not: both are answers.
        let _ = look_up(subject, &client).await;
    }
    is_healthy(subject).await
}

async fn cut(subject: &Subject) -> Verdict {
    for wait in [0, 1, 5, 20] {
        let proxy = proxied(subject)?;
        let client = subject.connect_to(&proxy.socket()).await?;
        proxy.set(Fault::Cut(Duration::from_millis(wait)));
        // It may have ended before.
        let _ = look_up(subject, &client).await;
    }
    is_healthy(subject).await
}

async fn lost_reply(subject: &Subject) -> Verdict {
    let proxy = proxied(subject)?;
    let client = subject.connect_to(&proxy.socket()).await?;
    proxy.set(Fault::DropReply);
    let (lost, ()) = tokio::join!(look_up(subject, &client), proxy.dropped());
    expect(lost.is_err(), "the proxy drops the reply", "it came")?;
    is_healthy(subject).await
}

async fn late_replies(subject: &Subject) -> Verdict {
    let proxy = proxied(subject)?;
    let client = subject.connect_to(&proxy.socket()).await?;
    proxy.set(Fault::Delay(Duration::from_millis(300)));
    look_up(subject, &client).await?;
    proxy.set(Fault::None);
    client.get_status(GetStatusRequest {}).await?;
    Ok(())
}

async fn nothing_left(subject: &Subject) -> Verdict {
    // Once more: a Delete that failed after its case may work by now.
    subject.clean_up().await?;
    if !subject.load_balancers().list {
        return Ok(());
    }
    let client = subject.connect().await?;
    let request = ListLoadBalancersRequest {
        context: subject.context(),
    };
    let listed = client.list_load_balancers(request).await?;
    let tags = listed.entries.iter().filter_map(|one| one.service.as_ref());
    let ours = tags.filter(|tag| tag.namespace == NAMESPACE && subject.is_of_this_run(&tag.name));
    let ours: Vec<_> = ours.map(|tag| &tag.name).collect();
    expect(
        ours.is_empty(),
        "the list has no load balancer of this run",
        format!("{ours:?}"),
    )
}

async fn abandoned_list(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    for wait in [0, 1, 5] {
        let request = ListInstancesRequest {
            context: subject.context(),
            ..ListInstancesRequest::default()
        };
        let listed = client.list_instances(request);
        // It may have ended before.
        let _ = tokio::time::timeout(Duration::from_millis(wait), listed).await;
    }
    is_healthy(subject).await
}
