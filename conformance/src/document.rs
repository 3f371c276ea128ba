//! A report that `run --report json=PATH` wrote, as it is read again.

use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::{report::FORMAT, waivers::Waiver};

/// The part of a report that pages show.
#[derive(Clone, Debug, Deserialize)]
pub struct Document {
    format: u32,
    /// The version of the contract.
    pub contract: Contract,
    /// Every case that the suite had.
    pub cases: Vec<Ran>,
}

/// The version of the contract that a run was held in.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Contract {
    /// The minor of the handshake.
    pub minor: u32,
}

/// A case, and how it ended.
#[derive(Clone, Debug, Deserialize)]
pub struct Ran {
    /// Its id.
    pub id: String,
    /// The word of [`Outcome::word`](crate::report::Outcome::word).
    pub result: String,
    /// Why it was not run.
    pub skip: Option<String>,
    /// Why its failure is accepted.
    pub waiver: Option<Waiver>,
}

impl Document {
    /// Reads a report.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is no report, or one of another format.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let at = || format!("the report {}", path.display());
        let text = std::fs::read_to_string(path).with_context(at)?;
        Self::parse(&text).with_context(at)
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let document: Self = serde_json::from_str(text)?;
        if document.format != FORMAT {
            let format = document.format;
            bail!(
                "it has the format {format}, and this program reads {FORMAT}; run the suite again"
            );
        }
        Ok(document)
    }
}
