//! Cases that a provider is known to fail: each with a reason, an owner and an end.

use std::{fmt, path::Path};

use anyhow::{Context as _, bail};
use jiff::civil::Date;
use serde::Deserialize;

use crate::case::Case;

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waivers {
    /// One entry a case.
    pub waivers: Vec<Waiver>,
}

/// One failure that is known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
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

    /// The waiver of a case that counts on this day.
    pub fn of(&self, case: &Case, today: Date) -> Option<&Waiver> {
        let mut waivers = self.waivers.iter();
        waivers.find(|waiver| waiver.case == case.id && today <= waiver.expires)
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;
    use crate::cases;

    const GOOD: &str = "waivers:\n- {case: TRN-01, reason: r, owner: o, expires: 2027-01-31}\n";

    fn read(text: &str) -> anyhow::Result<Waivers> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("waivers.yaml");
        std::fs::write(&path, text)?;
        Waivers::read(&path, &cases::all())
    }

    #[test]
    fn a_waiver_counts_up_to_its_last_day() {
        let waivers = read(GOOD).unwrap();
        let all = cases::all();
        let case = all.iter().find(|case| case.id == "TRN-01").unwrap();
        assert!(waivers.of(case, date(2027, 1, 31)).is_some());
        assert!(waivers.of(case, date(2027, 2, 1)).is_none());
        let other = all.iter().find(|case| case.id != "TRN-01").unwrap();
        assert!(waivers.of(other, date(2027, 1, 1)).is_none());
    }

    #[test]
    fn waivers_that_say_too_little_are_refused() {
        for (text, part) in [
            (GOOD.replace("TRN-01", "no-case"), "is no case"),
            (format!("{GOOD}{}", &GOOD[9..]), "two waivers"),
            (
                GOOD.replace("owner: o", "owner: ''"),
                "no reason or no owner",
            ),
            (GOOD.replace("owner: o, ", ""), "owner"),
            (GOOD.replace("2027-01-31", "soon"), "expires"),
            (GOOD.replace("owner", "ovner"), "ovner"),
        ] {
            let error = format!("{:#}", read(&text).unwrap_err());
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
