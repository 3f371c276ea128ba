//! How volumes are printed.

use std::io::{self, Write};

use outrigger_provider_mock::control::ShownVolumes;
use outrigger_provider_mock::volumes::Volume;

use super::{Output, Rows, escaped};

pub(super) fn print(shown: &ShownVolumes, output: Output, out: &mut impl Write) -> io::Result<()> {
    if shown.volumes.is_empty() && output == Output::Table {
        return writeln!(out, "there are no volumes");
    }
    let row = |volume: &Volume| {
        let or_dash = |text: String| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                text
            }
        };
        [
            volume.handle.clone(),
            or_dash(volume.region.clone()),
            or_dash(volume.zones.join(",")),
            volume.state.to_string(),
        ]
    };
    Rows {
        headings: ["HANDLE", "REGION", "ZONES", "STATE"],
        rows: shown.volumes.iter().map(row).collect(),
    }
    .print(output, out)
}

pub(super) fn print_changed(
    done: &str,
    changed: &ShownVolumes,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut volumes = changed.volumes.iter();
    volumes.try_for_each(|volume| writeln!(out, "{done} {}", escaped(&volume.handle)))
}
