//! How far a build with Go has got.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

use crate::binaries::say;

/// A spinner on a terminal; on a pipe a line at the start, each half minute and the end.
pub(super) struct Progress {
    what: String,
    started: Instant,
    /// When the first package was compiled: modules are downloaded before.
    compiling_since: Option<Instant>,
    compiled: usize,
    /// Packages of the program, once they are counted, cached ones included.
    packages: Option<usize>,
    spinner: Option<ProgressBar>,
    next_line: Duration,
}

impl Progress {
    const LINE_EVERY: Duration = Duration::from_secs(30);

    pub(super) fn new(what: String) -> Self {
        let first = format!("building {what} with Go (minutes the first time)");
        let spinner = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg} [{elapsed_precise}]");
            ProgressBar::new_spinner()
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
                .with_message(first.clone())
        });
        if spinner.is_none() {
            say(&first);
        }
        Self {
            what,
            started: Instant::now(),
            compiling_since: None,
            compiled: 0,
            packages: None,
            spinner,
            next_line: Self::LINE_EVERY,
        }
    }

    /// A package is being compiled.
    pub(super) fn compiled(&mut self) {
        self.compiling_since.get_or_insert_with(Instant::now);
        self.compiled += 1;
    }

    /// The number of packages is known now, or cannot be known.
    pub(super) const fn expect(&mut self, packages: Option<usize>) {
        self.packages = packages;
    }

    pub(super) fn tick(&mut self) {
        let elapsed = self.started.elapsed();
        let far = match (self.packages, self.compiling_since) {
            (Some(packages), Some(since)) => far(self.compiled, packages, since.elapsed()),
            _ => "downloading modules".to_owned(),
        };
        let what = &self.what;
        if let Some(spinner) = &self.spinner {
            spinner.set_message(format!("building {what} with Go: {far}"));
            spinner.tick();
        } else if elapsed >= self.next_line {
            self.next_line += Self::LINE_EVERY;
            let seconds = elapsed.as_secs();
            say(&format!("still building {what} after {seconds} s: {far}"));
        }
    }

    pub(super) fn done(self) {
        if let Some(spinner) = self.spinner {
            spinner.finish_and_clear();
        }
        let elapsed = self.started.elapsed().as_secs_f32();
        say(&format!("built {} in {elapsed:.1} s", self.what));
    }
}

/// Packages differ in size, but there are so many that their number is an estimate.
fn far(compiled: usize, packages: usize, elapsed: Duration) -> String {
    let so_far = format!("{compiled} of at most {packages} packages");
    // Too early, or only the linker is left.
    if compiled < 20 || compiled >= packages {
        return so_far;
    }
    let left = elapsed.mul_f64((packages - compiled) as f64 / compiled as f64);
    match left.as_secs().div_ceil(60) {
        0 | 1 => format!("{so_far}, less than a minute left"),
        minutes => format!("{so_far}, about {minutes} min left"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_needs_some_packages() {
        let after = |compiled| far(compiled, 1000, Duration::from_mins(1));
        assert_eq!(after(3), "3 of at most 1000 packages");
        assert_eq!(after(200), "200 of at most 1000 packages, about 4 min left");
        assert_eq!(
            after(990),
            "990 of at most 1000 packages, less than a minute left"
        );
        assert_eq!(after(1000), "1000 of at most 1000 packages");
    }
}
