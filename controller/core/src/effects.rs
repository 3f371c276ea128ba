//! A provider's writes to the object of a call, a Service or a Node: checked, limited to the prefixes that it declared and
//! the operator granted, and bounded.
//!
//! ```text
//!  answer ─► RawEffects ─► check(AllowedEffects, object) ─► Effects { events, annotations, conditions } ─► the plan's patch
//!                                                              └► Dropped ─► counted, and an event on the object
//! ```
//!
//! The provider client checks the effects of each answer; the plans of Nodes and Services put what is left into their own
//! patch. Effects never spoil the answer beside them: a part that may not be written is dropped, counted by [`DropCause`],
//! and reported on the object.
//!
//! Bounds count what earlier answers have written: a key under the prefixes that the object has already takes room from a
//! new one. Nothing is removed to make room, for a user may have written it; the provider removes what it needs no longer.
//!
//! ```
//! use outrigger_core::{
//!     effects::{AllowedEffects, EffectsObject, GrantedPrefixes, RawEffects},
//!     service::ServiceView,
//! };
//!
//! let service: ServiceView = serde_json::from_str(r#"{"metadata": {"namespace": "shop", "name": "web"}}"#)?;
//! let allowed = AllowedEffects {
//!     annotations: ["vendor.example/".into()].into(),
//!     granted: GrantedPrefixes::new(["vendor.example/".to_owned()])?,
//!     ..AllowedEffects::default()
//! };
//! let of_answer = RawEffects {
//!     set_annotations: vec![
//!         ("vendor.example/plan".to_owned(), "small".to_owned()),
//!         ("kubernetes.io/ingress.class".to_owned(), "vendor".to_owned()),
//!     ],
//!     ..RawEffects::default()
//! };
//!
//! let effects = of_answer.check(&allowed, EffectsObject::from(&service));
//! let keys: Vec<&str> = effects.annotations.iter().map(|(key, _)| &**key).collect();
//! assert_eq!(keys, ["vendor.example/plan"]);
//! assert_eq!(effects.dropped.count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    condition::{Condition, Status},
    event::{EventContent, EventType},
    fault::Excerpt,
    node::{ANNOTATION_OF_KUBECTL, NodeView},
    service::ServiceView,
    string_map::StringMap,
    syntax, text,
};

mod dropped;

pub use dropped::{DropCause, Dropped};

/// Events in one answer.
pub const MAX_EVENTS: usize = 10;
/// Bytes of all annotations of an object under the provider's prefixes, keys and values.
pub const MAX_ANNOTATIONS: usize = 16 << 10;
/// Conditions of an object under the provider's prefixes.
pub const MAX_CONDITIONS: usize = 16;
/// Removals of annotations and conditions in one answer.
pub const MAX_REMOVALS: usize = 64;

/// Prefix of all our annotations and conditions.
const OURS: &str = "outrigger.dev/";

/// Domains whose annotations and conditions are no provider's, with their subdomains.
const RESERVED: [&str; 3] = ["outrigger.dev", "kubernetes.io", "k8s.io"];

/// The operator's `--provider-effect-prefixes`; none by default. Each begins with a whole domain, so that it
/// cannot grow into another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantedPrefixes(Arc<[Box<str>]>);

impl GrantedPrefixes {
    /// The grant of `prefixes`.
    ///
    /// # Errors
    /// The first that cannot be granted, and why.
    pub fn new(prefixes: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let check = |prefix: String| {
            let domain = prefix.split_once('/').map(|(domain, _)| domain);
            let domain = domain.filter(|domain| syntax::subdomain(domain).is_ok());
            let Some(domain) = domain else {
                return Err(format!(
                    "{} is no domain with a slash, such as vendor.example/ or vendor.example/status-: a prefix \
                     without one would cover other domains that begin so",
                    Excerpt::of(&prefix)
                ));
            };
            let is_within = |reserved: &&str| {
                let rest = domain.strip_suffix(reserved);
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            match RESERVED.into_iter().find(is_within) {
                Some(domain) => Err(format!(
                    "{} belongs to {domain}, which no provider may write to: annotations and conditions there \
                     direct Kubernetes and this controller",
                    Excerpt::of(&prefix)
                )),
                None => Ok(prefix.into()),
            }
        };
        let prefixes = prefixes.into_iter().map(check);
        prefixes.collect::<Result<_, _>>().map(Self)
    }

    /// Returns true if `key` is under one of them.
    pub fn has(&self, key: &str) -> bool {
        begins(key, &self.0)
    }

    /// Returns true if a key under `declared` is under one of them.
    pub fn reaches(&self, declared: &str) -> bool {
        let mut granted = self.0.iter();
        granted.any(|granted| declared.starts_with(&**granted) || granted.starts_with(declared))
    }

    /// The prefixes, as they were given.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|prefix| &**prefix)
    }
}

