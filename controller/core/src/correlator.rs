//! Which events are written, and as what: client-go's correlator as a value (E-1 to E-5).
//!
//! An event that repeats raises the count of the stored event (E-2). Many events that differ by their
//! messages only are folded into one (E-3). A source with too many events about one object is rate
//! limited (E-4), a single reason of it earlier than the rest. The memory of all this is bounded.

mod lru;

#[cfg(test)]
mod tests;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::Timestamp;

use self::lru::Lru;
use crate::service::ServiceView;

/// The prefix of a folded message (E-3).
pub const FOLDED: &str = "(combined from similar events): ";

/// The longest message in bytes; `events.k8s.io` allows no more.
pub const MAX_MESSAGE: usize = 1024;

/// How much is remembered: client-go's number, for each of the three caches.
const CAPACITY: usize = 4096;

/// That many different messages are written as they are. client-go's comment is "more than 10", and it
/// folds the tenth.
const DISTINCT_MESSAGES: usize = 9;

/// Similar events are those with less than this between one and the next.
const SIMILAR_WITHIN_SECONDS: f64 = 600.0;

/// Events that one source may write about one object in one go, and how long it takes to earn
/// another one.
const BURST: f64 = 25.0;
const SECONDS_PER_EVENT: f64 = 300.0;

/// The part of the burst that is reserved for reasons with fewer events, each of which earns half of the rate.
/// In client-go one reason can use up all; here some reasons are a provider's, and the controller's
/// own events come last.
const SHARE: f64 = 5.0;

/// A name longer than this is no DNS subdomain, and the API server refuses it.
const MAX_NAME: usize = 253;

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// For example `v1`.
    pub api_version: &'static str,
    /// For example `Node`.
    pub kind: &'static str,
    /// Empty for objects that are in no namespace.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`, by which `kubectl describe` finds the events of an object.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`, empty where upstream leaves it out. Events about two versions of
    /// one object can be equal.
    pub resource_version: Arc<str>,
}

impl Hash for ObjectRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            api_version,
            kind,
            namespace,
            name,
            uid,
            resource_version: _,
        } = self;
        (api_version, kind, namespace, name, uid).hash(state);
    }
}

impl ObjectRef {
    /// A `v1.Node`.
    pub fn node(name: impl Into<Arc<str>>, uid: impl Into<Arc<str>>) -> Self {
        Self {
            api_version: "v1",
            kind: "Node",
            namespace: Arc::default(),
            name: name.into(),
            uid: uid.into(),
            resource_version: Arc::default(),
        }
    }

    /// A `PersistentVolume`.
    pub fn volume(name: impl Into<Arc<str>>, uid: impl Into<Arc<str>>) -> Self {
        Self {
            kind: "PersistentVolume",
            ..Self::node(name, uid)
        }
    }

    /// A `CertificateSigningRequest`.
    pub fn csr(name: impl Into<Arc<str>>, uid: impl Into<Arc<str>>) -> Self {
        Self {
            api_version: "certificates.k8s.io/v1",
            kind: "CertificateSigningRequest",
            ..Self::node(name, uid)
        }
    }

    /// A `v1.Service`.
    pub fn service(service: &ServiceView) -> Self {
        Self {
            api_version: "v1",
            kind: "Service",
            namespace: service.namespace().into(),
            name: service.name().into(),
            uid: (&*service.uid).into(),
            resource_version: (&*service.resource_version).into(),
        }
    }

    /// A `Lease`; its UID is empty if it was never seen.
    pub fn lease(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            api_version: "coordination.k8s.io/v1",
            kind: "Lease",
            namespace: namespace.into(),
            ..Self::node(name, uid)
        }
    }

    /// Where events about it are stored (B-10).
    pub fn event_namespace(&self) -> &str {
        if self.namespace.is_empty() {
            "default"
        } else {
            &self.namespace
        }
    }
}

/// The event's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// All is well.
    Normal,
    /// Something may need an operator.
    Warning,
}

impl EventType {
    /// The value of the field `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The content of an event: the object and the component come with its recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventContent {
    /// `type`.
    pub kind: EventType,
    /// CamelCase.
    pub reason: Box<str>,
    /// For people.
    pub message: Box<str>,
}

impl EventContent {
    /// A normal event.
    pub fn normal(reason: &str, message: &str) -> Self {
        Self {
            kind: EventType::Normal,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// A warning.
    pub fn warning(reason: &str, message: &str) -> Self {
        Self {
            kind: EventType::Warning,
            ..Self::normal(reason, message)
        }
    }
}

/// An event before it is correlated.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The reporting component (E-6).
    pub component: &'static str,
    /// The object concerned.
    pub object: ObjectRef,
    /// `type`.
    pub kind: EventType,
    /// CamelCase, of a small set.
    pub reason: Box<str>,
    /// For people; see [`cut`].
    pub message: String,
    /// The time of it.
    pub at: Timestamp,
}

/// The wanted state of the Event in the API server: POST it if `count` is 1, else PATCH the one of
/// this name.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// `metadata.name`, the same for all repeats.
    pub name: Arc<str>,
    /// The last of them; the message may be folded.
    pub event: Event,
    /// When the first one happened.
    pub first: Timestamp,
    /// How many there were, including those that were not written.
    pub count: u32,
}

