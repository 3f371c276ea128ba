//! The result of one handshake, and the connection that it was made on.
//!
//! The connection publishes a [`Session`] for each handshake; calls are made on the session of the moment, and loops read
//! its capabilities, which have been checked. A session never changes, except that it learns which methods the provider
//! lacks.

use std::{collections::HashSet, ops::Deref, sync::Arc, time::Duration};

use outrigger_api::{Method, MethodRequest, v1};
use outrigger_core::{
    annotations::ReadAnnotations,
    effects::{AllowedEffects, DropCause, Effects, EffectsObject, RawEffects},
    forbidden_addresses::ForbiddenAddresses,
    node::{answer::Rules, ownership::Prefixes},
    service::capability::Capability,
    text,
};
use parking_lot::Mutex;
use tracing::warn;

use super::{
    Error, channel::Channel, error::is_cut_off, transport::ProviderConnection,
    volumes::VolumesCapability,
};

/// Objects that are remembered for events about effects that are not written; with more, some have the event again.
const MAX_REPORTED: usize = 20_000;

/// Bytes of prefixes that are shown.
const MAX_SHOWN: usize = 512;

/// A connection that a handshake was made on, with its result. A new one is published after each
/// handshake, also on the same connection; whoever keeps facts about the provider compares
/// [`HandshakeResult::boot_id`].
#[derive(Debug)]
pub struct Session {
    result: HandshakeResult,
    pub(super) connection: ProviderConnection,
    /// Methods that the provider answered with UNIMPLEMENTED.
    unserved: Mutex<HashSet<&'static str>>,
    /// Objects, by UID, that have an event about effects that are not written.
    reported_effects: Mutex<HashSet<(Box<str>, DropCause)>>,
}

/// The provider's answer to a handshake, checked.
#[derive(Debug)]
pub struct HandshakeResult {
    /// The provider's name; the same for as long as the controller runs.
    pub name: Box<str>,
    /// Its version, for people.
    pub version: Box<str>,
    /// The minor revision of the contract that both speak.
    pub minor: u32,
    /// Another value: the provider's caches are gone.
    pub boot_id: Arc<str>,
    /// How instances are looked up; `None` when the provider serves none.
    pub instances: Option<Arc<InstancesCapability>>,
    /// Which Services are served, and how; `None` when the provider serves none.
    pub load_balancers: Option<LoadBalancersCapability>,
    /// How routes are changed; `None` when the provider serves none.
    pub routes: Option<RoutesCapability>,
    /// Which volumes are looked up; `None` when the provider serves none.
    pub volumes: Option<VolumesCapability>,
    /// Writes to Nodes that the provider may ask for; `None` when it declares no effects at all.
    pub node_effects: Option<AllowedEffects>,
    /// Prefixes of effects that the provider declares and under which the operator grants nothing.
    pub effects_not_granted: Box<[Box<str>]>,
    /// Node annotations that are sent; empty: none.
    pub node_annotation_prefixes: Box<[Box<str>]>,
    /// Largest message that may be sent, in bytes.
    pub max_send_bytes: usize,
    /// Rates of the cloud.
    pub(super) rates: Vec<v1::RateLimit>,
    /// All that the provider declares.
    pub(super) declared: v1::Capabilities,
}

impl HandshakeResult {
    /// Returns true if the provider declares the capability of a method.
    pub fn declares<M: MethodRequest>(&self) -> bool {
        (M::METHOD.is_declared)(&self.declared)
    }

    /// The parts of the contract that loops call, and whether the provider serves them.
    pub fn capabilities(&self) -> [(&'static str, bool); 4] {
        [
            ("instances", self.instances.is_some()),
            ("load_balancers", self.load_balancers.is_some()),
            ("routes", self.routes.is_some()),
            ("volumes", self.volumes.is_some()),
        ]
    }
}

impl Deref for Session {
    type Target = HandshakeResult;

    fn deref(&self) -> &HandshakeResult {
        &self.result
    }
}

impl Session {
    pub(super) fn new(result: HandshakeResult, connection: ProviderConnection) -> Self {
        Self {
            result,
            connection,
            unserved: Mutex::default(),
            reported_effects: Mutex::default(),
        }
    }

    /// Where calls go.
    pub(super) fn channel(&self) -> Channel {
        self.connection.channel(self.max_send_bytes)
    }

