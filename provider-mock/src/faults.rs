//! Faults on purpose.
//!
//! Faults stand between the caller and a provider that is itself correct: they hold a call, answer
//! it with an error, or spoil its answer. They are tried in the order in which they were set, and a
//! fault whose budget is used up is gone.

mod bad_answer;
mod bad_load_balancer;
mod code;
mod error;
mod method;

use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub use bad_answer::BadAnswer;
pub use code::Code;
pub use error::InjectedError;
pub use method::Method;

use crate::duration;
use crate::instances::NodeName;

/// Something that goes wrong, where, and how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Fault {
    /// The method it happens to; absent: to each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// The node whose answer it happens to; absent: to each. Not for a whole call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// The Service that it happens to, by `namespace/name` or UID; absent: to each. Of a call about
    /// one Service the whole call, of an update its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The effect.
    pub effect: Effect,
    /// How often.
    #[serde(default)]
    pub budget: Budget,
}

/// The effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// The call fails.
    Error(InjectedError),
    /// Single items of an answer fail, the call does not.
    ItemError(InjectedError),
    /// The call is held: so long, or until the faults are cleared or the caller goes away. Then it
    /// is served.
    #[serde(rename_all = "camelCase")]
    Hang {
        /// How long; absent: for ever.
        #[serde(default, rename = "for", with = "duration::optional")]
        duration: Option<Duration>,
    },
    /// The call is served, and its answer lost: the caller learns nothing of the outcome.
    LoseReply,
    /// The answer is nonsense.
    BadAnswer(BadAnswer),
}

impl Effect {
    /// Two effects of a kind replace each other where a person sets them.
    fn same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    fn is_about_items(&self) -> bool {
        matches!(self, Self::ItemError(_) | Self::BadAnswer(_))
    }
}

/// How often a fault happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Budget {
    /// Each time, until it is cleared.
    #[default]
    Always,
    /// So many times, then never again.
    Count(u64),
    /// With this probability, 0 to 1.
    Rate(f64),
}

impl Fault {
    /// This effect on each call of a method.
    pub fn on(method: Method, effect: Effect) -> Self {
        Self {
            method: Some(method),
            node: None,
            service: None,
            effect,
            budget: Budget::Always,
        }
    }

    /// So many times only.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self {
            budget: Budget::Count(count),
            ..self
        }
    }

    /// With this probability, 0 to 1.
    #[must_use]
    pub fn with_rate(self, rate: f64) -> Self {
        Self {
            budget: Budget::Rate(rate),
            ..self
        }
    }

    /// For this node only.
    #[must_use]
    pub fn for_node(self, node: NodeName) -> Self {
        Self {
            node: Some(node),
            ..self
        }
    }

    /// For this Service only, by `namespace/name` or UID.
    #[must_use]
    pub fn for_service(self, service: &str) -> Self {
        Self {
            service: Some(service.to_owned()),
            ..self
        }
    }

    /// Says what makes no sense about it, if anything does.
    pub fn check(&self) -> Result<(), String> {
        match self.budget {
            Budget::Rate(rate) if !(0.0..=1.0).contains(&rate) => {
                return Err(format!("the rate {rate} is no probability; use 0 to 1"));
            }
            Budget::Count(0) => return Err("a count of 0 would do nothing; use 1 or more".into()),
            _ => {}
        }
        if let Some(method) = self.method {
            match &self.effect {
                Effect::ItemError(_) if !method.has_items() => {
                    return Err(format!(
                        "{method} has no errors of single items; use BatchGetInstances or \
                         UpdateLoadBalancerNodes"
                    ));
                }
                Effect::BadAnswer(bad) if !bad.fits(method) => {
                    return Err(format!("{method} has no answers that could be {bad}"));
                }
                _ => {}
            }
        }
        if self.node.is_some() && !self.effect.is_about_items() {
            return Err("a whole call cannot fail for one node; fail its item instead".into());
        }
        if let (Some(_), Some(method)) = (&self.service, self.method) {
            if !method.is_about_services() {
                return Err(format!("{method} is not about a Service"));
            }
            if method == Method::UpdateLoadBalancerNodes && !self.effect.is_about_items() {
                return Err(
                    "an update is about many Services; fail the item of one instead".into(),
                );
            }
        }
        Ok(())
    }
}

/// Faults that are set, and those who wait because of one.
#[derive(Debug)]
pub(crate) struct Faults {
    set: Mutex<Set>,
    cleared: watch::Sender<()>,
}

#[derive(Debug)]
struct Set {
    faults: Vec<Fault>,
    random: fastrand::Rng,
}

impl Faults {
    pub(crate) fn new(random: fastrand::Rng) -> Self {
        let set = Mutex::new(Set {
            faults: Vec::new(),
            random,
        });
        Self {
            set,
            cleared: watch::Sender::new(()),
        }
    }

    /// After those that are set.
    pub(crate) fn add(&self, fault: Fault) {
        self.set.lock().faults.push(fault);
    }

