//! One Node: ask, plan, write, and plan again until nothing is left to write.
//!
//! A Node with the taint is initialised; a Node whose machine `refresh` has found to differ is brought in line; what
//! another client has undone is put right without a lookup. At most one write of a Node is in flight.

use std::{borrow::Cow, fmt::Display, pin::pin, sync::Arc, time::Duration};

use futures::FutureExt;
use outrigger_core::{
    decision::DecisionReason,
    error_class::ErrorClass,
    event::EventContent,
    node::{
        LABEL_PAUSED, NodeAddress, NodeView,
        address::{self, BelievedAddresses},
        instance::{Instance, Lookup, no_instance},
        plan::{EVENT_ADDRESS, NodeWarning},
    },
    repairs::{Repairs, Undone},
};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{
    CloudNode, NAME,
    error::NodeSyncError,
    memory::{NodeMemory, PATIENCE},
};
use crate::{
    not_managed::ASKED_AGAIN,
    queue::{Outcome, Priority},
};
use outrigger_kube::error::ApiError;
use outrigger_provider::{LookupAnswer, LookupPurpose, Session};
use outrigger_runtime::{history, log_repeated};

impl CloudNode {
    pub(super) async fn sync(&self, name: Arc<str>) -> Outcome {
        let Some(node) = self.context.nodes.get(&name) else {
            return Outcome::Done;
        };
        // The gate was open a moment ago; if it is not now, the queue waits for it.
        let Some(session) = self.context.provider.session() else {
            return Outcome::Retry;
        };
        if (node.reported.is_some() || self.state.is_asked_again(&node))
            && let Some(outcome) = Box::pin(self.sync_addresses(&node, &session)).await
        {
            return outcome;
        }
        if node.is_paused() {
            return self.leave(
                &node,
                "paused",
                &format!("the label {LABEL_PAUSED} is true"),
            );
        }
        if let Some(instances) = &session.instances
            && !self.may_touch(&node, instances)
        {
            let why = "another provider's Node, or not selected by --node-selector";
            return self.leave(&node, "foreign", why);
        }
        let machine = self.state.machine(&node);
        let (view, undone) = (Arc::clone(&node), self.state.undone(&node));
        let is_again = |repairs: &Repairs| repairs.is_again(self.state.clock.now());
        let mut wait = Duration::ZERO;
        // On the heap: all but the lookup, for which the Nodes of a whole cluster may wait at one time.
        let (work, result) = if let Some((undone, repairs)) = undone
            && match undone {
                Undone::Taint => is_again(&repairs),
                _ => machine.is_none(),
            } {
            let result = Box::pin(self.repair(node, &session, undone, repairs)).await;
            ("put right what another client has undone", result)
        } else if node.is_uninitialized() {
            let result = self.initialize(Arc::clone(&node), &session).await;
            if let Err(error) = &result
                && !matches!(error, NodeSyncError::Duplicate(_))
                && error.class().is_for_owner()
            {
                wait = self.report(&node, error);
            }
            ("initialize", result)
        } else if let (Some(machine), Some(instances)) = (machine, &session.instances) {
            let result = Box::pin(self.bring_in_line(node, &machine, instances)).await;
            ("refresh", result)
        } else {
            // If the provider serves no instances now, the next sweep finds it again.
            ("refresh", Ok(Outcome::Done))
        };
        if undone.is_some() && matches!(result, Ok(Outcome::Done)) {
            // The other client may have undone it by now.
            let now = self.state.clock.now();
            let made = |memory: &mut NodeMemory| memory.repairs.made(now);
            self.state.remember(&self.context.nodes, &view, made);
        }
        let (done, failed) = match result {
            Ok(outcome) => (outcome, None),
            Err(NodeSyncError::LeftAlone) => (Outcome::Done, None),
            Err(error) => (Outcome::Done, Some(self.failed(&name, work, &error))),
        };
        let effects = Box::pin(self.effects.write(&name)).await;
        let unwritten = effects
            .err()
            .map(|error| self.failed(&name, "write effects of the provider", &error.into()));
        match failed.or(unwritten).unwrap_or(done) {
            // Nothing but a change would bring the next try: the event is due before.
            Outcome::Done if !wait.is_zero() => Outcome::RetryAfter(wait),
            outcome => outcome,
        }
    }