    /// Returns true if the provider may still be at work on a call that ended with `error`, and false if its process
    /// closed the connection, since the process is then gone.
    pub(super) fn may_go_on(&self, error: &Error) -> bool {
        match error {
            Error::Cancelled { .. } | Error::Timeout { .. } => true,
            Error::ConnectionLost { .. } => self.connection.aborted.is_cancelled(),
            // So a server ends a call whose deadline has passed, whatever its handler does.
            Error::Unexplained { code, .. } => is_cut_off(*code),
            _ => false,
        }
    }

    /// Annotations of Services that are read, if the provider serves load balancers.
    pub fn annotations_of_services(&self) -> Option<ReadAnnotations> {
        let load_balancers = self.load_balancers.as_ref()?;
        Some(ReadAnnotations::of_services(&load_balancers.capability))
    }

    /// Annotations of Nodes that are read.
    pub fn annotations_of_nodes(&self) -> ReadAnnotations {
        let effects = self.node_effects.as_ref();
        let writes = effects.map_or(&[][..], |effects| &effects.annotations);
        ReadAnnotations::of_nodes(&self.node_annotation_prefixes, writes)
    }

    /// The prefixes of effects that the provider declares and under which the operator grants nothing, with the remedy,
    /// for people; none if there are none.
    pub fn grants_missing(&self) -> Option<String> {
        let missing = &self.effects_not_granted;
        (!missing.is_empty()).then(|| {
            format!(
                "provider {} declares effects under {}, which --provider-effect-prefixes does not grant: they are not \
                 written; add those prefixes to the flag if the provider is to have them",
                self.name,
                text::cut(&missing.join(", "), MAX_SHOWN)
            )
        })
    }

    /// Returns true if the provider lacks a method. That holds until the next handshake.
    pub(super) fn lacks(&self, rpc: &'static str) -> bool {
        self.unserved.lock().contains(rpc)
    }

    /// Remembers that a method is missing, and reports it once.
    pub(super) fn note_missing(&self, method: &'static Method) {
        if self.unserved.lock().insert(method.name) {
            warn!(
                rpc = method.name,
                provider = &*self.name,
                "the provider declares a capability but answers UNIMPLEMENTED to a method of it: \
                 serve the method, or do not declare the capability"
            );
        }
    }

    /// The effects in `raw` that may be written to `object`, whose UID is `uid`, with an event about those that may
    /// not: once for the object and each cause. Without the capability there are none.
    pub(super) fn effects<'a>(
        &self,
        raw: RawEffects,
        allowed: &AllowedEffects,
        uid: &str,
        object: impl Into<EffectsObject<'a>>,
    ) -> Effects {
        if self.node_effects.is_none() {
            return raw.undeclared();
        }
        let mut effects = raw.check(allowed, object.into());
        let mut reported = self.reported_effects.lock();
        for (cause, event) in effects.dropped.reports() {
            if reported.len() >= MAX_REPORTED {
                reported.clear();
            }
            if reported.insert((uid.into(), cause)) {
                effects.events.push(event);
            }
        }
        effects
    }
}

/// How instances are looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct InstancesCapability {
    /// Nodes in one call, 1 to 200.
    pub max_batch_size: usize,
    /// The cheapest lookup of the cloud.
    pub preference: v1::LookupPreference,
    /// Prefixes of the provider IDs that belong to this provider.
    pub prefixes: Prefixes,
    /// A younger Node is not deleted.
    pub visibility_delay: Duration,
    /// True if an instance may have no provider id.
    pub without_provider_id: bool,
    /// Keys of the labels that are kept in sync after initialisation.
    pub managed_label_keys: Box<[Box<str>]>,
    /// True if instances carry Pod CIDRs.
    pub allocates_pod_cidrs: bool,
    /// Addresses that no Node of the cluster has.
    pub forbidden: ForbiddenAddresses,
}

impl InstancesCapability {
    /// The limits that an answer about an instance is checked against.
    pub(super) const fn rules(&self, empty_provider_id: bool) -> Rules<'_> {
        Rules {
            prefixes: &self.prefixes,
            empty_provider_id,
            forbidden: &self.forbidden,
        }
    }
}

/// Which Services are served, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancersCapability {
    /// The part that decides about a Service.
    pub capability: Arc<Capability>,
    /// Calls that change something at one time, 1 to 256.
    pub max_in_flight: usize,
    /// Addresses that no load balancer of the cluster has.
    pub forbidden: ForbiddenAddresses,
}

/// How routes are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutesCapability {
    /// Calls that change routes at one time, 1 to 256.
    pub max_in_flight: usize,
}
