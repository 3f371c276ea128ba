//! `provider-mock defects`.

use outrigger_provider_mock::defects;

use super::show::{Output, Shown, Text};

/// Prints all defects: for people a table, else a line each with fields separated by tabs.
pub(crate) fn run() -> anyhow::Result<()> {
    let rows = defects::all().into_iter().map(|one| {
        let seed = one
            .explored
            .map(|one| format!("explore --seed {}", one.seed));
        let cases = one.cases.into_iter().map(str::to_owned);
        let cases = cases.chain(seed).collect::<Vec<_>>().join(" ");
        vec![one.name.to_owned(), cases, one.sentence.to_owned()]
    });
    let text = Text::Rows {
        none: "",
        headings: &["NAME", "CASES", "MISTAKE"],
        rows: rows.collect(),
    };
    let shown = Shown::new(&(), text)?;
    Ok(shown.print(Output::for_stdout(), &mut std::io::stdout().lock())?)
}
