//! Mistakes about the node set.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_api::v1::{
    EnsureLoadBalancerRequest, ErrorReason, GetLoadBalancerRequest, InlineNodes, NodeTargets,
    SyncNodeSetRequest, SyncNodeSetResponse, node_targets::Targets,
};
use parking_lot::Mutex;

use super::cancelled::to_the_end;
use super::upload::Upload;
use super::{Defect, kept, reason, refusal};
use crate::exchange::Answer;

/// Serves another upload than the one that came.
fn uploads(name: &'static str, change: fn(&mut Upload)) -> Defect {
    Defect::new(name).call::<SyncNodeSetRequest, _>(move |call, next| {
        let mut upload = Upload::of(&call);
        change(&mut upload);
        next.serve(upload.of_call(call))
    })
}

/// Answers some uploads without the correct provider.
fn answers(name: &'static str, answer: fn(&Upload) -> Option<Answer>) -> Defect {
    Defect::new(name).call::<SyncNodeSetRequest, _>(move |call, next| async move {
        match answer(&Upload::of(&call)) {
            Some(answer) => answer,
            None => next.serve(call).await,
        }
    })
}

/// Ensures and compares with other targets than the ones that came.
fn targets(name: &'static str, change: fn(&mut Targets)) -> Defect {
    let change = move |targets: &mut Option<NodeTargets>| {
        let targets = targets
            .as_mut()
            .and_then(|targets| targets.targets.as_mut());
        if let Some(targets) = targets {
            change(targets);
        }
    };
    Defect::new(name)
        .request(move |request: &mut EnsureLoadBalancerRequest| change(&mut request.targets))
        .request(move |request: &mut GetLoadBalancerRequest| change(&mut request.targets))
}

fn invalid(text: &str) -> Answer {
    Answer::failed(refusal(ErrorReason::InvalidRequest, text))
}

pub(super) fn defects() -> Vec<Defect> {
    vec![
        answers("few-messages", |upload| {
            (upload.0.len() > 32).then(|| invalid("too many messages"))
        }),
        targets("only-is-ignored", |targets| {
            if let Targets::Ref(named) = targets {
                named.only = None;
            }
        }),
        targets("none-is-all", |targets| {
            if let Targets::Ref(named) = targets {
                named.only = named.only.take().filter(|only| !only.names.is_empty());
            }
        }),
        half_close_commits(),
        unknown_is_empty(),
        latest_only(),
        Defect::new("slow-upload").call::<SyncNodeSetRequest, _>(|call, next| async move {
            if Upload::of(&call).count() > 1_000 {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            next.serve(call).await
        }),
        held_is_no_change(),
        answers("empty-set-is-refused", |upload| {
            let is_empty = upload.is_complete() && upload.count() == 0;
            is_empty.then(|| invalid("the set has no nodes"))
        }),
        Defect::new("revision-of-its-own").answer::<SyncNodeSetRequest>(|_, answer| {
            "1".clone_into(&mut answer.revision);
        }),
        unknown_name_is_left_out(),
        uploads("node-count-unchecked", |upload| {
            let count = upload.count() as u32;
            if let Some(last) = upload.0.last_mut() {
                last.node_count = count;
            }
        }),
        uploads("any-revision", |upload| {
            if let Some(last) = upload.0.last_mut().filter(|last| last.complete)
                && last.revision.is_empty()
            {
                "none".clone_into(&mut last.revision);
            }
        }),
        uploads("last-name-wins", |upload| {
            let mut nodes = BTreeMap::new();
            let all = upload.count();
            for message in &mut upload.0 {
                let some = std::mem::take(&mut message.nodes);
                nodes.extend(some.into_iter().map(|node| (node.name.clone(), node)));
            }
            let lost = (all - nodes.len()) as u32;
            if let Some(last) = upload.0.last_mut() {
                last.nodes = nodes.into_values().collect();
                last.node_count = last.node_count.saturating_sub(lost);
            }
        }),
        answers("no-messages-are-no-change", |upload| {
            let answer = || Answer::ok(&SyncNodeSetResponse::default());
            upload.0.is_empty().then(answer)
        }),
    ]
}

fn half_close_commits() -> Defect {
    Defect::new("half-close-commits").call::<SyncNodeSetRequest, _>(|call, next| async move {
        let mut upload = Upload::of(&call);
        let count = upload.count() as u32;
        if let Some(last) = upload.0.last_mut().filter(|last| !last.complete) {
            last.complete = true;
            last.node_count = count;
            if last.revision.is_empty() {
                "cut".clone_into(&mut last.revision);
            }
        }
        to_the_end(next.serve(upload.of_call(call))).await
    })
}

fn unknown_is_empty() -> Defect {
    Defect::new("unknown-revision-is-empty").call::<EnsureLoadBalancerRequest, _>(
        |call, next| async move {
            let mut request: EnsureLoadBalancerRequest = call.message();
            let answer = next.correct(call.clone()).await;
            if reason(&answer) != Some(ErrorReason::NodeSetUnknown) {
                return answer;
            }
            request.targets = Some(NodeTargets {
                targets: Some(Targets::Inline(InlineNodes::default())),
            });
            next.serve(call.with(&request)).await
        },
    )
}

/// Remembers which revisions are held, and refuses calls that name others than the latest.
fn latest_only() -> Defect {
    let latest: &Mutex<String> = kept(Mutex::default());
    Defect::new("latest-revision-only")
        .call::<SyncNodeSetRequest, _>(move |call, next| async move {
            let revision = Upload::of(&call).revision().to_owned();
            let answer = next.serve(call).await;
            if answer.error().is_none() {
                *latest.lock() = revision;
            }
            answer
        })
        .call::<GetLoadBalancerRequest, _>(move |call, next| async move {
            let request: GetLoadBalancerRequest = call.message();
            let targets = request.targets.and_then(|targets| targets.targets);
            if let Some(Targets::Ref(named)) = targets
                && named.revision != *latest.lock()
            {
                let text = "the revision is not held";
                return Answer::failed(refusal(ErrorReason::NodeSetUnknown, text));
            }
            next.serve(call).await
        })
}

fn held_is_no_change() -> Defect {
    let synced: &Mutex<Vec<String>> = kept(Mutex::default());
    Defect::new("held-is-no-change").call::<SyncNodeSetRequest, _>(move |call, next| async move {
        let upload = Upload::of(&call);
        let revision = upload.revision().to_owned();
        if upload.is_complete()
            && synced
                .lock()
                .iter()
                .rev()
                .take(2)
                .any(|one| *one == revision)
        {
            return Answer::ok(&SyncNodeSetResponse { revision });
        }
        let answer = next.serve(call).await;
        if answer.error().is_none() {
            synced.lock().push(revision);
        }
        answer
    })
}

fn unknown_name_is_left_out() -> Defect {
    Defect::new("unknown-name-is-left-out").call::<GetLoadBalancerRequest, _>(
        |call, next| async move {
            let mut request: GetLoadBalancerRequest = call.message();
            let answer = next.correct(call.clone()).await;
            if reason(&answer) != Some(ErrorReason::NodeSetUnknown) {
                return answer;
            }
            if let Some(Targets::Ref(named)) = request
                .targets
                .as_mut()
                .and_then(|targets| targets.targets.as_mut())
            {
                named.only = None;
            }
            next.serve(call.with(&request)).await
        },
    )
}
