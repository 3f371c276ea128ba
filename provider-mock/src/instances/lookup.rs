//! Answers one lookup, and creates the instance if the rules say so.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::spec::{derived_id, synthesized_addresses};
use super::{Instance, InstanceId, InstanceSpec, Inventory, NodeName, Placement, PodCidrRange};

/// The subject of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupRequest {
    /// The id if the Node has one, else the name.
    pub key: Key,
    /// The IP addresses of the node's kubelet; a synthesised instance gets them.
    pub provided: Vec<IpAddr>,
}

/// How an instance is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// By id, with the name of the Node that carries the id.
    Id(InstanceId, Option<NodeName>),
    /// By node name.
    Name(NodeName),
}

/// The cloud's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupResult {
    /// It exists.
    Instance(Arc<Instance>),
    /// It does not exist.
    Absent,
    /// It exists, but is so young that this cloud does not show it yet.
    NotVisibleYet,
}

/// How lookups behave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) synthesize: bool,
    pub(crate) placement: &'a Placement,
    pub(crate) pod_cidrs: &'a [PodCidrRange],
    pub(crate) visibility_delay: Duration,
    pub(crate) now: Timestamp,
}

impl Inventory {
    /// Looks an instance up. If it does not exist, it is synthesised where the rules allow it.
    ///
    /// An id is synthesised only if it derives from its Node's name: then an earlier run of the mock
    /// initialised that Node. Any other id never existed.
    pub(crate) fn look_up_or_create(
        &mut self,
        request: &LookupRequest,
        rules: Rules<'_>,
    ) -> LookupResult {
        let existing = match &request.key {
            Key::Id(id, _) => self.by_id(id.as_str()),
            Key::Name(name) => self.by_name(name.as_str()),
        };
        let instance = match existing {
            Some(instance) => Some(Arc::clone(instance)),
            None if rules.synthesize => self.synthesize(request, rules),
            None => None,
        };
        match instance {
            None => LookupResult::Absent,
            Some(instance) if is_visible(&instance, rules) => LookupResult::Instance(instance),
            Some(_) => LookupResult::NotVisibleYet,
        }
    }

    fn synthesize(&mut self, request: &LookupRequest, rules: Rules<'_>) -> Option<Arc<Instance>> {
        let name = match &request.key {
            Key::Name(name) => name,
            Key::Id(id, Some(name)) if *id == derived_id(name, 0) => name,
            Key::Id(..) => return None,
        };
        if self.was_deleted(name) {
            return None;
        }
        let spec = InstanceSpec {
            addresses: synthesized_addresses(name, &request.provided),
            ..InstanceSpec::named(name.clone())
        };
        let built = spec.build(rules.placement, 0, rules.now);
        self.insert_with_blocks(built, rules.pod_cidrs).ok()
    }
}

/// True if the cloud shows the instance to lookups and lists.
pub(crate) fn is_visible(instance: &Instance, rules: Rules<'_>) -> bool {
    let age = rules.now.duration_since(instance.created_at);
    rules.visibility_delay.is_zero()
        || Duration::try_from(age).is_ok_and(|age| age >= rules.visibility_delay)
}
