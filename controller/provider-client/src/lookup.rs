//! Lookups of the instances of single nodes.

use std::{collections::HashMap, sync::Arc, time::Duration};

use outrigger_api::{
    Method, MethodRequest,
    v1::{self, instance_result::Outcome},
};
use outrigger_core::node::{NodeView, instance::Lookup};
use parking_lot::Mutex;
use tracing::warn;

use super::{Error, LookupPurpose, Session, Shared, batch::BatchAnswer, wire};

mod answer;

pub(super) use answer::{read_instance, refuse_shared_ids};

pub(super) const METHOD: &Method = v1::BatchGetInstancesRequest::METHOD;
pub(super) const RPC: &str = METHOD.name;

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

impl NodeLookup {
    /// The part of the request about it.
    pub(super) fn message(&self, session: &Session) -> v1::Node {
        wire::asked_node(&self.node, session)
    }

    /// Reads the outcome of a call that took so long, unless it is an error.
    pub(super) fn read(
        &self,
        outcome: Outcome,
        shared: &Shared,
        session: &Session,
        took: Duration,
    ) -> Result<Lookup, Error> {
        let lookup_call = answer::LookupCall {
            purpose: self.purpose,
            took,
        };
        let instances = session.instances.as_ref();
        let on_doubt = |why: &str| shared.doubted.report(&self.node, why);
        answer::read(outcome, lookup_call, instances, on_doubt)
    }

    /// Name of the Node.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.node.name
    }

    /// The answer that needs no call.
    pub(super) fn without_call(&self, session: &Session) -> Option<Lookup> {
        let instances = session.instances.as_ref()?;
        answer::without_asking(&self.node, instances)
    }

    /// Nodes in one call; none: the provider does not offer it.
    pub(super) fn most(session: &Session) -> Option<usize> {
        let offered = session.instances.as_ref();
        offered.map(|instances| instances.max_batch_size)
    }
}

impl LookupPurpose {
    pub(super) fn request(self, items: Vec<v1::Node>) -> v1::BatchGetInstancesRequest {
        v1::BatchGetInstancesRequest {
            context: None,
            items,
            // Too long for the contract is as long as the contract allows.
            max_staleness: self.max_staleness().try_into().ok(),
            view: wire_view(self).into(),
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
