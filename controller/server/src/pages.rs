//! Pages for people: `/configz`, `/flagz`, `/statusz`, what is under `/debug`, and `/explain/` for `explain`.

mod debug;

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, OnceLock},
};

use http::StatusCode;
use jiff::{Timestamp, tz::TimeZone};
use parking_lot::RwLock;
use tokio::time::Instant;

use super::answer::{self, Answer};
use crate::settings::PageSettings;
use outrigger_runtime::VERSION;

const NAME: &str = "cloud-controller-manager";

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no \
                       formatting compatibility guarantees and is for debugging purposes only.";

/// The server's paths, for `/statusz`.
const PATHS: [&str; 10] = [
    "/configz",
    "/debug/",
    "/explain/",
    "/flagz",
    "/healthz",
    "/livez",
    "/metrics",
    "/metrics/slis",
    "/readyz",
    "/statusz",
];

/// Sets `-v` of the whole process.
type SetVerbosity = Arc<dyn Fn(u32) + Send + Sync>;

/// Writes what a part holds at the moment.
type Dump = Arc<dyn Fn() -> String + Send + Sync>;

/// Answers why an object is as it is; the text is what follows `/explain/`.
type Explain = Arc<dyn Fn(&str) -> Answer + Send + Sync>;

/// Contents of the pages. Clones share the dumps.
#[derive(Clone)]
pub struct Pages {
    settings: Arc<PageSettings>,
    set_verbosity: SetVerbosity,
    dumps: Arc<RwLock<BTreeMap<String, Dump>>>,
    explain: Arc<OnceLock<Explain>>,
    started: Timestamp,
    since: Instant,
}

impl Pages {
    /// Pages of a process that starts now; `PUT /debug/flags/v` ends in `set_verbosity`.
    pub fn new(
        settings: PageSettings,
        set_verbosity: impl Fn(u32) + Send + Sync + 'static,
    ) -> Self {
        Self {
            settings: Arc::new(settings),
            set_verbosity: Arc::new(set_verbosity),
            dumps: Arc::default(),
            explain: Arc::default(),
            started: Timestamp::now(),
            since: Instant::now(),
        }
    }

    /// Serves what `dump` writes at `/debug/NAME`, with `--profiling`, such as the keys in a queue.
    pub fn dump(&self, name: &str, dump: impl Fn() -> String + Send + Sync + 'static) {
        self.dumps.write().insert(name.to_owned(), Arc::new(dump));
    }

    /// Serves the answers of `explain` under `/explain/`; it gets the rest of the path. To be called once: a second call
    /// changes nothing.
    pub fn explain_by(&self, explain: impl Fn(&str) -> Answer + Send + Sync + 'static) {
        let _ = self.explain.set(Arc::new(explain));
    }

    pub(super) fn explained(&self, path: &str) -> Answer {
        let starting = || {
            let text = "this replica is starting, and has decided nothing yet";
            answer::error(StatusCode::SERVICE_UNAVAILABLE, text)
        };
        let explain = self.explain.get();
        explain.map_or_else(starting, |explain| explain(path))
    }

    pub(super) fn configz(&self) -> Answer {
        answer::json(&self.settings.configz)
    }

    /// In the format of Kubernetes' z-pages.
    pub(super) fn flagz(&self) -> Answer {
        let Some(flags) = &self.settings.flagz else {
            return answer::not_found();
        };
        let mut page = format!("\n{NAME} flags\n{WARNING}\n\n");
        for (name, value) in flags {
            let _ = writeln!(page, "{name}={value}");
        }
        answer::text(page)
    }

    /// In the format of Kubernetes' z-pages.
    pub(super) fn statusz(&self) -> Answer {
        if !self.settings.statusz {
            return answer::not_found();
        }
        let paths: Vec<_> = PATHS.into_iter().filter(|path| self.serves(path)).collect();
        let started = self.started.to_zoned(TimeZone::UTC);
        let started = started.strftime("%a %b %e %H:%M:%S UTC %Y");
        let up = self.since.elapsed().as_secs();
        let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
        answer::text(format!(
            "\n{NAME} statusz\n{WARNING}\n\nStarted: {started}\n\
             Up: {hours} hr {minutes:02} min {seconds:02} sec\nBinary version: {VERSION}\n\
             Paths: {}\n",
            paths.join(" ")
        ))
    }

    fn serves(&self, path: &str) -> bool {
        match path {
            "/debug/" => self.settings.profiling,
            "/flagz" => self.settings.flagz.is_some(),
            _ => true,
        }
    }
}
