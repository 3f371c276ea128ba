//! The mock's volumes.

use outrigger_provider_mock::{
    control::Command,
    volumes::{Volume, VolumeState},
};

use super::Mock;

impl Mock {
    /// Makes a volume of the region `north` and the zones `a` and `b`, or lets it answer otherwise.
    pub(crate) async fn set_volume(&self, handle: &str, state: VolumeState) {
        let volume = Volume {
            handle: handle.to_owned(),
            region: "north".to_owned(),
            zones: vec!["a".to_owned(), "b".to_owned()],
            state,
        };
        self.command(Command::SetVolume(volume)).await;
    }

    /// How many lookups of volumes it has answered.
    pub(crate) async fn volume_lookups(&self) -> u64 {
        let counts = self.counts().await;
        counts.calls("GetVolume", "OK")
    }
}