/// Writes to the objects of one kind that a provider may ask for: under prefixes of both lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedEffects {
    /// `EffectsCapability.service_annotation_prefixes` or `node_annotation_prefixes`.
    pub annotations: Box<[Box<str>]>,
    /// `EffectsCapability.condition_type_prefixes`.
    pub conditions: Box<[Box<str>]>,
    /// The operator's `--provider-effect-prefixes`.
    pub granted: GrantedPrefixes,
}

/// The object of a call, as it is before the effects.
#[derive(Clone, Copy, Debug)]
pub struct EffectsObject<'a> {
    annotations: &'a StringMap,
    conditions: &'a [Condition],
}

/// Effects as they arrive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawEffects {
    /// Type, reason, message.
    pub events: Vec<(String, String, String)>,
    /// Key and value.
    pub set_annotations: Vec<(String, String)>,
    /// Keys.
    pub remove_annotations: Vec<String>,
    /// Type, status, reason, message.
    pub conditions: Vec<(String, String, String, String)>,
    /// Types.
    pub remove_conditions: Vec<String>,
}

/// Effects that may be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// To be sent.
    pub events: Vec<EventContent>,
    /// Key and value; none removes the key.
    pub annotations: Vec<(Box<str>, Option<Box<str>>)>,
    /// Type, and what it becomes; none removes the type.
    pub conditions: Vec<(Box<str>, Option<DesiredCondition>)>,
    /// The rest, to be counted and reported.
    pub dropped: Dropped,
}

/// The wanted condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredCondition {
    /// `status`.
    pub status: Status,
    /// `reason`, CamelCase.
    pub reason: Box<str>,
    /// `message`.
    pub message: Box<str>,
}

impl AllowedEffects {
    /// Checks that the annotation or condition type `key` may be written, where `declared` are the provider's prefixes of
    /// its kind. A granted prefix names its domain, so that no domain of Kubernetes or of this controller is among them.
    fn check(&self, key: &str, declared: &[Box<str>]) -> Result<(), DropCause> {
        if !begins(key, declared) {
            Err(DropCause::Undeclared)
        } else if !self.granted.has(key) {
            Err(DropCause::NotGranted)
        } else {
            syntax::label_key(key).map_err(|_| DropCause::Illegal)
        }
    }

    fn annotation(&self, key: &str) -> Result<(), DropCause> {
        self.check(key, &self.annotations)
    }

    fn condition(&self, kind: &str) -> Result<(), DropCause> {
        self.check(kind, &self.conditions)
    }
}

impl<'a> From<&'a NodeView> for EffectsObject<'a> {
    fn from(node: &'a NodeView) -> Self {
        let (annotations, conditions) = (&node.annotations, &*node.conditions);
        Self {
            annotations,
            conditions,
        }
    }
}

impl<'a> From<&'a ServiceView> for EffectsObject<'a> {
    fn from(service: &'a ServiceView) -> Self {
        let (annotations, conditions) = (&service.annotations, &*service.conditions);
        Self {
            annotations,
            conditions,
        }
    }
}

impl Effects {
    /// Returns true if there is nothing to write and nothing to send.
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty() && self.annotations.is_empty() && self.conditions.is_empty()
    }
}

impl RawEffects {
    /// None of it may be written: no effects were declared at handshake.
    pub fn undeclared(self) -> Effects {
        let annotations = StringMap::default();
        let object = EffectsObject {
            annotations: &annotations,
            conditions: &[],
        };
        let mut effects = self.check(&AllowedEffects::default(), object);
        for event in effects.events.drain(..) {
            effects.dropped.add(DropCause::Undeclared, &event.reason);
        }
        effects
    }

