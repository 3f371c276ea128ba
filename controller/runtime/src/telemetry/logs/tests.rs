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
            assert_eq!(telemetry.verbosity(), verbosity);
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
