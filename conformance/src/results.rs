//! The table of cases and providers, made from the JSON reports of runs.
//!
//! It has no times and no versions: two runs of the same providers give the same table.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
};

use anyhow::Context as _;

use crate::{
    case::{Case, Level},
    describe::{AREAS, area},
    document::{Document, Ran},
    waivers::Waiver,
};

/// Where the table stands in a page.
const BEGIN: &str = "<!-- results -->\n";
const END: &str = "<!-- end of results -->";

/// A provider, and how its run ended.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its heading.
    pub title: String,
    minor: u32,
    cases: BTreeMap<String, Ran>,
}

impl Column {
    /// The column of a report.
    pub fn new(title: &str, report: Document) -> Self {
        let cases = report.cases.into_iter().map(|ran| (ran.id.clone(), ran));
        Self {
            title: title.to_owned(),
            minor: report.contract.minor,
            cases: cases.collect(),
        }
    }

    fn cell(&self, case: &Case) -> &'static str {
        let Some(ran) = self.cases.get(case.id) else {
            return "not run";
        };
        match (ran.result.as_str(), ran.skip.as_deref()) {
            (_, Some("capability")) => "not served",
            (_, Some("input")) => "input missing",
            (_, Some("read-only")) => "not allowed",
            (_, Some("not-selected")) => "not selected",
            (_, Some(_)) => "nothing to judge",
            // Measured, and so not the same in each run.
            ("passed" | "note", _) if case.level == Level::Info => "reported",
            ("passed", _) => "passed",
            ("waived", _) => "waived",
            ("warning", _) => "warning",
            _ => "**failed**",
        }
    }
}

/// Counted also where no case ended so, and before the others, which come as often as they occur.
const ALWAYS: [&str; 3] = ["passed", "**failed**", "waived"];

/// The tables in Markdown: how many cases ended how, each case by area, and the reasons of waivers.
pub fn markdown(columns: &[Column], cases: &[Case]) -> String {
    let head = |first: &str| {
        let titles = columns.iter().map(|column| column.title.as_str());
        let titles: Vec<_> = std::iter::once(first).chain(titles).collect();
        format!(
            "| {} |\n|{}\n",
            titles.join(" | "),
            "---|".repeat(titles.len())
        )
    };
    let mut text = head("cases");
    let minors = columns.iter().map(|column| format!("v1.{}", column.minor));
    let minors: Vec<_> = minors.collect();
    let _ = writeln!(text, "| contract | {} |", minors.join(" | "));
    let none = || vec![0; columns.len()];
    let mut counts = BTreeMap::from(ALWAYS.map(|words| (words, none())));
    for (number, column) in columns.iter().enumerate() {
        for case in cases {
            let count = counts.entry(column.cell(case));
            count.or_insert_with(none)[number] += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    let place = |words: &str| ALWAYS.iter().position(|one| *one == words);
    counts.sort_by_key(|(words, count)| {
        let others = Reverse(count.iter().sum::<usize>());
        (place(words).unwrap_or(ALWAYS.len()), others)
    });
    for (words, count) in counts {
        let words = words.trim_matches('*');
        let count: Vec<_> = count.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "| {words} | {} |", count.join(" | "));
    }
    for (letters, title) in AREAS {
        let of_area: Vec<_> = cases.iter().filter(|case| area(case) == letters).collect();
        if of_area.is_empty() {
            continue;
        }
        let _ = write!(text, "\n### {title}\n\n{}", head("case"));
        for case in of_area {
            let cells: Vec<_> = columns.iter().map(|column| column.cell(case)).collect();
            let (id, title) = (case.id, case.title);
            let _ = writeln!(text, "| {id} {title} | {} |", cells.join(" | "));
        }
    }
    let waived = waived(columns, cases);
    if !waived.is_empty() {
        let _ = write!(text, "\n### Waived\n\n{waived}");
    }
    text
}

fn waived(columns: &[Column], cases: &[Case]) -> String {
    let mut text = String::new();
    for column in columns {
        for case in cases.iter().filter(|case| column.cell(case) == "waived") {
            let waiver = column
                .cases
                .get(case.id)
                .and_then(|ran| ran.waiver.as_ref());
            let (title, id) = (&column.title, case.id);
            if let Some(Waiver {
                reason, expires, ..
            }) = waiver
            {
                let _ = writeln!(text, "- {title}, {id}, until {expires}: {reason}");
            }
        }
    }
    text
}

/// The page with this table in the place of its own.
///
/// # Errors
///
/// The page has no such place.
pub fn into_page(page: &str, table: &str) -> anyhow::Result<String> {
    let parts = page.split_once(BEGIN);
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.with_context(|| {
        format!("the page has no place for the table: write the lines {BEGIN}{END} into it")
    })?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// The lines of a page that the wanted one has not, and the other way round.
pub fn difference(page: &str, other: &str) -> String {
    let mut text = String::new();
    for (sign, here, there) in [('-', page, other), ('+', other, page)] {
        let there: HashSet<_> = there.lines().collect();
        for line in here.lines().filter(|line| !there.contains(line)) {
            let _ = writeln!(text, "{sign} {line}");
        }
    }
    text
}

#[cfg(test)]
mod tests;
