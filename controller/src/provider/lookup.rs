//! Lookups of the instances of single nodes.

use std::{collections::HashMap, sync::Arc};

use outrigger_api::{Method, MethodRequest, v1};
use outrigger_core::{
    effects::RawEffects,
    node::{NodeView, instance::Lookup},
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;

use super::{
    Error, LookupPurpose, Provider, Session, Shared,
    admission::Permit,
    batch::{ask, speaks_for_all},
    preconditions::Preconditions,
    wire,
};

mod answer;
mod batches;

pub(super) use answer::read_instance;
use batches::LookupItem;
pub(super) use batches::{PendingLookup, WaitingLookups};

const METHOD: &Method = v1::BatchGetInstancesRequest::METHOD;
const RPC: &str = METHOD.name;
/// How often a batch is split: often enough to find one Node among 250, and no storm if every call fails.
const SPLITS: usize = 8;
/// Nodes in a batch before a provider has declared how many it accepts.
const BATCH: usize = 100;

/// Nodes whose absence was not believed, each reported once: by name, with its UID.
#[derive(Debug, Default)]
pub(super) struct DoubtedAbsences(Mutex<HashMap<Arc<str>, Box<str>>>);

impl DoubtedAbsences {
    /// Nodes that are remembered. Those of names that are gone are not forgotten one by one.
    const MOST: usize = 10_000;

    /// Reports those that are new: reasons by the places in `items`.
    fn report(&self, items: &[LookupItem], doubts: &[(usize, String)]) {
        let mut known = self.0.lock();
        for (at, why) in doubts {
            let Some(LookupItem { node, .. }) = items.get(*at) else {
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

/// The provider's answer about one Node.
#[derive(Clone, Debug)]
pub struct LookupAnswer {
    /// The instance of the Node, or why it is not known.
    pub result: Result<Lookup, Error>,
    /// Effects that the provider wants written to the Node whatever the result is, unchecked.
    pub effects: RawEffects,
}

impl From<Result<Lookup, Error>> for LookupAnswer {
    fn from(result: Result<Lookup, Error>) -> Self {
        let beside = result.as_ref().err().and_then(Error::effects);
        Self {
            effects: beside.cloned().unwrap_or_default(),
            result,
        }
    }
}

impl Provider {
    /// Looks up the instance behind `node`, in one call with other lookups of the same time.
    ///
    /// Only where the cloud is asked now can the answer be [`Lookup::Absent`] with `confirmed`: never
    /// with [`LookupPurpose::Refresh`] out of a cache. An answer that is missing, doubled or malformed is an
    /// error, never absence.
    ///
    /// Waits while calls about instances are paused. Dropping the future withdraws this one lookup only;
    /// the stop withdraws it if it has not gone out.
    ///
    /// # Errors
    /// Any [`Error`]; all but its class is for people.
    pub async fn lookup(&self, node: Arc<NodeView>, purpose: LookupPurpose) -> LookupAnswer {
        let lookup = |caller| PendingLookup {
            node,
            purpose,
            preconditions: self.preconditions.clone(),
            caller,
        };
        let failed = |error| LookupAnswer::from(Err(error));
        ask(&self.lookups, lookup, &self.preconditions, RPC, failed).await
    }
}

/// The answer that needs no call.
fn without_call(node: &NodeView, session: &Session) -> Option<Result<Lookup, Error>> {
    match &session.instances {
        None => Some(Err(Error::NotOffered { rpc: RPC })),
        Some(instances) => answer::without_asking(node, instances).map(Ok),
    }
}

fn max_batch_size(session: Option<&Session>) -> usize {
    let offered = session.and_then(|session| session.instances.as_ref());
    offered.map_or(BATCH, |instances| instances.max_batch_size)
}

/// Sends a batch, and each caller its answer. A call that fails because of its request is repeated by halves, so
/// that one Node does not fail the others. Returns the lookups that were not answered until the deadline.
async fn send_batch(
    shared: Arc<Shared>,
    admitted: (Permit, Arc<Session>),
    items: Vec<LookupItem>,
) -> Vec<(LookupItem, Error)> {
    let mut unanswered = Vec::new();
    let Some(first) = items.first() else {
        return unanswered;
    };
    // All are of one purpose and one lease term.
    let (purpose, preconditions) = (first.purpose, first.preconditions());
    let mut admitted = Some(admitted);
    let mut splits = SPLITS;
    // Whether an error of the call is that of several Nodes, and all of them met it.
    let mut is_common = items.len() > 1;
    let mut parts = vec![items];
    while let Some(mut items) = parts.pop() {
        let admitted = match admitted.take() {
            Some(admitted) => Ok(Ok(admitted)),
            None => preconditions.wait(RPC, shared.admit(purpose.into())).await,
        };
        let answers = match admitted {
            Ok(Ok(admitted)) => {
                let is_last = parts.is_empty() && (items.len() == 1 || splits == 0);
                let common = is_common && is_last;
                call_batch(&shared, admitted, &preconditions, purpose, &items, common).await
            }
            Ok(Err(error)) | Err(error) => Err(error),
        };
        match answers {
            Ok(answers) => {
                is_common = false;
                for (item, answer) in items.into_iter().zip(answers) {
                    match answer.result {
                        Err(error) if error.is_no_answer() => unanswered.push((item, error)),
                        _ => item.answer(&answer),
                    }
                }
            }
            Err(error) if error.is_no_answer() => {
                unanswered.extend(items.into_iter().map(|item| (item, error.clone())));
            }
            Err(error) if error.is_about_request() && items.len() > 1 && splits > 0 => {
                splits -= 1;
                let rest = items.split_off(items.len() / 2);
                parts.extend([rest, items]);
            }
            Err(error) => {
                for item in items {
                    item.answer(&Err(error.clone()).into());
                }
            }
        }
    }
    unanswered
}

/// Makes one call. `common`: one that fails as a whole has the error of all calls about these Nodes.
async fn call_batch(
    shared: &Shared,
    (permit, session): (Permit, Arc<Session>),
    preconditions: &Preconditions,
    purpose: LookupPurpose,
    items: &[LookupItem],
    common: bool,
) -> Result<Vec<LookupAnswer>, Error> {
    shared.metrics.batched(purpose, items.len());
    let began = Instant::now();
    let request = |session: &Session| v1::BatchGetInstancesRequest {
        context: None,
        items: items
            .iter()
            .map(|item| wire::asked_node(&item.node, session))
            .collect(),
        // Too long for the contract is as long as the contract allows.
        max_staleness: purpose.max_staleness().try_into().ok(),
        view: wire_view(purpose).into(),
    };
    let answer = shared
        .call(&permit, preconditions, &session, request)
        .await
        .inspect_err(|error| {
            if common && error.is_opaque() {
                permit.all_failed(error);
            }
        })?;
    let asked = answer::Asked {
        purpose,
        is_fresh: purpose.max_staleness().is_zero(),
        took: began.elapsed(),
    };
    // The session of the answer may be newer, but only by what a process behind one name changes.
    let nodes = items.iter().map(|item| &*item.node);
    let read = answer::read(answer, nodes, asked, session.instances.as_ref());
    shared.metrics.strays(read.strays);
    shared.doubted.report(items, &read.doubts);
    let errors = read.results.iter().map(|result| result.as_ref().err());
    if let Some(error) = speaks_for_all(errors) {
        permit.failed(error);
    }
    let answers = read.results.into_iter().zip(read.effects);
    let answers = answers.map(|(result, effects)| LookupAnswer { result, effects });
    Ok(answers.collect())
}

/// How much is wanted, as the contract names it.
pub(super) const fn wire_view(purpose: LookupPurpose) -> v1::InstanceView {
    match purpose {
        LookupPurpose::Initialization | LookupPurpose::Refresh { .. } => v1::InstanceView::Metadata,
        LookupPurpose::Lifecycle => v1::InstanceView::State,
    }
}
