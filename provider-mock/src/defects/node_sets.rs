//! Mistakes about node sets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::BoxFuture;
use outrigger_api::v1::{
    EnsureLoadBalancerRequest, ErrorReason, InlineNodes, Node, NodeSetBegin, NodeSetChunk,
    NodeTargets, SyncNodeSetRequest, SyncNodeSetResponse, node_targets::Targets,
};
use parking_lot::Mutex;
use tonic::Status;

use super::cancelled::to_the_end;
use super::hook::Next;
use super::upload::Upload;
use super::{Defect, kept, reason, refusal};
use crate::exchange::{Answer, Call};

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

fn applied(begin: &NodeSetBegin) -> Answer {
    Answer::ok(&SyncNodeSetResponse {
        revision: begin.revision.clone(),
    })
}

fn invalid(text: &str) -> Answer {
    Answer::failed(refusal(ErrorReason::InvalidRequest, text))
}

fn mismatch() -> Answer {
    let text = "the base revision is not held";
    Answer::failed(refusal(ErrorReason::NodeSetBaseMismatch, text))
}

pub(super) fn defects() -> Vec<Defect> {
    vec![
        answers("few-chunks", |upload| {
            (upload.chunks.len() > 32).then(|| invalid("too many chunks"))
        }),
        uploads("no-removals", |upload| {
            let mut removed = 0;
            for chunk in &mut upload.chunks {
                removed += chunk.removals.len() as u32;
                chunk.removals.clear();
            }
            upload.committed = upload.committed.map(|count| count - removed);
            if let Some(begin) = &mut upload.begin {
                begin.node_count += removed;
            }
        }),
        base_unchecked(),
        half_close_commits(),
        unknown_is_empty(),
        latest_only(),
        unknown_set_is_internal(),
        Defect::new("slow-upload").call::<SyncNodeSetRequest, _>(|call, next| async move {
            if Upload::of(&call).changes() > 1_000 {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            next.serve(call).await
        }),
        answers("no-upserts-on-the-same-revision", |upload| {
            let begin = upload.begin();
            let same = begin.base_revision == begin.revision && upload.changes() > 0;
            same.then(|| invalid("base_revision and revision are equal"))
        }),
        answers("empty-set-is-refused", |upload| {
            let begin = upload.begin();
            let empty = begin.base_revision.is_empty()
                && begin.node_count == 0
                && upload.committed.is_some();
            empty.then(|| invalid("the set has no nodes"))
        }),
        Defect::new("declares-sixteen-sets").declares(|declared| {
            declared.node_sets.get_or_insert_default().max_sets = 16;
        }),
        Defect::new("revision-of-its-own").answer::<SyncNodeSetRequest>(|_, answer| {
            "1".clone_into(&mut answer.revision);
        }),
        one_space_of_revisions(),
        uploads("node-count-unchecked", |upload| {
            let upserts = upload.chunks.iter().flat_map(|chunk| &chunk.upserts);
            let names: BTreeSet<_> = upserts.map(|node| node.name.clone()).collect();
            if let Some(begin) = &mut upload.begin
                && begin.base_revision.is_empty()
            {
                begin.node_count = names.len() as u32;
            }
        }),
        uploads("change-count-unchecked", |upload| {
            if upload.committed.is_some() {
                upload.counted();
            }
        }),
        uploads("last-name-wins", |upload| {
            let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
            let all = upload.changes() as usize;
            for chunk in &mut upload.chunks {
                let upserts = std::mem::take(&mut chunk.upserts);
                nodes.extend(upserts.into_iter().map(|node| (node.name.clone(), node)));
            }
            let upserts = nodes.into_values().collect();
            upload.chunks.push(NodeSetChunk {
                upserts,
                removals: Vec::new(),
            });
            let lost = all as u32 - upload.changes();
            upload.committed = upload.committed.map(|count| count - lost);
        }),
        removal_of_none(),
        answers("begin-is-optional", |upload| {
            let is_broken = upload.begin.is_none() && !upload.chunks.is_empty();
            is_broken.then(|| applied(&NodeSetBegin::default()))
        }),
        answers("no-parts-is-no-change", |upload| {
            let is_empty = upload.begin.is_none() && upload.chunks.is_empty();
            is_empty.then(|| applied(&NodeSetBegin::default()))
        }),
    ]
}

fn base_unchecked() -> Defect {
    Defect::new("base-unchecked").call::<SyncNodeSetRequest, _>(|call, next| async move {
        let begin = Upload::of(&call).begin();
        let answer = next.serve(call).await;
        match reason(&answer) {
            Some(ErrorReason::NodeSetBaseMismatch) => applied(&begin),
            _ => answer,
        }
    })
}

fn half_close_commits() -> Defect {
    Defect::new("half-close-commits").call::<SyncNodeSetRequest, _>(|call, next| async move {
        let mut upload = Upload::of(&call);
        if upload.begin.is_some() && upload.committed.is_none() {
            upload.counted();
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

/// Sees each upload before and after it was served; `refuse` looks at those that were applied.
fn remembering<T: Default + Send + 'static>(
    defect: Defect,
    refuse: fn(&T, &NodeSetBegin) -> Option<Answer>,
    remember: fn(&mut T, NodeSetBegin),
) -> Defect {
    let memory: &Mutex<T> = kept(Mutex::default());
    let around = move |call: Call, next: Next| -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let begin = Upload::of(&call).begin();
            let refused = refuse(&memory.lock(), &begin);
            if let Some(refused) = refused {
                return refused;
            }
            let answer = next.serve(call).await;
            if answer.error().is_none() {
                remember(&mut memory.lock(), begin);
            }
            answer
        })
    };
    defect.call::<SyncNodeSetRequest, _>(around)
}

fn latest_only() -> Defect {
    let defect = Defect::new("latest-revision-only");
    remembering(
        defect,
        |latest: &BTreeMap<String, String>, begin| {
            let held = latest.get(&begin.set_id);
            let is_old = held.is_some_and(|held| *held != begin.base_revision);
            (is_old && !begin.base_revision.is_empty()).then(mismatch)
        },
        |latest, begin| {
            latest.insert(begin.set_id, begin.revision);
        },
    )
}

fn unknown_set_is_internal() -> Defect {
    let defect = Defect::new("unknown-set-is-internal");
    remembering(
        defect,
        |sets: &BTreeSet<String>, begin| {
            let is_unknown = !begin.base_revision.is_empty() && !sets.contains(&begin.set_id);
            is_unknown.then(|| Answer::failed(Status::internal("KeyError")))
        },
        |sets, begin| {
            sets.insert(begin.set_id);
        },
    )
}

fn one_space_of_revisions() -> Defect {
    let defect = Defect::new("one-space-of-revisions");
    remembering(
        defect,
        |held: &BTreeMap<String, BTreeSet<String>>, begin| {
            let others = held.iter().filter(|(set, _)| **set != begin.set_id);
            let mut others = others.map(|(_, revisions)| revisions);
            let of_another = others.any(|one| one.contains(&begin.base_revision));
            let own = held.get(&begin.set_id);
            let is_own = own.is_some_and(|one| one.contains(&begin.base_revision));
            (of_another && !is_own).then(|| applied(begin))
        },
        |held, begin| {
            let revisions = held.entry(begin.set_id).or_default();
            revisions.insert(begin.revision);
        },
    )
}

fn removal_of_none() -> Defect {
    Defect::new("removal-of-none").call::<SyncNodeSetRequest, _>(|call, next| async move {
        let mut upload = Upload::of(&call);
        if upload.chunks.iter().all(|chunk| chunk.removals.is_empty()) {
            return next.serve(call).await;
        }
        let answer = next.correct(call.clone()).await;
        if answer.error().is_none() {
            return answer;
        }
        upload
            .chunks
            .iter_mut()
            .for_each(|chunk| chunk.removals.clear());
        upload.counted();
        next.serve(upload.of_call(call)).await
    })
}
