//! The loop's memory of one lease term.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use outrigger_core::volume::VolumeView;
use parking_lot::Mutex;

use outrigger_provider::Session;

/// Volumes with an answer from which no write follows: as long as the question is the same, it is not asked
/// again. And the last warning about each, so that an event is not repeated with each try.
#[derive(Debug, Default)]
pub struct VolumeState {
    answered: Mutex<HashMap<Arc<str>, u64>>,
    reported: Mutex<HashMap<Arc<str>, String>>,
}

impl VolumeState {
    /// The answer about `volume` stands until the question is another one.
    pub(super) fn remember(&self, volume: &VolumeView, session: &Session) {
        let question = question(volume, session);
        self.answered
            .lock()
            .insert(Arc::clone(&volume.name), question);
    }

    /// True if the provider has answered this question already.
    pub(super) fn knows(&self, volume: &VolumeView, session: &Session) -> bool {
        let answered = self.answered.lock();
        answered.get(&volume.name) == Some(&question(volume, session))
    }

    /// True if `message` differs from the last one about the volume.
    pub(super) fn is_news(&self, name: &Arc<str>, message: &str) -> bool {
        let before = self
            .reported
            .lock()
            .insert(Arc::clone(name), message.to_owned());
        before.is_none_or(|before| before != message)
    }

    /// The volume is gone.
    pub(super) fn forget(&self, name: &str) {
        self.answered.lock().remove(name);
        self.reported.lock().remove(name);
    }
}

fn question(volume: &VolumeView, session: &Session) -> u64 {
    let mut hasher = DefaultHasher::new();
    (
        &volume.uid,
        &volume.source,
        &volume.labels,
        &session.boot_id,
    )
        .hash(&mut hasher);
    hasher.finish()
}