    /// The status has other addresses than those that count. The next sweep looks them up. A Node that has none so far, or
    /// whose last answer lacks some for a while, is looked up immediately, and a Node that is never looked up keeps those of
    /// the status. `None`: the sync continues.
    async fn sync_addresses(&self, node: &Arc<NodeView>, session: &Session) -> Option<Outcome> {
        let not_managed = &self.not_managed;
        let instances = session.instances.as_ref();
        let is_asked_about = instances.is_some_and(|instances| {
            self.may_touch(node, instances) && !not_managed.knows(node, &session.boot_id)
        });
        if !is_asked_about {
            self.confirm(node, None);
            return None;
        }
        let is_due = node.awaits_addresses() || self.state.is_asked_again(node);
        if node.is_uninitialized() || !is_due {
            return None;
        }
        let lookup = self.lookup(Arc::clone(node)).await;
        if let Ok(Lookup::Absent { .. } | Lookup::NotManaged { .. }) = &lookup {
            self.state.forget_doubt(&self.context.nodes, node);
        }
        match lookup {
            Ok(Lookup::Found(instance)) => {
                let instance = self.believe(node, &instance).into_owned();
                let confirmed = self.confirm_instance(node, &instance);
                self.remember_machine(node, instance);
                confirmed.then_some(Outcome::RetryAfter(Duration::ZERO))
            }
            Ok(Lookup::NotManaged { reason }) => {
                not_managed.remember(&self.context.nodes, node, &session.boot_id, &reason);
                self.confirm(node, None);
                None
            }
            Ok(Lookup::Absent { .. }) => Some(self.failed(
                &node.name,
                "ask for addresses",
                &NodeSyncError::Absent(no_instance(node)),
            )),
            Err(error) => Some(self.failed(&node.name, "ask for addresses", &error)),
        }
    }