    /// The effects that may be written to `object`. Never an error: what comes beside an answer does not spoil
    /// it.
    pub fn check(self, allowed: &AllowedEffects, object: EffectsObject<'_>) -> Effects {
        let mut effects = Effects::default();
        for (kind, reason, message) in self.events {
            match event(&kind, &reason, &message) {
                Some(_) if effects.events.len() >= MAX_EVENTS => {
                    effects.dropped.add(DropCause::TooMany, &reason);
                }
                Some(event) => effects.events.push(event),
                None => effects.dropped.add(DropCause::Illegal, &reason),
            }
        }
        let mut removals = MAX_REMOVALS;
        // In the end the removal of a key counts, also where the same answer sets it.
        let removed = removable(
            self.remove_annotations,
            &mut removals,
            |key| allowed.annotation(key),
            &mut effects.dropped,
        );
        let mut sizes: BTreeMap<Box<str>, usize> = object
            .annotations
            .iter()
            .filter(|(key, _)| allowed.annotation(key).is_ok() && !removed.contains(*key))
            .map(|(key, value)| (key.into(), key.len() + value.len()))
            .collect();
        let mut used: usize = sizes.values().sum();
        for (key, value) in self.set_annotations {
            if let Err(cause) = allowed.annotation(&key) {
                effects.dropped.add(cause, &key);
                continue;
            }
            let former = sizes.get(&*key).copied().unwrap_or_default();
            let new = key.len() + value.len();
            // An annotation that shrinks is accepted, however full the object is.
            if new > former && used - former + new > MAX_ANNOTATIONS {
                effects.dropped.add(DropCause::TooMany, &key);
                continue;
            }
            used = used - former + new;
            sizes.insert(key.as_str().into(), new);
            effects.annotations.push((key.into(), Some(value.into())));
        }
        let removed = removed.into_iter().map(|key| (key, None));
        effects.annotations.extend(removed);

        let removed = removable(
            self.remove_conditions,
            &mut removals,
            |kind| allowed.condition(kind),
            &mut effects.dropped,
        );
        let present = object.conditions.iter().map(|condition| &condition.kind);
        let mut kinds: BTreeSet<Box<str>> = present
            .filter(|kind| allowed.condition(kind).is_ok() && !removed.contains(*kind))
            .cloned()
            .collect();
        for (kind, status, reason, message) in self.conditions {
            let fits = kinds.contains(&*kind) || kinds.len() < MAX_CONDITIONS;
            match (
                allowed.condition(&kind),
                condition(&status, reason, &message),
            ) {
                (Ok(()), Some(condition)) if fits => {
                    kinds.insert(kind.as_str().into());
                    effects.conditions.push((kind.into(), Some(condition)));
                }
                (Ok(()), Some(_)) => effects.dropped.add(DropCause::TooMany, &kind),
                (Ok(()), None) => effects.dropped.add(DropCause::Illegal, &kind),
                (Err(cause), _) => effects.dropped.add(cause, &kind),
            }
        }
        let removed = removed.into_iter().map(|kind| (kind, None));
        effects.conditions.extend(removed);
        effects
    }
}

fn event(kind: &str, reason: &str, message: &str) -> Option<EventContent> {
    let kind = match kind {
        "Normal" => EventType::Normal,
        "Warning" => EventType::Warning,
        _ => return None,
    };
    syntax::reason(reason).ok()?;
    Some(EventContent {
        kind,
        reason: reason.to_owned().into(),
        message: text::message(message).into(),
    })
}

fn condition(status: &str, reason: String, message: &str) -> Option<DesiredCondition> {
    let status = Status::parse(status)?;
    syntax::reason(&reason).ok()?;
    Some(DesiredCondition {
        status,
        reason: reason.into(),
        message: text::message(message).into(),
    })
}

/// The keys that may be removed, at most `left`, which is lowered by their number.
fn removable(
    keys: Vec<String>,
    left: &mut usize,
    check: impl Fn(&str) -> Result<(), DropCause>,
    dropped: &mut Dropped,
) -> BTreeSet<Box<str>> {
    let mut removed = BTreeSet::new();
    for key in keys {
        match check(&key) {
            Ok(()) if *left > 0 => *left -= usize::from(removed.insert(key.into())),
            Ok(()) => dropped.add(DropCause::TooMany, &key),
            Err(cause) => dropped.add(cause, &key),
        }
    }
    removed
}

/// Returns true if `key` is reserved for the controller or kubectl.
pub(crate) fn is_of_controller(key: &str) -> bool {
    key.starts_with(OURS) || key == ANNOTATION_OF_KUBECTL
}

/// Returns true if `key` has one of the prefixes.
pub(crate) fn begins(key: &str, prefixes: &[Box<str>]) -> bool {
    prefixes.iter().any(|prefix| key.starts_with(&**prefix))
}

#[cfg(test)]
mod tests;
