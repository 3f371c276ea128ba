//! The cloud's operations on volumes.

use std::collections::BTreeMap;

use super::{Cloud, RateLimited};
use crate::volumes::Volume;

impl Cloud {
    /// One call to the cloud about a volume; none: there is no such volume.
    pub async fn look_up_volume(&self, handle: &str) -> Result<Option<Volume>, RateLimited> {
        self.pay("GetVolume").await?;
        Ok(self.0.holdings.lock().volumes.get(handle).cloned())
    }

    /// All volumes, by handle.
    pub fn volumes(&self) -> Vec<Volume> {
        self.0.holdings.lock().volumes.values().cloned().collect()
    }

    /// Adds those whose handles no volume has.
    pub(super) fn add_volumes(&self, described: Vec<Volume>) {
        self.edit_volumes(|volumes| {
            for volume in described {
                volumes.entry(volume.handle.clone()).or_insert(volume);
            }
        });
    }

    /// Makes, changes and deletes volumes behind every provider's back.
    pub fn edit_volumes<T>(&self, edit: impl FnOnce(&mut BTreeMap<String, Volume>) -> T) -> T {
        let edited = edit(&mut self.0.holdings.lock().volumes);
        self.changed();
        edited
    }
}
