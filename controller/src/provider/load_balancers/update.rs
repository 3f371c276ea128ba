//! New targets for load balancers: those that want the same leave together.

use std::{collections::HashMap, sync::Arc};

use ipnet::IpNet;
use outrigger_api::v1::{self, CallContext, update_load_balancer_nodes_response::Outcome as Wire};
use outrigger_core::{
    service::{
        ServiceView,
        answer::{LoadBalancerAnswer, LoadBalancerCall},
        capability::Capability,
    },
    targets::Targets,
};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::mpsc;
use tracing::warn;

use super::{answer::Said, ranges};
use crate::provider::{
    Error, Provider, Session, Shared,
    admission::{Permit, Urgency},
    call::Unary,
    coalesce::{self, Ask, Batch, Subject},
    gather::SILENCE,
    node_sets::wire_targets,
    wire,
};

mod results;

use results::{Ending, Feed, UpdateLoadBalancerNodes};

/// Bytes of a request besides Services and nodes, generously.
const ENVELOPE: usize = 1024;
/// Bytes around one Service: a tag and a length.
const AROUND: usize = 6;

/// A Service whose load balancer gets other targets.
pub(in super::super) struct Update {
    service: Arc<ServiceView>,
    ranges: Vec<IpNet>,
}

impl Update {
    fn wire(&self, session: &Session) -> v1::Service {
        let offered = session.load_balancers.as_ref();
        let none = Capability::default();
        let capability = offered.map_or(&none, |offered| &offered.capability);
        wire::service(&self.service, capability, &self.ranges)
    }
}

/// Equal where the revisions are.
#[derive(Clone)]
pub(in super::super) struct WantedTargets(Arc<Targets>);

impl PartialEq for WantedTargets {
    fn eq(&self, other: &Self) -> bool {
        self.0.revision() == other.0.revision()
    }
}

impl Subject for Update {
    type Group = WantedTargets;
    type Key = Box<str>;
    type Answer = LoadBalancerAnswer;
    const RPC: &'static str = UpdateLoadBalancerNodes::NAME;

    fn key(&self) -> Self::Key {
        self.service.uid.clone()
    }

    /// Nothing but the targets is to change, and these are the same.
    fn is_as_good_as(&self, _: &Self) -> bool {
        true
    }

    fn urgency(_: &WantedTargets) -> Urgency {
        Urgency::LoadBalancers
    }

    fn without_asking(&self, session: &Session) -> Option<Result<LoadBalancerAnswer, Error>> {
        let is_served = session.load_balancers.is_some();
        (!is_served).then_some(Err(Error::NotOffered { rpc: Self::RPC }))
    }

    fn most(session: Option<&Session>) -> usize {
        let offered = session.and_then(|session| session.load_balancers.as_ref());
        offered.map_or(1, |offered| offered.max_services_per_update)
    }

    fn envelope(wanted: &WantedTargets, session: &Session) -> usize {
        ENVELOPE + wire_targets(&wanted.0, session).encoded_len()
    }

    fn bytes(&self, session: &Session) -> usize {
        self.wire(session).encoded_len() + AROUND
    }

    async fn call(shared: Arc<Shared>, session: Arc<Session>, permit: Permit, batch: Batch<Self>) {
        let leave = batch.leave();
        let targets = batch.group.0;
        let open = Arc::new(Mutex::new(Open::new(batch.asks)));
        let asked = Arc::clone(&open);
        let leave = leave.only_while(move || asked.lock().drop_outdated());
        let hand_out = |result| {
            let general = open.lock().take(result, &session);
            if let Some(error) = general {
                permit.failed(&error);
            }
        };
        let ended = {
            let (results, mut arriving) = mpsc::channel(1);
            let message = |context: CallContext, targets| Feed {
                message: v1::UpdateLoadBalancerNodesRequest {
                    context: Some(context),
                    services: open.lock().services(&session),
                    targets: Some(targets),
                },
                results: results.clone(),
            };
            let call = shared
                .call_with_targets::<UpdateLoadBalancerNodes>(&permit, &leave, &targets, message);
            tokio::pin!(call);
            let ended = loop {
                tokio::select! {
                    Some(result) = arriving.recv() => hand_out(result),
                    ended = &mut call => break ended,
                }
            };
            // Results that came together with the end.
            while let Ok(result) = arriving.try_recv() {
                hand_out(result);
            }
            ended
        };
        let rpc = Self::RPC;
        let rest = match ended {
            Ok(Ending::Whole) => malformed("no result for the Service"),
            Ok(Ending::TooMany) => malformed("more results than Services"),
            Ok(Ending::Silent) => Error::Timeout {
                rpc,
                after: SILENCE,
            },
            Err(error) => error,
        };
        let mut open = open.lock();
        shared.metrics.strays(open.strays);
        if let Some(error) = open.fail(&rest) {
            permit.failed(&error);
        }
    }
}

