//! Batches as the contract wants them.

use outrigger_api::v1;
use prost::Message;

use super::{Batch, BatchGetInstances, Error, Unary};
use crate::provider::{Purpose, Session, wire};

/// Bytes of a request besides its nodes, generously: context, view and staleness.
const ENVELOPE: usize = 1024;
/// Bytes around one node: a tag and a length.
const AROUND: usize = 6;

/// Cuts a batch to what the provider takes in one call. Returns it and what is left of it. A node
/// that would not even fit alone is answered here.
pub(super) fn fit(mut batch: Batch, session: &Session) -> (Batch, Option<Batch>) {
    let limit = session.max_send_bytes;
    let most = session
        .instances
        .as_ref()
        .map_or(usize::MAX, |instances| instances.max_batch_size);
    let mut room = limit.saturating_sub(ENVELOPE);
    let mut count = 0;
    while count < batch.asks.len().min(most) {
        let bytes = wire::node(&batch.asks[count].node, session).encoded_len() + AROUND;
        if bytes > limit.saturating_sub(ENVELOPE) {
            let error = Error::TooLarge {
                rpc: BatchGetInstances::NAME,
                bytes,
                limit,
            };
            batch.remove(count).answer(&Err(error));
            continue;
        }
        if bytes > room {
            break;
        }
        room -= bytes;
        count += 1;
    }
    let rest = batch.split_off(count);
    (batch, rest)
}

/// The request for a batch.
pub(super) fn message(
    batch: &Batch,
    session: &Session,
    context: v1::CallContext,
) -> v1::BatchGetInstancesRequest {
    v1::BatchGetInstancesRequest {
        context: Some(context),
        nodes: batch
            .asks
            .iter()
            .map(|ask| wire::node(&ask.node, session))
            .collect(),
        // Too long for the contract is as long as the contract can say.
        max_staleness: batch.purpose.max_staleness().try_into().ok(),
        view: wire_view(batch.purpose).into(),
    }
}

/// How much is wanted, in the words of the contract.
pub(in super::super) const fn wire_view(purpose: Purpose) -> v1::InstanceView {
    match purpose {
        Purpose::Initialization | Purpose::Refresh { .. } => v1::InstanceView::Metadata,
        Purpose::Lifecycle => v1::InstanceView::State,
    }
}
