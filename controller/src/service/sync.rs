//! One Service: what is to be done now, until nothing is.

use std::time::Duration;

use outrigger_core::{
    class::ErrorClass,
    service::{
        plan::{Manner, Step},
        wants::{Wants, wants},
    },
};
use tokio::sync::SemaphorePermit;
use tracing::debug;

use super::{
    ServiceLb,
    intake::{self, Key},
    write::ATTEMPTS,
};
use crate::{clock::until, queue::Outcome};

/// How long a Service waits for the end of an earlier one of the same name (S-47): its load balancer
/// may have the address that this one asks for.
const PREDECESSOR: Duration = Duration::from_secs(30);

/// The right to work on a Service: at most so many at once.
#[derive(Default)]
pub(super) struct Turn<'a> {
    _quiet: Option<SemaphorePermit<'a>>,
    _working: Option<SemaphorePermit<'a>>,
}

impl ServiceLb {
    pub(super) async fn sync(&self, key: Key) -> Outcome {
        match (self.live(&key), self.memory.gone(&key)) {
            (None, None) => {
                self.memory.forget(&key.uid);
                Outcome::Done
            }
            (None, Some(gone)) => self.clear_away(&key, gone).await,
            (Some(_), None) => self.settle(&key).await,
            (Some(service), Some(gone)) => {
                let capability = self.capability();
                if intake::is_released(&gone.service, &service, capability.as_deref()) {
                    return self.clear_away(&key, gone).await;
                }
                // It is in our hands again.
                self.memory.done_with(&key);
                self.settle(&key).await
            }
        }
    }

    async fn settle(&self, key: &Key) -> Outcome {
        let mut turn: Option<Turn<'_>> = None;
        let mut attempt = 0;
        loop {
            let Some(service) = self.live(key) else {
                // Its end is told to the queue by the store.
                return Outcome::Done;
            };
            let Some(ground) = self.ground() else {
                return Outcome::Retry;
            };
            let now = self.now();
            let step = self.memory.with(&key.uid, |progress| {
                progress.next(now, &service, &ground.facts())
            });
            match &step {
                Step::Nothing => {
                    if !self.drifted(key, &service, &ground).await {
                        return Outcome::Done;
                    }
                    continue;
                }
                Step::Hold { why, patch, events } => {
                    debug!(
                        service = &*key.name,
                        reason = why.reason(),
                        "the Service is held"
                    );
                    let Some(patch) = patch else {
                        return Outcome::Done;
                    };
                    match self.writer.write(&service, patch).await {
                        Ok(Some(_)) => {
                            self.tell_all(&service, events);
                            // Its targets hold up the others no longer.
                            self.rollout.progressed();
                            return Outcome::Done;
                        }
                        Ok(None) => return Outcome::Done,
                        Err(error) => {
                            attempt += 1;
                            if error.class() != ErrorClass::Conflict || attempt >= ATTEMPTS {
                                return self.refused(&service, "say why it is held", &error);
                            }
                            continue;
                        }
                    }
                }
                Step::At(time) => return Outcome::RetryAfter(until(*time, now)),
                Step::Update => return self.update(key, service, &ground).await,
                Step::Prepare(_) | Step::Ensure(_) | Step::Delete { .. } => {}
            }
            if wants(&service, &ground.capability) == Wants::LoadBalancer
                && let Some(left) = self.waits_for_predecessor(key)
            {
                return Outcome::RetryAfter(left);
            }
            if turn.is_none() {
                // It takes a while, and the Service may be another then.
                let is_quiet = matches!(
                    &step,
                    Step::Ensure(ensure) if ensure.manner == Manner::Background
                );
                tokio::select! {
                    mine = self.turn(is_quiet) => turn = Some(mine),
                    // What nobody asked for may wait for hours, but a node that leaves may not.
                    () = self.rollout.announces(ground.announced), if is_quiet => {
                        let ground = self.ground_of(ground.capability);
                        self.update(key, service, &ground).await;
                    }
                }
                continue;
            }
            match step {
                Step::Prepare(patch) => match self.writer.write(&service, &patch).await {
                    Ok(Some(_)) => {
                        if patch.finalizer.is_some() {
                            self.memory.began(&key.uid);
                        }
                    }
                    Ok(None) => return Outcome::Done,
                    Err(error) => {
                        attempt += 1;
                        // Else the store knows by now what it has become.
                        if error.class() != ErrorClass::Conflict || attempt >= ATTEMPTS {
                            return self.refused(
                                &service,
                                "add load balancer cleanup finalizer",
                                &error,
                            );
                        }
                    }
                },
                Step::Ensure(ensure) => return self.ensure(key, service, ensure, &ground).await,
                Step::Delete { events } => {
                    return self.delete(key, service, &ground, &events).await;
                }
                Step::Nothing | Step::Hold { .. } | Step::At(_) | Step::Update => {}
            }
        }
    }

    /// Waits until fewer than the flag's number are worked on. What nobody asked for has a narrower
    /// door before that one.
    pub(super) async fn turn(&self, is_quiet: bool) -> Turn<'_> {
        let quiet = if is_quiet {
            // Never closed, nor the other.
            self.quiet.acquire().await.ok()
        } else {
            None
        };
        Turn {
            _quiet: quiet,
            _working: self.working.acquire().await.ok(),
        }
    }

    fn waits_for_predecessor(&self, key: &Key) -> Option<Duration> {
        let since = self.memory.predecessor(key)?;
        let left = PREDECESSOR.checked_sub(since.elapsed())?;
        (!left.is_zero()).then_some(left)
    }
}
