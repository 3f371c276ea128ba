//! Log lines: klog's verbosity on tracing's levels, changeable while the process runs.
//!
//! | `-v` | our own modules | libraries | `kube_client` |
//! |------|-----------------|-----------|---------------|
//! | 0–3  | info            | warn      | off           |
//! | 4–5  | debug           | warn      | off           |
//! | 6–7  | trace           | warn      | off           |
//! | 8–9  | trace           | debug     | debug         |
//! | 10–  | trace           | trace     | trace         |
//!
//! 2, which clusters mostly run with, therefore means what it means elsewhere: what an operator
//! wants to know. `kube_client` warns about each request that fails, which the work queue logs
//! better.

mod klog;

use tracing::{Level, Subscriber, level_filters::LevelFilter, subscriber::SetGlobalDefaultError};
use tracing_subscriber::{
    Registry,
    filter::Targets,
    fmt::{self, MakeWriter, writer::BoxMakeWriter, writer::MakeWriterExt},
    layer::SubscriberExt,
    reload,
};

use self::klog::Klog;

/// Levels and formats of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// `-v`, in klog's scale.
    pub verbosity: u32,
    /// `--logging-format`.
    pub format: Format,
    /// `--log-text-split-stream`: only warnings and errors go to standard error.
    pub split_stream: bool,
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// Crates whose lines are ours.
const OURS: [&str; 2] = ["outrigger", "cloud_controller_manager"];

/// Changes what is logged while the process runs.
#[derive(Clone, Debug)]
pub struct Telemetry {
    filter: reload::Handle<Targets, Registry>,
}

impl Telemetry {
    /// Sends the log lines of the whole process to standard error.
    ///
    /// # Errors
    /// If that was done before.
    pub fn install(logging: &Logging) -> Result<Self, SetGlobalDefaultError> {
        let writer = if logging.split_stream {
            BoxMakeWriter::new(
                std::io::stderr
                    .with_max_level(Level::WARN)
                    .or_else(std::io::stdout),
            )
        } else {
            BoxMakeWriter::new(std::io::stderr)
        };
        Self::install_to(logging, writer, std::process::id())
    }

    /// Sends the log lines of the whole process to `writer`, as those of the process with this id.
    ///
    /// # Errors
    /// If that was done before.
    pub fn install_to<W>(
        logging: &Logging,
        writer: W,
        process: u32,
    ) -> Result<Self, SetGlobalDefaultError>
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let (subscriber, telemetry) = subscriber(logging, writer, process);
        tracing::subscriber::set_global_default(subscriber)?;
        Ok(telemetry)
    }

    /// Sets `-v` for the whole process from now on.
    pub fn set_verbosity(&self, verbosity: u32) {
        // Fails only when nothing is logged any more.
        let _ = self.filter.reload(targets(verbosity));
    }
}

fn subscriber<W>(
    logging: &Logging,
    writer: W,
    process: u32,
) -> (impl Subscriber + Send + Sync, Telemetry)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(targets(logging.verbosity));
    // Without internal errors: reporting a closed stream on that stream would panic.
    let lines = fmt::layer()
        .event_format(Klog::new(logging.format, process))
        .with_writer(writer)
        .log_internal_errors(false);
    let subscriber = Registry::default().with(filter).with(lines);
    (subscriber, Telemetry { filter: handle })
}

/// Lets through what `-v` asks for.
fn targets(verbosity: u32) -> Targets {
    let (ours, others) = match verbosity {
        10.. => (LevelFilter::TRACE, LevelFilter::TRACE),
        8.. => (LevelFilter::TRACE, LevelFilter::DEBUG),
        6.. => (LevelFilter::TRACE, LevelFilter::WARN),
        4.. => (LevelFilter::DEBUG, LevelFilter::WARN),
        _ => (LevelFilter::INFO, LevelFilter::WARN),
    };
    let targets = Targets::new()
        .with_default(others)
        .with_targets(OURS.map(|name| (name, ours)));
    if verbosity >= 8 {
        return targets;
    }
    // A client of the HTTPS server can cause warnings of h2 without end.
    targets
        .with_target("h2", LevelFilter::ERROR)
        .with_target("kube_client", LevelFilter::OFF)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }
    }

    /// Logs a line of each level, of us and of libraries; gives back the words that came through.
    fn speak(lines: &Lines) -> String {
        tracing::warn!(target: "outrigger_loops::node::sync", "own-warn");
        tracing::info!(target: "outrigger_loops::node::sync", "own-info");
        tracing::debug!(target: "outrigger_loops::node::sync", "own-debug");
        tracing::trace!(target: "outrigger_loops::node::sync", "own-trace");
        tracing::warn!(target: "hyper::client", "lib-warn");
        tracing::debug!(target: "hyper::client", "lib-debug");
        tracing::trace!(target: "hyper::client", "lib-trace");
        tracing::error!(target: "kube_client::client", "kube-error");
        tracing::debug!(target: "kube_client::client", "kube-debug");
        let text = lines.take();
        let words = text.lines().filter_map(|line| line.split(' ').next_back());
        words
            .map(|word| word.trim_matches('"'))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn logging(verbosity: u32) -> Logging {
        Logging {
            verbosity,
            ..Logging::default()
        }
    }

    fn with<T>(logging: &Logging, then: impl FnOnce(&Lines, &Telemetry) -> T) -> T {
        let lines = Lines::default();
        let writer = {
            let lines = lines.clone();
            move || lines.clone()
        };
        let (subscriber, telemetry) = subscriber(logging, writer, 1);
        tracing::subscriber::with_default(subscriber, || then(&lines, &telemetry))
    }

    /// There is one test: callsites remember across threads which levels anyone wants.
    #[test]
    fn verbosity_decides_and_can_be_changed() {
        for (verbosity, expected) in [
            (0, "own-warn own-info lib-warn"),
            (3, "own-warn own-info lib-warn"),
            (4, "own-warn own-info own-debug lib-warn"),
            (6, "own-warn own-info own-debug own-trace lib-warn"),
            (
                8,
                "own-warn own-info own-debug own-trace lib-warn lib-debug kube-error kube-debug",
            ),
            (
                10,
                "own-warn own-info own-debug own-trace lib-warn lib-debug lib-trace kube-error kube-debug",
            ),
        ] {
            let got = with(&logging(verbosity), |lines, _| speak(lines));
            assert_eq!(got, expected, "-v={verbosity}");
            let changed = with(&logging(0), |lines, telemetry| {
                telemetry.set_verbosity(verbosity);
                speak(lines)
            });
            assert_eq!(changed, expected, "changed to {verbosity}");
        }

        let quiet_again = with(&logging(10), |lines, telemetry| {
            telemetry.set_verbosity(0);
            speak(lines)
        });
        assert_eq!(quiet_again, "own-warn own-info lib-warn");

        let json = Logging {
            format: Format::Json,
            ..Logging::default()
        };
        with(&json, |lines, _| {
            tracing::info!(target: "outrigger_controller", node = "a", "initialised");
            let line: serde_json::Value = serde_json::from_str(&lines.take()).unwrap();
            assert_eq!(line["msg"], "initialised");
            assert_eq!(line["node"], "a");
            assert_eq!(line["v"], 0);
        });
    }
}
