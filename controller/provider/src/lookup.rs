//! Lookups of the instances of single nodes.

use std::sync::Arc;

use outrigger_api::{Method, MethodRequest, v1};
use outrigger_core::node::{NodeView, instance::Lookup};

use super::{LookupPurpose, Session, batch::BatchAnswer, wire};

mod answer;

pub(super) use answer::{read_batch, read_instance, refuse_shared_ids, without_asking};

pub(super) const METHOD: &Method = v1::BatchGetInstancesRequest::METHOD;
pub(super) const RPC: &str = METHOD.name;

/// The provider's answer about one Node.
pub type LookupAnswer = BatchAnswer<Lookup>;

/// A Node whose instance is looked up.
#[derive(Clone)]
pub(super) struct NodeLookup {
    pub(super) node: Arc<NodeView>,
    pub(super) purpose: LookupPurpose,
}

/// The request for a call about several Nodes.
pub(super) fn request(
    purpose: LookupPurpose,
    lookups: &[NodeLookup],
    session: &Session,
) -> v1::BatchGetInstancesRequest {
    let items = lookups.iter();
    v1::BatchGetInstancesRequest {
        context: None,
        items: items
            .map(|lookup| wire::asked_node(&lookup.node, session))
            .collect(),
        // Too long for the contract is as long as the contract allows.
        max_staleness: purpose.max_staleness().try_into().ok(),
        view: wire_view(purpose).into(),
    }
}

/// How much is wanted, as the contract names it.
pub(super) const fn wire_view(purpose: LookupPurpose) -> v1::InstanceView {
    match purpose {
        LookupPurpose::Initialization | LookupPurpose::Refresh { .. } => v1::InstanceView::Metadata,
        LookupPurpose::Lifecycle => v1::InstanceView::State,
    }
}
