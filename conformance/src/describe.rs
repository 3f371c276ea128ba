//! The cases themselves, as lines and as Markdown for the documents.

use std::fmt::Write as _;

use clap::ValueEnum as _;

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

/// A line for each case, its fields separated by tabs.
pub fn table(cases: &[Case]) -> String {
    let mut text = String::new();
    for case in cases {
        let (id, level, title) = (case.id, case.level, case.title);
        let (capability, mutates) = (name(case), mutates(case));
        let _ = writeln!(text, "{id}\t{level}\t{capability}\t{mutates}\t{title}");
    }
    text
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

fn name(case: &Case) -> String {
    let value = case.capability.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

const fn mutates(case: &Case) -> &'static str {
    if case.mutates { "changed" } else { "" }
}
