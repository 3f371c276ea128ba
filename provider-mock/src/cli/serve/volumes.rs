//! Flags about volumes.

use clap::Args;
use outrigger_provider_mock::ServedVolumes;

#[derive(Debug, Args)]
pub(super) struct VolumeArgs {
    /// A CSI driver with volumes that are looked up; may be repeated
    #[arg(long = "csi-driver", value_name = "DRIVER")]
    csi_drivers: Vec<String>,

    /// Look up volumes of the in-tree kinds too
    #[arg(long)]
    in_tree_volumes: bool,

    /// Most volumes in one lookup
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500), value_name = "N")]
    volume_max_batch_size: u32,
}

impl VolumeArgs {
    pub(super) fn served(&self) -> Option<ServedVolumes> {
        let is_any = self.in_tree_volumes || !self.csi_drivers.is_empty();
        is_any.then(|| ServedVolumes {
            csi_drivers: self.csi_drivers.clone(),
            in_tree: self.in_tree_volumes,
            max_batch_size: self.volume_max_batch_size,
        })
    }
}
