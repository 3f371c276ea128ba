//! Faults that are set, and the calls that they happen to.

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{About, BadAnswer, Budget, Effect, Fault, InjectedError, Method};

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

    /// Those that are set, with what is left of their budget.
    pub(crate) fn list(&self) -> Vec<Fault> {
        self.set.lock().faults.clone()
    }

    /// Whether calls fail since the cloud refuses the credentials.
    pub(crate) fn refuse_credentials(&self) -> bool {
        let set = self.set.lock();
        set.faults.iter().any(|fault| match &fault.effect {
            Effect::Error(error) => error.code.0 == tonic::Code::Unauthenticated,
            _ => false,
        })
    }

    /// Hangs the call, which is about so many items, then fails it, as the faults are set.
    pub(crate) async fn interfere(
        &self,
        method: Method,
        about: &About,
        items: usize,
    ) -> Result<(), InjectedError> {
        // Subscribed before the faults are read, so that no clear() is missed.
        let mut cleared = self.cleared.subscribe();
        let hang = self.take(method, about, |effect| match effect {
            Effect::Hang { duration } => Some(*duration),
            Effect::OneAfterTheOther { each } => Some(Some(*each * items as u32)),
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

    /// Whether a fault of this method depends on the objects that the request names.
    pub(crate) fn need_subjects(&self, method: Method) -> bool {
        let set = self.set.lock();
        let mut faults = set.faults.iter();
        faults.any(|fault| concerns(fault, method) && fault.needs_subjects(method))
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
