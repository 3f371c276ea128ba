//! `/healthz`, `/livez` and `/readyz`, whole and check by check (HTTP-2 … HTTP-7, Q-25).

mod slis;

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use http::StatusCode;
use parking_lot::RwLock;
use tracing::{debug, info};

pub(super) use self::slis::Slis;
use super::answer::{self, Answer};
use outrigger_runtime::telemetry::Repeats;

/// The checks of the process. Clones share the checks; they come and go while the server runs.
#[derive(Clone, Default)]
pub struct Checks {
    checks: Arc<RwLock<Vec<Check>>>,
    repeats: Arc<Repeats>,
}

/// Which of the three paths include a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All: a process that fails it should be started again.
    Everywhere,
    /// `/readyz` alone: a restart would not help, as with a provider that is down.
    Readiness,
}

/// Ok, or what is wrong; asked with each request, so that it must be cheap.
type Probe = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

#[derive(Clone)]
struct Check {
    name: Arc<str>,
    scope: Scope,
    probe: Probe,
}

impl Checks {
    /// Adds the check `name`, or replaces it in its place. The reason is logged, and shown only on
    /// the check's own path.
    pub fn add(
        &self,
        name: &str,
        scope: Scope,
        probe: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        let check = Check {
            name: name.into(),
            scope,
            probe: Arc::new(probe),
        };
        let mut checks = self.checks.write();
        match checks.iter_mut().find(|other| *other.name == *name) {
            Some(former) => *former = check,
            None => checks.push(check),
        }
    }

    /// Takes the check `name` away.
    pub fn remove(&self, name: &str) {
        self.checks.write().retain(|check| *check.name != *name);
    }

    /// Those of one path; there is always one (HTTP-6).
    fn of(&self, path: Path) -> Vec<Check> {
        let checks = self.checks.read();
        let mut checks: Vec<_> = checks
            .iter()
            .filter(|c| path.includes(c))
            .cloned()
            .collect();
        if checks.is_empty() {
            checks.push(Check {
                name: "ping".into(),
                scope: Scope::Everywhere,
                probe: Arc::new(|| Ok(())),
            });
        }
        checks
    }
}

/// One of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    Healthz,
    Livez,
    Readyz,
}

impl Path {
    /// `/readyz/provider` is readyz and its check `provider`.
    pub(super) fn parse(path: &str) -> Option<(Self, Option<&str>)> {
        let path = path.strip_prefix('/')?;
        let (path, check) = match path.split_once('/') {
            Some((path, check)) => (path, Some(check)),
            None => (path, None),
        };
        let path = match path {
            "healthz" => Self::Healthz,
            "livez" => Self::Livez,
            "readyz" => Self::Readyz,
            _ => return None,
        };
        // `/healthz/` is `/healthz`, as in upstream's API servers.
        Some((path, check.filter(|check| !check.is_empty())))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    fn includes(self, check: &Check) -> bool {
        check.scope == Scope::Everywhere || self == Self::Readyz
    }
}

/// All checks of `path` at once; `query` is that of the request.
pub(super) fn all(checks: &Checks, slis: &Slis, path: Path, query: Option<&str>) -> Answer {
    let name = path.name();
    let parameters = || form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let mut excluded: BTreeSet<_> = parameters()
        .filter_map(|(key, value)| (key == "exclude").then_some(value))
        .collect();
    let (mut lines, mut failed, mut reasons) = (String::new(), Vec::new(), String::new());
    for check in checks.of(path) {
        let of = &check.name;
        if excluded.remove(&**of) {
            let _ = writeln!(lines, "[+]{of} excluded: ok");
            continue;
        }
        let result = (check.probe)();
        slis.observe(&check.name, name, result.is_ok());
        match result {
            Ok(()) => {
                let _ = writeln!(lines, "[+]{of} ok");
            }
            Err(reason) => {
                // Anyone may ask, so that the reason is only logged (HTTP-5).
                let _ = writeln!(lines, "[-]{of} failed: reason withheld");
                if !reasons.is_empty() {
                    reasons.push_str("; ");
                }
                let _ = write!(reasons, "{of}: {reason}");
                failed.push(check.name);
            }
        }
    }
    if !excluded.is_empty() {
        let quoted: Vec<_> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let quoted = quoted.join(",");
        let _ = writeln!(
            lines,
            "warn: some health checks cannot be excluded: no matches for {quoted}"
        );
        debug!(
            "cannot exclude some health checks, no health checks are installed matching {quoted}"
        );
    }
    if !failed.is_empty() {
        // By check: anyone may ask, for each subset of them.
        let due = |check: &Arc<str>| checks.repeats.due(&format!("{name} {check}"));
        let others: Vec<_> = failed.iter().filter_map(due).collect();
        if let Some(others) = others.into_iter().max() {
            info!(
                checks = failed.join(","),
                others,
                error = reasons,
                "{name} check failed"
            );
        }
        let text = format!("{lines}{name} check failed");
        return answer::error(StatusCode::INTERNAL_SERVER_ERROR, &text);
    }
    if parameters().any(|(key, _)| key == "verbose") {
        return answer::text(format!("{lines}{name} check passed\n"));
    }
    answer::text("ok")
}

/// The answer of the check `name` alone, with its reason.
pub(super) fn one(checks: &Checks, path: Path, name: &str) -> Answer {
    let checks = checks.of(path);
    let Some(check) = checks.iter().find(|check| *check.name == *name) else {
        return answer::not_found();
    };
    match (check.probe)() {
        Ok(()) => answer::text("ok"),
        Err(reason) => answer::error(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("internal server error: {reason}"),
        ),
    }
}

#[cfg(test)]
mod tests;
