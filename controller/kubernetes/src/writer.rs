//! Writes to objects: planned on what the store holds, refused by what changed meanwhile, planned again.
//!
//! RBAC: `get` and `patch` on the resource, `patch` on its `status` for the writes that go there.

use std::sync::Arc;

use outrigger_core::error_class::ErrorClass;

use super::{
    api::{Api, Written},
    error::ApiError,
    patch::Patch,
    store::{Store, View},
};

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
}

impl<V: View> ObjectWriter<V> {
    /// Writes through `api`, which is fenced by the leader's lease term.
    pub const fn new(api: Api, store: Arc<Store<V>>) -> Self {
        Self { api, store }
    }

    /// Makes `write`, planned on `object`. Returns the object as it is then, or none if it is gone or has become
    /// another of the same name.
    ///
    /// # Errors
    /// An error of the class `conflict` if the write does not fit what the object has become, which the store knows by then:
    /// a new plan helps. [`ApiError::Refused`] if validation or a policy does not take it for the object as it was
    /// planned on (S-38).
    pub async fn write(
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

    /// Makes the write that `decide` asks for, if it asks for one: on `object` first, and once more on what the API
    /// server holds where that is another (N-20). Returns as [`Self::write`].
    ///
    /// # Errors
    /// Those of [`Self::write`], and those of `decide`.
    pub async fn settle<W: ObjectWrite<V>, E: From<ApiError>>(
        &self,
        mut object: Arc<V>,
        mut decide: impl FnMut(&V) -> Result<Option<W>, E>,
    ) -> Result<Option<Arc<V>>, E> {
        let mut is_live = false;
        while let Some(write) = decide(&object)? {
            match self.send(&object, &write).await {
                Err(error) if error.may_be_outdated() && !is_live => {
                    let Some((_, live)) = self.look(&object, error).await? else {
                        return Ok(None);
                    };
                    is_live = true;
                    object = live;
                }
                sent => return Ok(sent?),
            }
        }
        Ok(Some(object))
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
                let version = &*written.metadata.resource_version;
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

    /// The object as the store has it, if it is still there.
    fn newest(&self, object: &Arc<V>) -> Arc<V> {
        let held = self.store.get(object.key());
        let same = held.filter(|held| held.uid() == object.uid());
        same.unwrap_or_else(|| Arc::clone(object))
    }
}

#[cfg(test)]
mod tests;
