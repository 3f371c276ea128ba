//! Batches as the contract wants them.

use outrigger_api::v1;

use super::{Batch, NodeLookup};
use crate::provider::{LookupPurpose, Session, wire};

/// The request for a batch.
pub(super) fn message(
    batch: &Batch<NodeLookup>,
    session: &Session,
    context: v1::CallContext,
) -> v1::BatchGetInstancesRequest {
    v1::BatchGetInstancesRequest {
        context: Some(context),
        nodes: batch
            .asks
            .iter()
            .map(|ask| wire::node(&ask.subject.0, session))
            .collect(),
        // Too long for the contract is as long as the contract can say.
        max_staleness: batch.group.max_staleness().try_into().ok(),
        view: wire_view(batch.group).into(),
    }
}

/// How much is wanted, in the words of the contract.
pub(in super::super) const fn wire_view(purpose: LookupPurpose) -> v1::InstanceView {
    match purpose {
        LookupPurpose::Initialization | LookupPurpose::Refresh { .. } => v1::InstanceView::Metadata,
        LookupPurpose::Lifecycle => v1::InstanceView::State,
    }
}
