//! Pages for people: `/configz`, what is under `/debug`, and `/explain/` for `explain`.

#![allow(clippy::unused_async, reason = "axum's handlers are async")]

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Path, State},
    routing::{get, put},
};
use http::StatusCode;
use parking_lot::RwLock;
use serde_json::Value;
use tracing::info;

use super::answer::{self, Answer};

/// Longest body, which holds a number, in bytes.
const LONGEST_BODY: usize = 1024;

/// Sets `-v` of the whole process.
type SetVerbosity = Arc<dyn Fn(u32) + Send + Sync>;

/// Writes what a part holds at the moment.
type Dump = Arc<dyn Fn() -> String + Send + Sync>;

/// Answers why an object is as it is; the text is what follows `/explain/`.
type Explain = Arc<dyn Fn(&str) -> Answer + Send + Sync>;

/// Contents of the pages. Clones share the dumps.
#[derive(Clone)]
pub struct Pages {
    /// The object of `/configz`.
    configz: Arc<str>,
    /// `--profiling`: there are pages below `/debug/`.
    profiling: bool,
    set_verbosity: SetVerbosity,
    dumps: Arc<RwLock<BTreeMap<String, Dump>>>,
    explain: Arc<OnceLock<Explain>>,
}

impl Pages {
    /// Pages of this process: `configz` shows its flags, `PUT /debug/flags/v` ends in `set_verbosity`.
    pub fn new(
        configz: &Value,
        profiling: bool,
        set_verbosity: impl Fn(u32) + Send + Sync + 'static,
    ) -> Self {
        Self {
            configz: format!("{configz}\n").into(),
            profiling,
            set_verbosity: Arc::new(set_verbosity),
            dumps: Arc::default(),
            explain: Arc::default(),
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

    /// The pages that the settings ask for.
    pub(super) fn router(self) -> Router {
        let mut router = Router::new()
            .route("/configz", get(Self::configz))
            .route("/explain/{*object}", get(Self::explained));
        if self.profiling {
            let not_put = (StatusCode::NOT_ACCEPTABLE, "unsupported http method\n");
            let verbosity = put(Self::verbosity).fallback(not_put);
            router = router
                .route("/debug/", get(Self::index))
                .route("/debug/flags/v", verbosity)
                .route("/debug/{*name}", get(Self::dumped));
        }
        let limit = DefaultBodyLimit::max(LONGEST_BODY);
        router.layer(limit).with_state(self)
    }

    async fn configz(State(pages): State<Self>) -> Answer {
        answer::body(StatusCode::OK, answer::JSON, pages.configz.to_string())
    }

    async fn explained(State(pages): State<Self>, Path(object): Path<String>) -> Answer {
        let Some(explain) = pages.explain.get() else {
            let text = "this replica is starting, and has decided nothing yet";
            return answer::error(StatusCode::SERVICE_UNAVAILABLE, text);
        };
        explain(&object)
    }

    /// The list of what is below `/debug/`.
    async fn index(State(pages): State<Self>) -> String {
        let mut lines = String::from("/debug/flags/v\n");
        for name in pages.dumps.read().keys() {
            lines.extend(["/debug/", name, "\n"]);
        }
        lines
    }

    async fn dumped(State(pages): State<Self>, Path(name): Path<String>) -> Answer {
        let dump = pages.dumps.read().get(&name).cloned();
        dump.map_or_else(answer::not_found, |dump| answer::text(dump()))
    }

    /// `PUT /debug/flags/v` (HTTP-10).
    async fn verbosity(State(pages): State<Self>, text: String) -> Answer {
        let text = text.trim();
        let Ok(verbosity) = text.parse() else {
            let text =
                format!("failed set klog.logging.verbosity {text}: it is a number from 0 on");
            return answer::error(StatusCode::BAD_REQUEST, &text);
        };
        (pages.set_verbosity)(verbosity);
        info!(verbosity, "verbosity is set");
        answer::text(format!(
            "successfully set klog.logging.verbosity to {verbosity}\n"
        ))
    }
}
