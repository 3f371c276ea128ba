//! `provider-conformance table`.

use std::{path::PathBuf, process::ExitCode, str::FromStr};

use anyhow::Context as _;
use clap::Args;

use super::print;
use crate::{
    cases,
    document::Document,
    results::{Column, difference, into_page, markdown},
};

#[derive(Debug, Args)]
pub(super) struct Table {
    /// Compare the table with that of this page, between its marks; exit code 1 if they differ
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,

    /// Write the table into the page instead
    #[arg(long, requires = "page")]
    write: bool,

    /// The columns: a heading, and the report that `run --report json=PATH` wrote
    #[arg(required = true, value_name = "HEADING=PATH")]
    columns: Vec<ColumnArg>,
}

/// `HEADING=PATH`.
#[derive(Clone, Debug)]
struct ColumnArg {
    heading: String,
    report: PathBuf,
}

impl FromStr for ColumnArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((heading, path)) if !heading.is_empty() && !path.is_empty() => Ok(Self {
                heading: heading.to_owned(),
                report: path.into(),
            }),
            _ => Err("write HEADING=PATH".to_owned()),
        }
    }
}

impl Table {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let columns = self.columns.iter();
        let read = |column: &ColumnArg| {
            let report = Document::read(&column.report)?;
            Ok(Column::new(&column.heading, report))
        };
        let columns = columns.map(read);
        let columns = columns.collect::<anyhow::Result<Vec<_>>>()?;
        let table = markdown(&columns, &cases::all());
        let Some(path) = &self.page else {
            return print(&table);
        };
        let at = || format!("the page {}", path.display());
        let page = std::fs::read_to_string(path).with_context(at)?;
        let new_page = into_page(&page, &table).with_context(at)?;
        if page == new_page {
            return Ok(ExitCode::SUCCESS);
        }
        if self.write {
            std::fs::write(path, new_page).with_context(at)?;
            return Ok(ExitCode::SUCCESS);
        }
        let difference = difference(&page, &new_page);
        eprint!(
            "{} is not the table of these reports; --write makes it so:\n{difference}",
            path.display()
        );
        Ok(ExitCode::FAILURE)
    }
}
