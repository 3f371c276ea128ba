//! A failure for people: the steps, what they broke, and how to make them again.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{play::Broken, trace::Trace};

/// The result of an exploration.
#[derive(Debug, Default)]
pub struct Explored {
    /// The command line, without seeds and traces.
    pub command: String,
    /// Traces that were carried out, without those of a shrinking.
    pub traces: usize,
    /// Their turns.
    pub turns: usize,
    /// How long they took.
    pub took: Duration,
    /// The failure at which the exploration ended.
    pub failure: Option<Found>,
    /// Objects that are left in the cloud.
    pub leftovers: Vec<String>,
}

/// A trace that breaks a rule.
#[derive(Debug)]
pub struct Found {
    /// The smallest trace that breaks it.
    pub trace: Trace,
    /// The rule, and what came.
    pub broken: Broken,
    /// Where it came from.
    pub origin: Origin,
    /// Times that the first trace was made, and times that it failed.
    pub failed: (usize, usize),
    /// Turns of the first trace, traces that were tried since, and the time that they took.
    pub shrunk: Option<(usize, usize, Duration)>,
}

/// The origin of a trace.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A seed, and the turns.
    Seed(u64, usize),
    /// A text or a file.
    Given(String),
}

/// A trace as a file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TraceFile {
    /// The rule that must hold, for people.
    #[serde(default)]
    pub title: String,
    /// The steps.
    pub trace: Trace,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(failure) = &self.failure {
            failure.write(f, &self.command)?;
        }
        let (traces, turns) = (self.traces, self.turns);
        let outcome = if self.failure.is_some() {
            "1 failed"
        } else {
            "none failed"
        };
        let seconds = self.took.as_secs_f64();
        write!(
            f,
            "{traces} traces with {turns} turns in {seconds:.1} s: {outcome}"
        )?;
        for leftover in &self.leftovers {
            write!(f, "\nleft in the cloud: {leftover}")?;
        }
        Ok(())
    }
}

impl Found {
    fn write(&self, f: &mut fmt::Formatter<'_>, command: &str) -> fmt::Result {
        let Broken {
            rule,
            turn,
            expected,
            actual,
        } = &self.broken;
        let (name, title) = rule.title();
        writeln!(f, "failed  {name}  {title}")?;
        for (index, step) in self.trace.0.iter().enumerate() {
            let is_last = *turn == Some(index + 1);
            let mark = if is_last { "  <- here" } else { "" };
            writeln!(f, "  {:>3}  {step}{mark}", index + 1)?;
        }
        if turn.is_none() {
            writeln!(f, "       <- here, at the end of the trace")?;
        }
        let mut line = |key: &str, text: &str| {
            let text = text.replace('\n', "\n                  ");
            writeln!(f, "        {key:<9} {text}")
        };
        line("expected", expected)?;
        line("actual", actual)?;
        line("clause", &rule.clause().to_string())?;
        let (failed, made) = self.failed;
        if failed < made {
            line("seldom", &format!("it failed in {failed} of {made} times"))?;
        }
        if let Some((turns, tried, took)) = self.shrunk {
            let seconds = took.as_secs_f64();
            let now = self.trace.0.len();
            line(
                "shrunk",
                &format!("from {turns} turns to {now}, by {tried} traces in {seconds:.1} s"),
            )?;
        }
        line("again", &format!("{command} --trace '{}'", self.trace))?;
        if let Origin::Seed(seed, steps) = &self.origin {
            line(
                "seed",
                &format!("{command} --seed {seed} --steps {steps} --seeds 1"),
            )?;
        }
        writeln!(f, "        as a file for --traces:")?;
        writeln!(f, "title: {title}")?;
        writeln!(f, "trace:")?;
        for turn in &self.trace.0 {
            writeln!(f, "  - {:?}", turn.to_string())?;
        }
        Ok(())
    }
}