/// Remembers events in order to correlate the next.
#[derive(Debug)]
pub struct Correlator {
    /// By source, object, type and reason.
    similar: Lru<Similar>,
    /// By the same and the message, or the same alone for folded ones.
    logged: Lru<Logged>,
    /// By source, object and type.
    budgets: Lru<Budget>,
    /// By source, object, type and reason. May be overdrawn.
    shares: Lru<Budget>,
    last_stamp: i128,
}

#[derive(Debug)]
struct Similar {
    messages: Vec<u64>,
    last: Timestamp,
}

#[derive(Debug)]
struct Logged {
    name: Arc<str>,
    first: Timestamp,
    count: u32,
}

#[derive(Debug)]
struct Budget {
    left: f64,
    last: Timestamp,
}

impl Default for Correlator {
    fn default() -> Self {
        Self::with_capacity(CAPACITY)
    }
}

impl Correlator {
    fn with_capacity(capacity: usize) -> Self {
        Self {
            similar: Lru::new(capacity),
            logged: Lru::new(capacity),
            budgets: Lru::new(capacity),
            shares: Lru::new(capacity),
            last_stamp: 0,
        }
    }

    /// The write that this event leads to; none if its source exceeds its rate (E-4). It still
    /// counts: the next one that is written has the whole count.
    pub fn observe(&mut self, mut event: Event) -> Option<Record> {
        event.message = cut(event.message, MAX_MESSAGE);
        let subject = digest(&(event.component, &event.object, event.kind));
        let group = digest(&(subject, &event.reason));
        let mut identity = digest(&(group, &event.message));
        if self.is_folded(group, identity, event.at) {
            event.message = cut(format!("{FOLDED}{}", event.message), MAX_MESSAGE);
            identity = group;
        }
        let record = self.count(identity, event);
        self.spend(subject, group, record.event.at)
            .then_some(record)
    }

    fn is_folded(&mut self, group: u64, message: u64, at: Timestamp) -> bool {
        let similar = self.similar.get_or_insert_with(group, || Similar {
            messages: Vec::new(),
            last: at,
        });
        if seconds_between(similar.last, at) > SIMILAR_WITHIN_SECONDS {
            similar.messages.clear();
        }
        similar.last = similar.last.max(at);
        // A message that was written unfolded stays unfolded. client-go forgets a random one of the
        // messages here.
        if similar.messages.contains(&message) {
            return false;
        }
        let folded = similar.messages.len() >= DISTINCT_MESSAGES;
        if !folded {
            similar.messages.push(message);
        }
        folded
    }

    fn count(&mut self, identity: u64, event: Event) -> Record {
        let last_stamp = &mut self.last_stamp;
        let logged = self.logged.get_or_insert_with(identity, || {
            // Two events of one moment, or a clock that was set back, must not share a name.
            *last_stamp = event.at.as_nanosecond().max(*last_stamp + 1);
            Logged {
                name: event_name(&event.object.name, *last_stamp),
                first: event.at,
                count: 0,
            }
        });
        logged.count = logged.count.saturating_add(1);
        Record {
            name: Arc::clone(&logged.name),
            first: logged.first,
            count: logged.count,
            event,
        }
    }

    fn spend(&mut self, subject: u64, group: u64, at: Timestamp) -> bool {
        let full = |left| move || Budget { left, last: at };
        let share = self.shares.get_or_insert_with(group, full(SHARE));
        let budget = self.budgets.get_or_insert_with(subject, full(BURST));
        share.earn(at, 2.0 * SECONDS_PER_EVENT, SHARE);
        budget.earn(at, SECONDS_PER_EVENT, BURST);
        let others = if share.left >= 1.0 { 0.0 } else { SHARE };
        let enough = budget.left >= 1.0 + others;
        if enough {
            budget.left -= 1.0;
            share.left = (share.left - 1.0).max(-BURST);
        }
        enough
    }
}

impl Budget {
    fn earn(&mut self, at: Timestamp, seconds_per_event: f64, most: f64) {
        let earned = seconds_between(self.last, at) / seconds_per_event;
        self.left = (self.left + earned).min(most);
        self.last = self.last.max(at);
    }
}

/// At most `max` bytes of `text`, on a character boundary.
pub fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max));
    }
    text
}

/// `<object>.<hex nanoseconds>` (E-1), with a long object's name cut.
fn event_name(object: &str, stamp: i128) -> Arc<str> {
    let stamp = format!(".{stamp:x}");
    let kept = object.floor_char_boundary(MAX_NAME.saturating_sub(stamp.len()));
    // A label of a DNS name may not end in one of these.
    let kept = object.get(..kept).unwrap_or_default();
    let kept = kept.trim_end_matches(['.', '-']);
    format!("{kept}{stamp}").into()
}

/// A key is a hash, since whole messages would cost a kilobyte each.
fn digest(key: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Zero when the clock went back.
fn seconds_between(earlier: Timestamp, later: Timestamp) -> f64 {
    later.duration_since(earlier).as_secs_f64().max(0.0)
}
