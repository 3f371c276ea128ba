//! Cases that a provider is known to fail: each with a reason, an owner and an end.

use std::{fmt, path::Path};

use anyhow::{Context as _, bail};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::case::Case;

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waivers {
    /// One entry a case.
    pub waivers: Vec<Waiver>,
}

/// One failure that is known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Waiver {
    /// Id of the case.
    pub case: String,
    /// Why it fails, and why that is accepted.
    pub reason: String,
    /// The operator or team that will end it.
    pub owner: String,
    /// The last day on which it counts.
    pub expires: Date,
}

impl fmt::Display for Waiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.expires, self.owner, self.reason)
    }
}

impl Waivers {
    /// Reads a file and holds it against the cases that there are.
    ///
    /// # Errors
    ///
    /// It cannot be read; a case is unknown or named twice; a reason or owner is empty.
    pub fn read(path: &Path, cases: &[Case]) -> anyhow::Result<Self> {
        let at = || format!("the waivers {}", path.display());
        let text = std::fs::read_to_string(path).with_context(at)?;
        let waivers: Self = serde_saphyr::from_str(&text)
            .map_err(|error| anyhow::anyhow!("{error}"))
            .with_context(at)?;
        waivers.check(cases).with_context(at)?;
        Ok(waivers)
    }

    fn check(&self, cases: &[Case]) -> anyhow::Result<()> {
        for (index, waiver) in self.waivers.iter().enumerate() {
            let id = &waiver.case;
            if !cases.iter().any(|case| case.id == id) {
                bail!("{id:?} is no case; `provider-conformance list` shows all");
            }
            if self.waivers[..index].iter().any(|other| other.case == *id) {
                bail!("{id} has two waivers; keep one");
            }
            if waiver.reason.trim().is_empty() || waiver.owner.trim().is_empty() {
                bail!("the waiver of {id} has no reason or no owner; write both");
            }
        }
        Ok(())
    }

    /// The waiver of a case, and whether it still counts on this day.
    pub fn of(&self, case: &Case, today: Date) -> Option<(&Waiver, bool)> {
        let waiver = self.waivers.iter().find(|waiver| waiver.case == case.id)?;
        Some((waiver, today <= waiver.expires))
    }
}

#[cfg(test)]
mod tests;
