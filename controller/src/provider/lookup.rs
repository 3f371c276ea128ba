//! Questions about the instances of single nodes.

use std::{collections::HashMap, sync::Arc};

use outrigger_api::v1;
use outrigger_core::node::{NodeView, instance::Lookup};
use parking_lot::Mutex;
use prost::Message;
use tokio::time::Instant;
use tracing::warn;

use super::{
    Error, LookupPurpose, Provider, Session, Shared,
    admission::{Permit, Urgency},
    call::{BatchGetInstances, Unary},
    coalesce::{self, Ask, Batch, Subject},
    wire,
};

mod answer;

pub(super) use answer::read_instance;

/// Nodes in a batch before a provider has said how many it takes.
const BATCH: usize = 100;
/// Bytes of a request besides its nodes, generously: context, view and staleness.
const ENVELOPE: usize = 1024;
/// Bytes around one node: a tag and a length.
const AROUND: usize = 6;

/// Nodes whose absence was said and not believed, each reported once: by name, with its UID.
#[derive(Debug, Default)]
pub(super) struct Doubts(Mutex<HashMap<Arc<str>, Box<str>>>);

impl Doubts {
    /// Nodes that are remembered. Those of names that are gone are not forgotten one by one.
    const MOST: usize = 10_000;

    /// Reports what is new: reasons by the places in `asks`.
    fn report(&self, asks: &[Ask<NodeLookup>], doubts: &[(usize, String)]) {
        let mut known = self.0.lock();
        for (at, why) in doubts {
            let Some(NodeLookup(node)) = asks.get(*at).map(|ask| &ask.subject) else {
                continue;
            };
            if known.len() >= Self::MOST {
                known.clear();
            }
            let before = known.insert(Arc::clone(&node.name), node.uid.clone());
            if before.as_ref() != Some(&node.uid) {
                warn!(
                    node = &*node.name,
                    error = %why,
                    "absence of the instance not believed; the Node is kept"
                );
            }
        }
    }
}

/// A node whose instance is asked about.
pub(super) struct NodeLookup(Arc<NodeView>);

impl Subject for NodeLookup {
    type Group = LookupPurpose;
    type Key = Arc<str>;
    type Answer = Lookup;
    const RPC: &'static str = BatchGetInstances::NAME;

    fn key(&self) -> Self::Key {
        Arc::clone(&self.0.name)
    }

    /// A node that was made again under its name, or got a provider id meanwhile, is another machine.
    fn is_as_good_as(&self, other: &Self) -> bool {
        self.0.uid == other.0.uid && self.0.provider_id == other.0.provider_id
    }

    fn urgency(purpose: &LookupPurpose) -> Urgency {
        (*purpose).into()
    }

    fn without_asking(&self, session: &Session) -> Option<Result<Lookup, Error>> {
        match &session.instances {
            None => Some(Err(Error::NotOffered { rpc: Self::RPC })),
            Some(instances) => answer::without_asking(&self.0, instances).map(Ok),
        }
    }

    fn most(session: Option<&Session>) -> usize {
        let offered = session.and_then(|session| session.instances.as_ref());
        offered.map_or(BATCH, |instances| instances.max_batch_size)
    }

    fn envelope(_: &LookupPurpose, _: &Session) -> usize {
        ENVELOPE
    }

    fn bytes(&self, session: &Session) -> usize {
        wire::node(&self.0, session).encoded_len() + AROUND
    }

    async fn call(shared: Arc<Shared>, session: Arc<Session>, permit: Permit, batch: Batch<Self>) {
        let purpose = batch.group;
        shared.metrics.batched(purpose, batch.asks.len());
        let began = Instant::now();
        let leave = batch.leave();
        let call =
            shared.call::<BatchGetInstances>(&permit, &leave, &session, |session, context| {
                request(&batch, session, context)
            });
        let answer = match call.await {
            Ok(answer) => answer,
            Err(error) => {
                batch.fail(&error);
                return;
            }
        };
        let asked = answer::Asked {
            purpose,
            is_fresh: purpose.max_staleness().is_zero(),
            took: began.elapsed(),
        };
        // The session of the answer may be newer, but only by what a process behind one name changes.
        let nodes = batch.asks.iter().map(|ask| &*ask.subject.0);
        let read = answer::read(answer, nodes, asked, session.instances.as_ref());
        shared.metrics.strays(read.strays);
        shared.doubts.report(&batch.asks, &read.doubts);
        if let Some(error) = read.speaks_for_all() {
            permit.failed(error);
        }
        for (ask, result) in batch.asks.into_iter().zip(read.results) {
            ask.answer(&result);
        }
    }
}

impl Provider {
    /// Asks about the instance behind `node`, together with whoever asks at the same time.
    ///
    /// Only where the cloud is asked now can the answer be [`Lookup::Absent`] with `confirmed`: never
    /// with [`LookupPurpose::Refresh`] out of a cache. An answer that is missing, doubled or malformed is an
    /// error, never absence.
    ///
    /// Waits while calls about instances are paused. Dropping the future takes back this
    /// one question only.
    ///
    /// # Errors
    /// Any [`Error`]; all but its class is for people.
    pub async fn lookup(
        &self,
        node: Arc<NodeView>,
        purpose: LookupPurpose,
    ) -> Result<Lookup, Error> {
        coalesce::ask(&self.lookups, NodeLookup(node), purpose, &self.leave).await
    }
}

/// The request for a batch.
fn request(
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

/// How much is wanted, as the contract names it.
pub(super) const fn wire_view(purpose: LookupPurpose) -> v1::InstanceView {
    match purpose {
        LookupPurpose::Initialization | LookupPurpose::Refresh { .. } => v1::InstanceView::Metadata,
        LookupPurpose::Lifecycle => v1::InstanceView::State,
    }
}
