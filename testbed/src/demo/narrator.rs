//! Progress on standard error.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

/// One updating line on a terminal, a line per step elsewhere.
#[derive(Debug)]
pub(super) struct Narrator {
    terminal: bool,
    /// Only what began, not how far it got.
    terse: bool,
    line: Mutex<Option<ProgressBar>>,
}

impl Narrator {
    /// A terse one prints only what begins, one line each.
    pub(super) fn new(terse: bool) -> Self {
        Self {
            terminal: !terse && io::stderr().is_terminal(),
            terse,
            line: Mutex::new(None),
        }
    }

    /// Something begins; its time is counted from now.
    pub(super) fn begin(&self, what: &str) {
        if !self.terminal {
            return print(what);
        }
        self.clear();
        let style = ProgressStyle::with_template("{spinner} [{elapsed}] {wide_msg}");
        let line = ProgressBar::new_spinner()
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
            .with_message(what.to_owned());
        line.enable_steady_tick(Duration::from_millis(100));
        *self.line.lock() = Some(line);
    }

    /// So many of `count` objects have reached a state; where lines stay, about ten of them.
    pub(super) fn progress(&self, done: usize, count: usize, objects: &str, state: &str) {
        let what = format!("{done} of {objects} {state}");
        if let Some(line) = &*self.line.lock() {
            line.set_message(what);
        } else if !self.terse
            && !self.terminal
            && (done == count || done.is_multiple_of(count.div_ceil(10)))
        {
            print(&what);
        }
    }

    /// Something to keep on the screen.
    pub(super) fn note(&self, what: &str) {
        match &*self.line.lock() {
            Some(line) => line.suspend(|| print(what)),
            None => print(what),
        }
    }

    /// Makes room for others who write.
    pub(super) fn clear(&self) {
        if let Some(line) = self.line.lock().take() {
            line.finish_and_clear();
        }
    }
}

impl Drop for Narrator {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Errors of writing are ignored: no reader is left then.
fn print(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// So many objects of a kind.
pub(super) fn count_of(count: usize, kind: &str) -> String {
    format!("{count} {kind}{}", if count == 1 { "" } else { "s" })
}
