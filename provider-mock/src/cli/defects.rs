//! `provider-mock defects`.

use std::io::{self, IsTerminal as _, Write as _};

use comfy_table::{ContentArrangement, Table, presets};
use outrigger_provider_mock::defects;

/// Prints all defects: for people a table, else a line each with fields separated by tabs.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        for one in defects::all() {
            writeln!(
                out,
                "{}\t{}\t{}",
                one.name,
                one.cases.join(","),
                one.sentence
            )?;
        }
        return Ok(());
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["NAME", "CASES", "MISTAKE"]);
    for one in defects::all() {
        table.add_row([one.name, &one.cases.join(" "), one.sentence]);
    }
    writeln!(out, "{table}")?;
    Ok(())
}
