//! The table of cases and providers, made from the JSON reports of runs.
//!
//! It has no times and no versions: two runs of the same providers give the same table.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    path::Path,
};

use anyhow::Context as _;
use serde::Deserialize;

use crate::{
    case::{Case, Level},
    describe::{AREAS, area},
    report::SkipKind,
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
    cases: BTreeMap<String, Ran>,
}

/// The part of a JSON report that the table shows.
#[derive(Deserialize)]
struct Document {
    cases: Vec<Ran>,
}

#[derive(Clone, Debug, Deserialize)]
struct Ran {
    id: String,
    result: String,
    skip: Option<SkipKind>,
    waiver: Option<Waiver>,
}

impl Column {
    /// Reads a report that `run --report json=PATH` wrote.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no such report.
    pub fn read(title: &str, path: &Path) -> anyhow::Result<Self> {
        let at = || format!("the report {}", path.display());
        let text = std::fs::read_to_string(path).with_context(at)?;
        Self::parse(title, &text).with_context(at)
    }

    fn parse(title: &str, text: &str) -> serde_json::Result<Self> {
        let Document { cases } = serde_json::from_str(text)?;
        let cases = cases.into_iter().map(|ran| (ran.id.clone(), ran));
        Ok(Self {
            title: title.to_owned(),
            cases: cases.collect(),
        })
    }

    fn cell(&self, case: &Case) -> &'static str {
        let Some(ran) = self.cases.get(case.id) else {
            return "not run";
        };
        match (ran.result.as_str(), ran.skip) {
            (_, Some(skip)) => skip.words(),
            // Measured, and so not the same in each run.
            ("passed" | "note", _) if case.level == Level::Info => "reported",
            ("passed", _) => "passed",
            ("waived", _) => "waived",
            ("warning", _) => "warning",
            _ => "**failed**",
        }
    }
}

impl SkipKind {
    const fn words(self) -> &'static str {
        match self {
            Self::Capability => "not served",
            Self::Input => "input missing",
            Self::ReadOnly => "not allowed",
            Self::NotSelected => "not selected",
            Self::NothingToJudge => "nothing to judge",
        }
    }
}

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
    let mut counts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, column) in columns.iter().enumerate() {
        for case in cases {
            let count = counts.entry(column.cell(case));
            count.or_insert_with(|| vec![0; columns.len()])[number] += 1;
        }
    }
    // Runs that passed come first, the others as often as they occur.
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(words, count)| (*words != "passed", Reverse(count.iter().sum::<usize>())));
    for (words, count) in counts {
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
            let reason = waiver.map_or("", |waiver| &waiver.reason);
            let _ = writeln!(text, "- {}, {}: {reason}", column.title, case.id);
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
