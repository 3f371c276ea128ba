//! Faults that are set, and the calls that they happen to.

use parking_lot::Mutex;
use tokio::sync::watch;

use super::answers::fail;
use super::{About, Budget, Effect, Fault, InjectedError, Method, Objects};
use crate::exchange::Answer;

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

    /// Instead of those of its kind, method, node, Service, route and volume.
    pub(crate) fn replace(&self, fault: Fault) {
        let mut set = self.set.lock();
        set.faults.retain(|old| {
            old.method != fault.method
                || old.node != fault.node
                || old.service != fault.service
                || old.route != fault.route
                || old.volume != fault.volume
                || !old.effect.same_kind(&fault.effect)
        });
        set.faults.push(fault);
    }

    /// Removes all and ends every call that hangs. Returns how many there were.
    pub(crate) fn clear(&self) -> usize {
        let removed = std::mem::take(&mut self.set.lock().faults).len();
        self.cleared.send_replace(());
        removed
    }

    /// The faults that are set, with what is left of their budget.
    pub(crate) fn list(&self) -> Vec<Fault> {
        self.set.lock().faults.clone()
    }

    /// True if calls fail since the cloud refuses the credentials.
    pub(crate) fn refuse_credentials(&self) -> bool {
        let set = self.set.lock();
        set.faults.iter().any(|fault| match &fault.effect {
            Effect::Error(error) => error.code.0 == tonic::Code::Unauthenticated,
            _ => false,
        })
    }

    /// Hangs the call, then fails it, as the faults are set.
    pub(crate) async fn interfere(
        &self,
        method: Method,
        objects: &Objects,
    ) -> Result<(), InjectedError> {
        // Subscribed before the faults are read, so that no clear() is missed.
        let mut cleared = self.cleared.subscribe();
        let hang = self.take(method, objects, |effect| match effect {
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
        let error = self.take(method, objects, |effect| match effect {
            Effect::Error(error) => Some(error.clone()),
            _ => None,
        });
        error.map_or(Ok(()), Err)
    }

    /// True if the answer is lost after the call was served.
    pub(crate) fn loses_reply(&self, method: Method, objects: &Objects) -> bool {
        let lost = self.take(method, objects, |effect| {
            matches!(effect, Effect::LoseReply).then_some(())
        });
        lost.is_some()
    }

    /// Fails items of an answer, and spoils it, as the faults are set.
    pub(crate) fn spoil(&self, method: Method, objects: &Objects, answer: &mut Answer) {
        // An error stays as it is.
        if answer.is_empty() || !method.has_objects() {
            return;
        }
        let items = method.answered(objects, answer);
        let mut item_error = |about: &About| {
            let error = self.first(|fault| match &fault.effect {
                Effect::ItemError(error) if fault.concerns(method) && fault.is_about(about) => {
                    Some(error.clone())
                }
                _ => None,
            });
            error.map(|error| error.to_item())
        };
        if method.is_batch() {
            fail(objects, answer, &mut item_error);
        }
        // One fault spoils one answer; two would hide each other.
        let bad = self.first(|fault| match fault.effect {
            Effect::BadAnswer(bad)
                if fault.concerns(method)
                    && method.can_be(bad)
                    && items.iter().any(|item| fault.is_about(item)) =>
            {
                Some((bad, fault.clone()))
            }
            _ => None,
        });
        if let Some((bad, fault)) = bad {
            method.spoil(bad, objects, answer, &|about| fault.is_about(about));
        }
    }

    /// True if one is set for calls of this method.
    pub(crate) fn concern(&self, method: Method) -> bool {
        self.set
            .lock()
            .faults
            .iter()
            .any(|fault| fault.concerns(method))
    }

    /// True if an answer of this method may have to be changed.
    pub(crate) fn may_spoil(&self, method: Method) -> bool {
        let set = self.set.lock();
        let mut faults = set.faults.iter();
        faults.any(|fault| fault.concerns(method) && fault.effect.is_about_items())
    }

    /// Takes a fault of a whole call.
    fn take<T>(
        &self,
        method: Method,
        objects: &Objects,
        pick: impl Fn(&Effect) -> Option<T>,
    ) -> Option<T> {
        self.first(|fault| {
            let here = fault.concerns(method) && fault.is_about_call(method, objects);
            if here { pick(&fault.effect) } else { None }
        })
    }

    fn first<T>(&self, pick: impl Fn(&Fault) -> Option<T>) -> Option<T> {
        self.set.lock().take(pick)
    }
}

impl Fault {
    fn concerns(&self, method: Method) -> bool {
        self.method.is_none_or(|own| own == method)
    }
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
