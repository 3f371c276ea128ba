//! The cases themselves, as a table, as Markdown for the documents, and as JSON.

use std::fmt::Write as _;

use comfy_table::{Table, presets};
use serde_json::{Value, json};

use crate::case::Case;

/// The areas in their order, by the letters of their ids.
pub const AREAS: [(&str, &str); 9] = [
    ("TRN", "Transport"),
    ("IDN", "Handshake and status"),
    ("ERR", "Errors"),
    ("INS", "Instances"),
    ("LBS", "Load balancers"),
    ("NDS", "Node sets"),
    ("RTE", "Routes"),
    ("VOL", "Volumes"),
    ("RES", "Resilience"),
];

/// The letters of a case's area.
pub fn area(case: &Case) -> &'static str {
    case.id.split('-').next().unwrap_or_default()
}

/// A line for each case; in a pipe separated by tabs.
pub fn table(cases: &[Case], terminal: bool) -> String {
    let row = |case: &Case| {
        [
            case.id.to_owned(),
            case.level.to_string(),
            name(case),
            mutates(case).to_owned(),
            case.title.to_owned(),
        ]
    };
    if !terminal {
        let lines = cases.iter().map(|case| row(case).join("\t"));
        return lines.collect::<Vec<_>>().join("\n");
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["ID", "LEVEL", "CAPABILITY", "CLOUD", "CASE"])
        .add_rows(cases.iter().map(row));
    table.to_string()
}

/// A table for each area, for docs/conformance.md.
pub fn markdown(cases: &[Case]) -> String {
    let mut text = String::new();
    for (letters, title) in AREAS {
        let of_area: Vec<_> = cases.iter().filter(|case| area(case) == letters).collect();
        if of_area.is_empty() {
            continue;
        }
        let _ = write!(
            text,
            "### {title}\n\n| id | case | level | capability | cloud |\n|---|---|---|---|---|\n"
        );
        for case in of_area {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                case.id,
                case.title,
                case.level,
                name(case),
                mutates(case)
            );
        }
        text.push('\n');
    }
    text
}

/// An array of all.
///
/// # Errors
///
/// No error in practice: the cases are plain texts.
pub fn json(cases: &[Case]) -> serde_json::Result<String> {
    let entry = |case: &Case| {
        let mut entry = entry(case);
        entry["inputs"] = json!(case.needs);
        entry
    };
    let entries: Value = cases.iter().map(entry).collect();
    serde_json::to_string_pretty(&entries)
}

/// The case for machines, as in every report.
pub fn entry(case: &Case) -> Value {
    json!({
        "id": case.id,
        "title": case.title,
        "level": case.level,
        "capability": case.capability,
        "mutates": case.mutates,
        "clause": case.clause,
    })
}

fn name(case: &Case) -> String {
    let name = serde_json::to_value(case.capability);
    name.ok()
        .and_then(|name| name.as_str().map(str::to_owned))
        .unwrap_or_default()
}

const fn mutates(case: &Case) -> &'static str {
    if case.mutates { "changed" } else { "" }
}
