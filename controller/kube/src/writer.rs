//! Writes to objects: planned on what the store holds, refused by what changed meanwhile, planned again.
//!
//! ```text
//!  object of the store ─► decide ─► ObjectWrite: patch with preconditions ─┬► 200 ─► Store::written
//!                           ▲                                              └► 409, 422 ─► read, into the store ─┐
//!                           └──────────────────────────── settle ◄──────────────────────────────────────────────┘
//! ```
//!
//! A loop calls [`ObjectWriter::write`] with a change that core has planned, or [`ObjectWriter::settle`] with the decision
//! itself, which is made again on the object as it is then. A write that the API server takes from no client for now waits
//! and is sent again; any other failure is the caller's.
//!
//! RBAC: `get` and `patch` on the resource, `patch` on its `status` for the writes that go there.

use std::{sync::Arc, time::Duration};

use outrigger_core::{error_class::ErrorClass, repairs::ManagedFields};
use outrigger_runtime::{backoff::Backoff, log_repeated, telemetry::Repeats};

use super::{
    api::{Api, Written},
    error::ApiError,
    patch::Patch,
    store::{Store, View},
};

/// Waits between the tries of a write that the API server takes from no client for now.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// Tries of one write, as client-go's, which take two and a half minutes: one object that alone is refused so must not hold
/// the others up for ever.
const TRIES: u32 = 10;

/// A change of one object.
pub trait ObjectWrite<V> {
    /// The end of the path after that of the object: nothing, or `/status`.
    fn subresource(&self) -> &'static str;

    /// The body of the request, planned on `object`, which is `newest` by now.
    fn patch(&self, object: &V, newest: &V) -> Patch;

    /// A body that is cheaper for the API server, and that it refuses with 409 unless the object still has the version of
    /// `object`. There may be none.
    fn exact_patch(&self, object: &V) -> Option<Patch> {
        let _ = object;
        None
    }

    /// `object` once the API server has taken the change and answered with `version`.
    fn applied_to(&self, object: &V, version: &str) -> V;
}

/// Writes to objects of one kind, and takes what it wrote into the store.
#[derive(Clone)]
pub struct ObjectWriter<V> {
    pub(super) api: Api,
    store: Arc<Store<V>>,
    repeats: Arc<Repeats>,
}

impl<V: View> ObjectWriter<V> {
    /// Writes through `api`, which is fenced by the leader's lease term.
    pub fn new(api: Api, store: Arc<Store<V>>) -> Self {
        Self {
            api,
            store,
            repeats: Arc::default(),
        }
    }

    /// Makes `write`, planned on `object`, and again where the API server takes no write for now. Returns the object as it is
    /// then, or none if it is gone or has become another of the same name.
    ///
    /// # Errors
    /// An error of the class `conflict` if the write does not fit what the object has become, which the store knows by then: a
    /// new plan helps. [`ApiError::Refused`] if validation or a policy does not take it for the object as it was planned on
    /// (S-38).
    pub async fn write(
        &self,
        object: &Arc<V>,
        write: &impl ObjectWrite<V>,
    ) -> Result<Option<Arc<V>>, ApiError> {
        let mut tries = 0;
        loop {
            match self.write_once(object, write).await {
                Err(error) if self.waits(object, &error, &mut tries).await => {
                    if self.newest(object).resource_version() != object.resource_version() {
                        return Err(ApiError::Outdated(error.to_string()));
                    }
                }
                sent => return sent,
            }
        }
    }

    /// [`Self::write`] in one try, for a write that rests on more than the object: it is to be judged again after a wait.
    ///
    /// # Errors
    /// Those of [`Self::write`].
    pub async fn write_once(
        &self,
        object: &Arc<V>,
        write: &impl ObjectWrite<V>,
    ) -> Result<Option<Arc<V>>, ApiError> {
        match self.send(object, write).await {
            Err(error) if error.may_be_outdated() => match self.look(object, error).await? {
                Some((error, _)) => Err(error),
                None => Ok(None),
            },
            sent => sent,
        }
    }

    /// Makes the write that `decide` asks for, if it asks for one: on `object` first, once more on what the API
    /// server holds where that is another (N-20), and again after each wait, on what the store holds by then. Returns as
    /// [`Self::write`].
    ///
    /// # Errors
    /// Those of [`Self::write`], and those of `decide`.
    pub async fn settle<W: ObjectWrite<V>, E: From<ApiError>>(
        &self,
        mut object: Arc<V>,
        mut decide: impl FnMut(&V) -> Result<Option<W>, E>,
    ) -> Result<Option<Arc<V>>, E> {
        let mut is_live = false;
        let mut tries = 0;
        while let Some(write) = decide(&object)? {
            match self.send(&object, &write).await {
                Err(error) if error.may_be_outdated() && !is_live => {
                    let Some((_, live)) = self.look(&object, error).await? else {
                        return Ok(None);
                    };
                    is_live = true;
                    object = live;
                }
                Err(error) if self.waits(&object, &error, &mut tries).await => {
                    object = self.newest(&object);
                }
                sent => return Ok(sent?),
            }
        }
        Ok(Some(object))
    }