    /// `instance` with the addresses that count for `node`, its machine: those that the answer lacks are kept for a while,
    /// and the provider is asked again.
    pub(super) fn believe<'a>(&self, node: &NodeView, instance: &'a Instance) -> Cow<'a, Instance> {
        let nodes = &self.context.nodes;
        if instance.is_other_than(node) {
            self.state.forget_doubt(nodes, node);
            return Cow::Borrowed(instance);
        }
        let Some((believed, ask_again)) = self.state.believe(nodes, node, instance) else {
            return Cow::Borrowed(instance);
        };
        let BelievedAddresses { addresses, warning } = believed;
        if let Some(warning) = warning {
            self.warn(node, &warning);
            self.note(&node.name, "addresses_kept", || warning.to_string());
        }
        if let Some(delay) = ask_again {
            let name = Arc::clone(&node.name);
            self.context.queue.add_after(name, Priority::Bulk, delay);
        }
        if addresses == instance.addresses {
            return Cow::Borrowed(instance);
        }
        Cow::Owned(Instance {
            addresses,
            ..instance.clone()
        })
    }

    /// Returns true if the addresses of `instance`, the machine of `node`, are those that count now. Another Node that keeps
    /// some of them is asked about, and loses them.
    pub(super) fn confirm_instance(&self, node: &NodeView, instance: &Instance) -> bool {
        if instance.is_other_than(node) {
            return false;
        }
        if instance.is_spelled_otherwise(node) {
            let (nodes, id) = (&self.context.nodes, &instance.provider_id);
            self.state.claim_spelling(nodes, id, node);
        }
        self.confirm(node, address::said(node, &instance.addresses).as_deref());
        let addresses = instance.addresses.iter();
        let is_new = |one: &&NodeAddress| one.is_ip() && !node.addresses.contains(one);
        let new: Vec<_> = addresses.filter(is_new).collect();
        if !new.is_empty() {
            let keepers = self.state.keepers_of(node, &new);
            self.context.queue.add_all(keepers, Priority::Fresh);
        }
        true
    }

    /// Says on the node why it still keeps its taint (not N-11), once it has waited. Returns how long it still waits.
    fn report(&self, node: &NodeView, why: &impl Display) -> Duration {
        let nodes = &self.context.nodes;
        let wait = self.state.remember(nodes, node, NodeMemory::report_in);
        if wait == Some(Duration::ZERO) {
            let event = EventContent::node_not_initialized(why);
            self.context.node_event(node, event);
        }
        wait.unwrap_or_default()
    }

    /// Nothing is done about the node before it changes, which it says if it waits for its initialization.
    fn leave(&self, node: &NodeView, rule: &'static str, why: &str) -> Outcome {
        debug!(node = &*node.name, reason = why, "node is left alone");
        self.note(&node.name, rule, || why.to_owned());
        if node.is_uninitialized() {
            let wait = self.report(node, &why);
            if !wait.is_zero() {
                return Outcome::RetryAfter(wait);
            }
        }
        Outcome::Done
    }

    /// N-12: asked again when the node, or the provider, changes, and else seldom.
    fn leave_unmanaged(&self, node: &NodeView, reason: &str) -> Outcome {
        let why = format!("the provider does not manage the Node{reason}");
        match self.leave(node, "not_managed", &why) {
            Outcome::Done => Outcome::RetryAfter(ASKED_AGAIN),
            sooner => sooner,
        }
    }

    /// The provider takes long to answer about the node. While calls pause, all nodes wait.
    fn report_late(&self, node: &NodeView) {
        let instances = self.context.provider.instances();
        if instances.unpaused().now_or_never().is_some() {
            self.report(node, &"the provider has not answered yet");
        }
    }

    /// N-11: logged, tried again.
    fn failed(&self, name: &str, work: &str, error: &NodeSyncError) -> Outcome {
        let class = error.class();
        let class_name = class.as_str();
        self.metrics.failed(class_name);
        self.note(name, class_name, || format!("{work}: {error}"));
        let is_expected = match error {
            // The pause of the calls is logged where it begins, and a wait is no failure.
            NodeSyncError::Lookup(_) => matches!(
                class,
                ErrorClass::Unavailable
                    | ErrorClass::RateLimited { .. }
                    | ErrorClass::Unauthenticated
                    | ErrorClass::InProgress { .. }
            ),
            NodeSyncError::Write(ApiError::Fenced) => true,
            // Another client was faster twice.
            NodeSyncError::Write(_) => class == ErrorClass::Conflict,
            _ => false,
        };
        if is_expected {
            debug!(node = name, class = class_name, work, %error, "node sync failed");
        } else {
            let own_cause = || format!("{name}: {error}");
            log_repeated!(
                warn, self.context.repeats, &error.common_cause().unwrap_or_else(own_cause),
                node = name, class = class_name, work, %error, "node sync failed"
            );
        }
        error.retry()
    }

    /// Notes why nothing is decided about the node, or nothing came of it.
    pub(super) fn note(&self, name: &str, rule: &'static str, text: impl FnOnce() -> String) {
        let history = &self.context.history;
        let why = || DecisionReason { rule, text: text() };
        history.decided(NAME, history::node(name), "sync", why);
    }

    /// Keeps `instance`, the machine of `node`, until the two are in line.
    pub(super) fn remember_machine(&self, node: &NodeView, instance: Instance) -> Arc<Instance> {
        let machine = Arc::new(instance);
        let keep = |memory: &mut NodeMemory| memory.machine = Some(Arc::clone(&machine));
        self.state.remember(&self.context.nodes, node, keep);
        machine
    }

    async fn initialize(
        &self,
        node_at_lookup: Arc<NodeView>,
        session: &Session,
    ) -> Result<Outcome, NodeSyncError> {
        let Some(instances) = &session.instances else {
            // Its error says so. Whichever process serves instances next has all such keys run at once.
            return self.lookup(node_at_lookup).await.map(|_| Outcome::Done);
        };
        let nodes = &self.context.nodes;
        if self.not_managed.knows(&node_at_lookup, &session.boot_id) {
            return Ok(self.leave_unmanaged(&node_at_lookup, ""));
        }
        self.state
            .remember(nodes, &node_at_lookup, NodeMemory::report_due);
        let mut lookup = pin!(self.lookup(Arc::clone(&node_at_lookup)));
        let lookup = match timeout(PATIENCE, &mut lookup).await {
            Ok(lookup) => lookup,
            Err(_elapsed) => {
                self.report_late(&node_at_lookup);
                lookup.await
            }
        };
        let lookup = lookup.inspect_err(|_| (self.on_lookup)(&node_at_lookup, None))?;
        // A lookup waits as long as the provider's calls pause.
        let Some(node) = nodes.get(&node_at_lookup.name) else {
            return Ok(Outcome::Done);
        };
        let is_same =
            node.uid == node_at_lookup.uid && node.provider_id == node_at_lookup.provider_id;
        if !is_same || node.is_paused() {
            // The change itself may not have queued the Node, such as an earlier write whose answer was lost.
            return Ok(Outcome::RetryAfter(Duration::ZERO));
        }
        (self.on_lookup)(&node, Some(&lookup));
        match lookup {
            Lookup::Found(instance) => {
                let instance = self.believe(&node, &instance).into_owned();
                // Another Node may have the machine by another spelling of its ID.
                for id in [&*node.provider_id, &*instance.provider_id] {
                    if !self.claim(id, &node)? {
                        return Ok(Outcome::Done);
                    }
                }
                // A write that fails after the taint is gone is repeated without a lookup.
                let machine = self.remember_machine(&node, instance);
                self.state
                    .remember(nodes, &node, |memory| memory.is_new = true);
                let done = self.bring_in_line(Arc::clone(&node), &machine, instances);
                let done = Box::pin(done).await;
                if done.is_err() && node.provider_id.is_empty() {
                    self.unclaim(&machine.provider_id, &node);
                }
                done
            }
            Lookup::Absent { .. } => Err(NodeSyncError::Absent(no_instance(&node))),
            Lookup::NotManaged { reason } => {
                self.not_managed
                    .remember(nodes, &node, &session.boot_id, &reason);
                Ok(self.leave_unmanaged(&node, &format!(": {reason}")))
            }
        }
    }

    async fn lookup(&self, node: Arc<NodeView>) -> Result<Lookup, NodeSyncError> {
        let provider = &self.context.provider;
        let purpose = LookupPurpose::Initialization;
        let LookupAnswer { result, effects } = provider
            .instances()
            .look_up(Arc::clone(&node), purpose)
            .await;
        self.effects.observe(&node, effects);
        Ok(result?)
    }

    /// Two nodes with one provider id are both refused: the id can never be changed again. False if the node is
    /// gone.
    fn claim(&self, provider_id: &str, node: &NodeView) -> Result<bool, NodeSyncError> {
        let claimed = self.state.try_claim(&self.context.nodes, provider_id, node);
        if let Err(duplicate) = &claimed {
            let event = EventContent::duplicate_provider_id(duplicate);
            self.context.node_event(node, event);
        }
        Ok(claimed?)
    }

    fn unclaim(&self, provider_id: &str, node: &NodeView) {
        let written = self.context.nodes.get(&node.name);
        if written.is_none_or(|node| *node.provider_id != *provider_id) {
            let refused = self.state.release(&node.name);
            self.context.queue.add_all(refused, Priority::Fresh);
        }
    }

    /// Logs something of the provider's answer that is not written, and says it on the node if the warning has an event.
    pub(super) fn warn(&self, node: &NodeView, warning: &NodeWarning) {
        let Some(reason) = warning.event else {
            warn!(node = &*node.name, "{warning}");
            return;
        };
        if reason == EVENT_ADDRESS {
            self.metrics.faulty_addresses.inc();
        }
        // One mistake of a provider may concern all nodes.
        log_repeated!(
            warn,
            self.context.repeats,
            reason,
            node = &*node.name,
            "{warning}"
        );
        let event = EventContent::warning(reason, &warning.text);
        self.context.node_event(node, event);
    }
}