    /// Instead of those of its kind, method, node and Service.
    pub(crate) fn replace(&self, fault: Fault) {
        let mut set = self.set.lock();
        set.faults.retain(|old| {
            old.method != fault.method
                || old.node != fault.node
                || old.service != fault.service
                || !old.effect.same_kind(&fault.effect)
        });
        set.faults.push(fault);
    }

    /// Removes all and lets go of every call that hangs; says how many there were.
    pub(crate) fn clear(&self) -> usize {
        let removed = std::mem::take(&mut self.set.lock().faults).len();
        self.cleared.send_replace(());
        removed
    }

    /// Those that are set, with what is left of their budget.
    pub(crate) fn list(&self) -> Vec<Fault> {
        self.set.lock().faults.clone()
    }

    /// Holds the call if it hangs, then fails it if it fails.
    pub(crate) async fn interfere(
        &self,
        method: Method,
        about: &About,
    ) -> Result<(), InjectedError> {
        // Subscribed before the faults are read, so that no clear() is missed.
        let mut cleared = self.cleared.subscribe();
        let hang = self.take(method, about, |effect| match effect {
            Effect::Hang { duration } => Some(*duration),
            _ => None,
        });
        if let Some(duration) = hang {
            let released = cleared.changed();
            match duration {
                Some(duration) => {
                    let _ = tokio::time::timeout(duration, released).await;
                }
                None => {
                    let _ = released.await;
                }
            }
        }
        let error = self.take(method, about, |effect| match effect {
            Effect::Error(error) => Some(error.clone()),
            _ => None,
        });
        error.map_or(Ok(()), Err)
    }

    /// Whether the answer is lost after the call was served.
    pub(crate) fn loses_reply(&self, method: Method, about: &About) -> bool {
        let lost = self.take(method, about, |effect| {
            matches!(effect, Effect::LoseReply).then_some(())
        });
        lost.is_some()
    }

    /// The error of one item, if it fails.
    pub(crate) fn item_error(&self, method: Method, about: &About) -> Option<InjectedError> {
        self.take(method, about, |effect| match effect {
            Effect::ItemError(error) => Some(error.clone()),
            _ => None,
        })
    }

    /// How the answer is spoilt, and for which of its items (all that the fault concerns), if it is.
    pub(crate) fn bad_answer(&self, method: Method, items: &[About]) -> Option<(BadAnswer, Fault)> {
        self.set.lock().take(|fault| match fault.effect {
            Effect::BadAnswer(bad)
                if concerns(fault, method)
                    && bad.fits(method)
                    && items.iter().any(|item| fault.is_about(item)) =>
            {
                Some((bad, fault.clone()))
            }
            _ => None,
        })
    }

    /// Whether a fault of this method is limited to a Service, so that it must be known.
    pub(crate) fn names_a_service(&self, method: Method) -> bool {
        let set = self.set.lock();
        let mut faults = set.faults.iter();
        faults.any(|fault| concerns(fault, method) && fault.service.is_some())
    }

    /// Whether an answer of this method may have to be changed.
    pub(crate) fn may_spoil(&self, method: Method) -> bool {
        let set = self.set.lock();
        set.faults
            .iter()
            .any(|fault| concerns(fault, method) && fault.effect.is_about_items())
    }

    fn take<T>(
        &self,
        method: Method,
        about: &About,
        pick: impl Fn(&Effect) -> Option<T>,
    ) -> Option<T> {
        self.set.lock().take(|fault| {
            let here = concerns(fault, method) && fault.is_about(about);
            if here { pick(&fault.effect) } else { None }
        })
    }
}

/// The subject of a call, or of one item of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) node: Option<String>,
    /// `namespace/name` and UID.
    pub(crate) service: Option<(String, String)>,
}

impl About {
    pub(crate) fn node(name: &str) -> Self {
        Self {
            node: Some(name.to_owned()),
            service: None,
        }
    }

    pub(crate) fn service(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            node: None,
            service: Some((format!("{namespace}/{name}"), uid.to_owned())),
        }
    }
}

impl Fault {
    pub(crate) fn is_about(&self, about: &About) -> bool {
        let node = self
            .node
            .as_ref()
            .is_none_or(|wanted| about.node.as_deref() == Some(wanted.as_str()));
        let service = self.service.as_ref().is_none_or(|wanted| {
            let service = about.service.as_ref();
            service.is_some_and(|(name, uid)| name == wanted || uid == wanted)
        });
        node && service
    }
}

fn concerns(fault: &Fault, method: Method) -> bool {
    fault.method.is_none_or(|wanted| wanted == method)
}

impl Set {
    /// The first fault that `pick` wants and whose budget lets it happen.
    fn take<T>(&mut self, pick: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        for (index, fault) in self.faults.iter_mut().enumerate() {
            let Some(picked) = pick(fault) else { continue };
            match &mut fault.budget {
                Budget::Always => return Some(picked),
                Budget::Rate(rate) => {
                    if self.random.f64() < *rate {
                        return Some(picked);
                    }
                }
                Budget::Count(left) => {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        self.faults.remove(index);
                    }
                    return Some(picked);
                }
            }
        }
        None
    }
}