/// Services that a call is made for, by their place in it.
struct Open {
    /// None: it has its answer.
    asks: Vec<Option<Ask<Update>>>,
    places: HashMap<Box<str>, usize>,
    /// Results without a caller.
    strays: usize,
    has_answered: bool,
    /// The first error that would speak for all, if no Service was spared it.
    general: Option<Error>,
}

impl Open {
    fn new(asks: Vec<Ask<Update>>) -> Self {
        let keys = asks.iter().map(|ask| ask.subject.key());
        Self {
            places: keys.zip(0..).collect(),
            asks: asks.into_iter().map(Some).collect(),
            strays: 0,
            has_answered: false,
            general: None,
        }
    }

    /// Leaves out those that have changed since they were asked about. Tells whether any are left.
    fn drop_outdated(&mut self) -> bool {
        let rpc = Update::RPC;
        for slot in &mut self.asks {
            if let Some(outdated) = slot.take_if(|ask| !ask.leave().is_wanted()) {
                outdated.answer(&Err(Error::Outdated { rpc }));
            }
        }
        self.asks.iter().any(Option::is_some)
    }

    /// Those that have no answer yet.
    fn services(&self, session: &Session) -> Vec<v1::Service> {
        let open = self.asks.iter().flatten();
        open.map(|ask| ask.subject.wire(session)).collect()
    }

    /// Hands a result out. Returns an error that speaks for all.
    fn take(
        &mut self,
        result: v1::UpdateLoadBalancerNodesResponse,
        session: &Session,
    ) -> Option<Error> {
        let uid = result.service.unwrap_or_default().uid;
        let Some(slot) = self.places.get(&*uid).and_then(|at| self.asks.get_mut(*at)) else {
            self.strays += 1;
            return None;
        };
        let Some(ask) = slot.take() else {
            // Whoever asked has the first of them.
            self.strays += 1;
            warn!(
                uid,
                "the provider answers twice about new targets of a Service"
            );
            return None;
        };
        let result = read(result.outcome, &ask.subject.service, session);
        ask.answer(&result);
        match result {
            Ok(_) => {
                self.has_answered = true;
                None
            }
            Err(error) if error.speaks_for_all(false) => Some(error),
            Err(error) => {
                if error.speaks_for_all(true) {
                    self.general.get_or_insert(error);
                }
                None
            }
        }
    }

    /// Fails the rest. Returns an error that spoke for all.
    fn fail(&mut self, error: &Error) -> Option<Error> {
        let mut has_answered = self.has_answered;
        for ask in self.asks.drain(..).flatten() {
            // It may have worked.
            has_answered = true;
            ask.answer(&Err(error.clone()));
        }
        self.general.take().filter(|_| !has_answered)
    }
}

fn read(
    outcome: Option<Wire>,
    service: &ServiceView,
    session: &Session,
) -> Result<LoadBalancerAnswer, Error> {
    match outcome {
        None => Err(malformed("a result without an outcome")),
        Some(Wire::Answer(answer)) => {
            Said::from(answer).check(LoadBalancerCall::Update, service, session)
        }
        Some(Wire::Error(status)) => {
            let error = Error::from_item(UpdateLoadBalancerNodes::NAME, &status);
            Err(error.unwrap_or_else(|| malformed("an error with code OK")))
        }
    }
}

fn malformed(what: &str) -> Error {
    Error::Malformed {
        rpc: UpdateLoadBalancerNodes::NAME,
        what: what.into(),
    }
}

impl Provider {
    /// Gives the load balancer of `service` these targets and changes nothing else of it, in one call
    /// with whoever asks for the same targets at the same time. The answer comes as soon as it is
    /// known, whatever becomes of the others. A provider that does not serve updates is asked to
    /// ensure the load balancer as it is in `service`.
    ///
    /// Dropping the future takes back this one question, if it has not left yet.
    ///
    /// # Errors
    /// As [`Provider::ensure_load_balancer`].
    pub async fn update_load_balancer(
        &self,
        service: Arc<ServiceView>,
        targets: Arc<Targets>,
    ) -> Result<LoadBalancerAnswer, Error> {
        let ranges = ranges(&service)?;
        let update = Update {
            service: Arc::clone(&service),
            ranges,
        };
        let wanted = WantedTargets(Arc::clone(&targets));
        match coalesce::ask(&self.updates, update, wanted, &self.leave).await {
            Err(Error::NotServed { .. }) => self.ensure_load_balancer(&service, &targets).await,
            result => result,
        }
    }
}