    /// Waits after `error` if a write of `object` that ended so is to be sent again: the API server has not taken it, and takes
    /// none for now, for a reason that is not in the object. At least as long as the API server asks for. The wait ends early
    /// when this process stops; another try follows, and no wait after it.
    async fn waits(&self, object: &Arc<V>, error: &ApiError, tries: &mut u32) -> bool {
        *tries += 1;
        let Some(shortest) = error.takes_nothing_for() else {
            return false;
        };
        if *tries >= TRIES {
            return false;
        }
        log_repeated!(
            warn, self.repeats, "throttled",
            path = object.path(), %error, "the API server takes no writes for now; they are sent again"
        );
        let wait = BACKOFF.delay(*tries - 1, Duration::MAX, 0.0).max(shortest);
        self.api.pause(wait).await
    }

    async fn send(
        &self,
        object: &Arc<V>,
        write: &impl ObjectWrite<V>,
    ) -> Result<Option<Arc<V>>, ApiError> {
        let subresource = write.subresource();
        let path = object.path() + subresource;
        let is_exact = self.store.is_exact(object, subresource);
        if let Some(patch) = is_exact.then(|| write.exact_patch(object)).flatten() {
            match self.api.patch(&path, &patch).await {
                // Another client was faster, perhaps with something else.
                Err(error) if error.class() == ErrorClass::Conflict => {}
                answer => return self.answered(object, write, answer, Some(subresource)),
            }
        }
        let patch = write.patch(object, &self.newest(object));
        let answer = self.api.patch(&path, &patch).await;
        self.answered(object, write, answer, None)
    }

    /// Takes the answer to `write` into the store ([`Store::written`]).
    fn answered(
        &self,
        object: &Arc<V>,
        write: &impl ObjectWrite<V>,
        answer: Result<Written, ApiError>,
        presumed: Option<&'static str>,
    ) -> Result<Option<Arc<V>>, ApiError> {
        match answer {
            Ok(written) => {
                let version = &*written.resource_version;
                // The watch's newer state is under the patch.
                let apply = |held: &V| write.applied_to(held, version);
                let (key, uid) = (object.key(), object.uid());
                let view = self.store.written(key, uid, version, presumed, apply);
                Ok(Some(view.unwrap_or_else(|| Arc::new(apply(object)))))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Looks whether a write failed with `error` since `object` is not what it was planned on. Returns the error of
    /// the class `conflict` and the object as it is, or none if it is gone.
    ///
    /// # Errors
    /// `error`, if the object is as it was, or cannot be read: the first error is the more precise one.
    async fn look(
        &self,
        object: &Arc<V>,
        error: ApiError,
    ) -> Result<Option<(ApiError, Arc<V>)>, ApiError> {
        let live = match self.read(object).await {
            Ok(Some(live)) => live,
            Ok(None) => return Ok(None),
            Err(_) => return Err(error),
        };
        match error {
            ApiError::Refused(_) if live.resource_version() == object.resource_version() => {
                Err(error)
            }
            ApiError::Refused(message) => Ok(Some((ApiError::Outdated(message), live))),
            conflict => Ok(Some((conflict, live))),
        }
    }

    /// The object as it is, taken into the store, or none if it is gone or has become another of the same name.
    ///
    /// # Errors
    /// Any [`ApiError`] but "not found".
    pub async fn read(&self, object: &V) -> Result<Option<Arc<V>>, ApiError> {
        match self.api.get::<V>(&object.path()).await {
            Ok(live) if live.uid() == object.uid() => {
                let live = Arc::new(live);
                self.store.refresh(&live);
                // The watch may have been faster.
                Ok(Some(self.newest(&live)))
            }
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The writers of the object's fields, as the API server has them; nothing if it cannot be read.
    pub async fn managed_fields(&self, object: &V) -> Vec<ManagedFields> {
        let read = self.api.managed_fields(&object.path()).await;
        read.unwrap_or_default()
    }

    /// The object as the store has it, if it is still there.
    fn newest(&self, object: &Arc<V>) -> Arc<V> {
        let held = self.store.newest(object);
        held.unwrap_or_else(|| Arc::clone(object))
    }
}

#[cfg(test)]
mod tests;
