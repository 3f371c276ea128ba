//! What goes wrong on purpose.
//!
//! Faults stand between the caller and a provider that is itself correct: they hold a call, answer
//! it with an error, or spoil its answer. They are tried in the order in which they were set, and a
//! fault whose budget is used up is gone.

mod bad_answer;
mod code;
mod error;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub use bad_answer::BadAnswer;
pub use code::Code;
pub use error::InjectedError;

use crate::duration;
use crate::instances::NodeName;

/// A method that faults and counters know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Method {
    /// `ProviderService.Handshake`.
    Handshake,
    /// `ProviderService.GetStatus`.
    GetStatus,
    /// `InstancesService.BatchGetInstances`.
    BatchGetInstances,
    /// `InstancesService.ListInstances`.
    ListInstances,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Handshake,
        Self::GetStatus,
        Self::BatchGetInstances,
        Self::ListInstances,
    ];

    /// As in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Handshake => "Handshake",
            Self::GetStatus => "GetStatus",
            Self::BatchGetInstances => "BatchGetInstances",
            Self::ListInstances => "ListInstances",
        }
    }

    /// From the path of a gRPC request.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let (service, method) = path.strip_prefix("/cloudprovider.v1.")?.split_once('/')?;
        let found = Self::ALL
            .into_iter()
            .find(|known| known.as_str() == method)?;
        (service == found.service()).then_some(found)
    }

    fn service(self) -> &'static str {
        match self {
            Self::Handshake | Self::GetStatus => "ProviderService",
            Self::BatchGetInstances | Self::ListInstances => "InstancesService",
        }
    }

    pub(crate) fn answers_instances(self) -> bool {
        self.service() == "InstancesService"
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|method| method.as_str() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                format!("{text:?} is no method of the contract that the mock serves; use {known}")
            })
    }
}

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
    /// What happens.
    pub effect: Effect,
    /// How often.
    #[serde(default)]
    pub budget: Budget,
}

/// What happens.
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

    /// Says what makes no sense about it, if anything does.
    pub fn check(&self) -> Result<(), String> {
        match self.budget {
            Budget::Rate(rate) if !(0.0..=1.0).contains(&rate) => {
                return Err(format!("the rate {rate} is no probability; use 0 to 1"));
            }
            Budget::Count(0) => return Err("a count of 0 would do nothing; use 1 or more".into()),
            _ => {}
        }
        if self.effect.is_about_items()
            && let Some(method) = self.method
            && !method.answers_instances()
        {
            return Err(format!(
                "{method} answers nothing about instances; use BatchGetInstances or ListInstances"
            ));
        }
        if self.method == Some(Method::ListInstances) && matches!(self.effect, Effect::ItemError(_))
        {
            return Err("a list has no errors of single items; use BatchGetInstances".into());
        }
        if self.node.is_some() && !self.effect.is_about_items() {
            return Err("a whole call cannot fail for one node; fail its item instead".into());
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

    /// Instead of those of its kind, method and node.
    pub(crate) fn replace(&self, fault: Fault) {
        let mut set = self.set.lock();
        set.faults.retain(|old| {
            old.method != fault.method
                || old.node != fault.node
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
    pub(crate) async fn interfere(&self, method: Method) -> Result<(), InjectedError> {
        // Subscribed before the faults are read, so that no clear() is missed.
        let mut cleared = self.cleared.subscribe();
        let hang = self.take(method, None, |effect| match effect {
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
        let error = self.take(method, None, |effect| match effect {
            Effect::Error(error) => Some(error.clone()),
            _ => None,
        });
        error.map_or(Ok(()), Err)
    }

    /// The error of one item, if it fails.
    pub(crate) fn item_error(&self, method: Method, node: &str) -> Option<InjectedError> {
        self.take(method, Some(node), |effect| match effect {
            Effect::ItemError(error) => Some(error.clone()),
            _ => None,
        })
    }

    /// How the answer is spoilt, and for which of its nodes (none: for all), if it is. `holds` says
    /// whether the answer is about a node.
    pub(crate) fn bad_answer(
        &self,
        method: Method,
        holds: impl Fn(&str) -> bool,
    ) -> Option<(BadAnswer, Option<NodeName>)> {
        let mut set = self.set.lock();
        set.take(|fault| match fault.effect {
            Effect::BadAnswer(bad)
                if concerns(fault, method)
                    && fault.node.as_ref().is_none_or(|node| holds(node.as_str())) =>
            {
                Some((bad, fault.node.clone()))
            }
            _ => None,
        })
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
        node: Option<&str>,
        pick: impl Fn(&Effect) -> Option<T>,
    ) -> Option<T> {
        self.set.lock().take(|fault| {
            let here = concerns(fault, method)
                && fault
                    .node
                    .as_ref()
                    .is_none_or(|wanted| Some(wanted.as_str()) == node);
            if here { pick(&fault.effect) } else { None }
        })
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
