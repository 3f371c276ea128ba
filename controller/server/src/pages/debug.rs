//! Under `/debug`: verbosity, dumps, and what there is instead of profiles.

use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body;
use tracing::info;

use super::Pages;
use crate::answer::{self, Answer};

/// Longest body, which holds a number, in bytes.
const LONGEST: usize = 1024;

impl Pages {
    /// `path` is what follows `/debug/`, `body` that of a PUT. Nothing of it exists without `--profiling` (HTTP-1).
    pub(crate) async fn debug<B>(&self, path: &str, body: Option<B>) -> Answer
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        if !self.settings.profiling {
            return answer::not_found();
        }
        match path {
            "flags" | "flags/" => answer::text("v\n"),
            "flags/v" => match body {
                Some(body) => self.verbosity(body).await,
                None => answer::error(StatusCode::NOT_ACCEPTABLE, "unsupported http method"),
            },
            "" => self.index(),
            "pprof" => to_pprof(),
            "pprof/" => answer::text([CPU, HEAP, GO].join("\n") + "\n"),
            _ => match path.strip_prefix("pprof/").map(instead_of) {
                Some(Some(instead)) => answer::error(StatusCode::NOT_IMPLEMENTED, instead),
                Some(None) => answer::not_found(),
                None => self.dumped(path),
            },
        }
    }

    fn index(&self) -> Answer {
        let mut lines = String::from("/debug/flags/v\n/debug/pprof/\n");
        for name in self.dumps.read().keys() {
            lines.extend(["/debug/", name, "\n"]);
        }
        answer::text(lines)
    }

    fn dumped(&self, name: &str) -> Answer {
        let dump = self.dumps.read().get(name).cloned();
        dump.map_or_else(answer::not_found, |dump| answer::text(dump()))
    }

    /// `PUT /debug/flags/v` (HTTP-10).
    async fn verbosity<B>(&self, body: B) -> Answer
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let refuse = |reason: &str| answer::error(StatusCode::BAD_REQUEST, reason);
        let Ok(body) = Limited::new(body, LONGEST).collect().await else {
            return refuse("error reading the body");
        };
        let body = body.to_bytes();
        let text = String::from_utf8_lossy(&body);
        let text = text.trim();
        let Ok(verbosity) = text.parse() else {
            return refuse(&format!(
                "failed set klog.logging.verbosity {text}: it is a number from 0 on"
            ));
        };
        (self.set_verbosity)(verbosity);
        info!(verbosity, "verbosity is set");
        answer::text(format!(
            "successfully set klog.logging.verbosity to {verbosity}\n"
        ))
    }
}

/// HTTP-12.
fn to_pprof() -> Answer {
    let mut answer = answer::body(StatusCode::FOUND, answer::TEXT, "");
    let to = HeaderValue::from_static("/debug/pprof/");
    answer.headers_mut().insert(header::LOCATION, to);
    answer
}

/// A profile of one's own process needs a signal handler that walks stacks, which no library in Rust
/// does without having crashed programs (tikv/pprof-rs#36).
const CPU: &str = "profile: a CPU profile is not taken from within; use \
                   `perf record --call-graph dwarf --pid PID` on the node.";

const HEAP: &str = "heap, allocs: this build has no allocator that samples; see \
                    process_resident_memory_bytes in /metrics, and what is held at /debug/.";

const GO: &str = "block, goroutine, mutex, symbol, threadcreate, trace: they are about Go's runtime, \
                  which is not in this program.";

/// The alternative to one of Go's profiles.
fn instead_of(profile: &str) -> Option<&'static str> {
    match profile {
        "profile" => Some(CPU),
        "heap" | "allocs" => Some(HEAP),
        "block" | "goroutine" | "goroutineleak" | "mutex" | "symbol" | "threadcreate" | "trace" => {
            Some(GO)
        }
        _ => None,
    }
}
