//! Lookups of the instances of single nodes.

use std::{collections::HashMap, sync::Arc};

use outrigger_api::{
    MethodRequest,
    v1::{self, instance_result::Outcome},
};
use outrigger_core::node::{NodeView, instance::Lookup};
use parking_lot::Mutex;
use tracing::warn;

use super::{
    Error, LookupPurpose, Session,
    admission::Urgency,
    batch::{AnsweredCall, BatchAnswer, BatchObject, GatheredObject, Twin},
    metrics::ProviderMetrics,
    wire,
};

mod answer;

pub(super) use answer::read_instance;

const RPC: &str = v1::BatchGetInstancesRequest::METHOD.name;
/// Nodes whose absence was not believed, each reported once: by name, with its UID.
#[derive(Debug, Default)]
pub(super) struct DoubtedAbsences(Mutex<HashMap<Arc<str>, Box<str>>>);

impl DoubtedAbsences {
    /// Nodes that are remembered. Those of names that are gone are not forgotten one by one.
    const MOST: usize = 10_000;

    /// Reports one that is new.
    fn report(&self, node: &NodeView, why: &str) {
        let mut reported = self.0.lock();
        if reported.len() >= Self::MOST {
            reported.clear();
        }
        let before = reported.insert(Arc::clone(&node.name), node.uid.clone());
        if before.as_ref() != Some(&node.uid) {
            warn!(
                node = &*node.name,
                error = %why,
                "absence of the instance not believed; the Node is kept"
            );
        }
    }
}

/// The provider's answer about one Node.
pub type LookupAnswer = BatchAnswer<Lookup>;

/// A Node whose instance is looked up.
pub(super) struct NodeLookup {
    pub(super) node: Arc<NodeView>,
    pub(super) purpose: LookupPurpose,
}

impl BatchObject for NodeLookup {
    type Request = v1::BatchGetInstancesRequest;
    type Found = Lookup;

    fn message(&self, session: &Session, _: usize) -> v1::Node {
        wire::asked_node(&self.node, session)
    }

    fn read(&self, outcome: Outcome, call: &AnsweredCall<'_>) -> Result<Lookup, Error> {
        let lookup_call = answer::LookupCall {
            purpose: self.purpose,
            took: call.took,
        };
        let instances = call.session.instances.as_ref();
        let on_doubt = |why: &str| call.shared.doubted.report(&self.node, why);
        answer::read(outcome, lookup_call, instances, on_doubt)
    }
}

impl GatheredObject for NodeLookup {
    type Group = LookupPurpose;

    const KIND: &'static str = "node";
    /// Often enough to find one Node among 250, and no storm if every call fails.
    const SPLITS: usize = 8;
    const GOES_WHEN_FULL: bool = true;

    fn group(&self) -> LookupPurpose {
        self.purpose
    }

    fn name(&self) -> &Arc<str> {
        &self.node.name
    }

    /// A Node that was made again under its name, or got a provider ID meanwhile, is another machine.
    fn twin(&self, other: &Self) -> Twin {
        let of = |lookup: &Self| (lookup.node.uid.clone(), lookup.node.provider_id.clone());
        if of(self) == of(other) {
            Twin::Shares
        } else {
            Twin::Waits
        }
    }

    fn without_call(&self, session: &Session) -> Option<Lookup> {
        let instances = session.instances.as_ref()?;
        answer::without_asking(&self.node, instances)
    }

    fn compare(answers: &mut [LookupAnswer]) {
        answer::refuse_shared_ids(answers);
    }

    fn most(session: &Session) -> Option<usize> {
        let offered = session.instances.as_ref();
        offered.map(|instances| instances.max_batch_size)
    }

    fn urgency(purpose: LookupPurpose) -> Urgency {
        purpose.into()
    }

    fn is_gathered(_: LookupPurpose) -> bool {
        true
    }

    fn count(purpose: LookupPurpose, metrics: &ProviderMetrics, nodes: usize) {
        metrics.batched(purpose, nodes);
    }

    fn request(purpose: LookupPurpose) -> v1::BatchGetInstancesRequest {
        v1::BatchGetInstancesRequest {
            // Too long for the contract is as long as the contract allows.
            max_staleness: purpose.max_staleness().try_into().ok(),
            view: wire_view(purpose).into(),
            ..v1::BatchGetInstancesRequest::default()
        }
    }
}

/// How much is wanted, as the contract names it.
pub(super) const fn wire_view(purpose: LookupPurpose) -> v1::InstanceView {
    match purpose {
        LookupPurpose::Initialization | LookupPurpose::Refresh { .. } => v1::InstanceView::Metadata,
        LookupPurpose::Lifecycle => v1::InstanceView::State,
    }
}
