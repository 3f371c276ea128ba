//! `provider-conformance badge`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Args;

use super::print;
use crate::{badge::svg, document::Document};

#[derive(Debug, Args)]
pub(super) struct Badge {
    /// The report that `run --report json=PATH` wrote
    report: PathBuf,

    /// Where the badge is written, as SVG [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Badge {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let badge = svg(&Document::read(&self.report)?);
        let Some(path) = &self.output else {
            return print(&badge);
        };
        std::fs::write(path, badge).with_context(|| format!("the badge {}", path.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}
