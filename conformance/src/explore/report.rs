//! A failure for people: the steps, what they broke, and how to make them again.

use std::{fmt, time::Duration};

use super::{rule::Broken, trace::Trace};
use crate::verdict::Failure;

/// The result of an exploration.
#[derive(Debug, Default)]
pub struct Explored {
    /// The command line, without a seed.
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
#[derive(Clone, Debug)]
pub struct Found {
    /// The smallest trace that breaks it.
    pub trace: Trace,
    /// The rule, and what came.
    pub broken: Broken,
    /// The seed of the first trace, and its turns.
    pub seed: (u64, usize),
    /// Traces that were tried since, and the time that they took.
    pub shrunk: (usize, Duration),
}

impl Explored {
    /// The state of the exploration, in a few words.
    pub fn progress(&self) -> String {
        let (traces, turns, seconds) = (self.traces, self.turns, self.took.as_secs());
        let Some(Found { trace, broken, .. }) = &self.failure else {
            return format!("{traces} traces, {turns} turns, {seconds} s");
        };
        let rule = broken.rule.name.to_lowercase();
        format!("failed: {rule}, shrinking: {} turns fail", trace.0.len())
    }
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(failure) = &self.failure {
            failure.write(f, &self.command)?;
        }
        let (traces, turns) = (self.traces, self.turns);
        let count = self.failure.as_ref().map_or("none", |_| "1");
        let seconds = self.took.as_secs_f64();
        write!(
            f,
            "{traces} traces with {turns} turns in {seconds:.1} s: {count} failed"
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
            failure,
        } = &self.broken;
        writeln!(f, "failed  {}  {}", rule.name.to_lowercase(), rule.title)?;
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
        let Failure { expected, actual } = failure;
        line("expected", expected)?;
        line("actual", actual)?;
        line("clause", &rule.clause.to_string())?;
        let (seed, steps) = self.seed;
        let (tried, took) = self.shrunk;
        let (now, seconds) = (self.trace.0.len(), took.as_secs_f64());
        line(
            "shrunk",
            &format!("from {steps} turns to {now}, by {tried} traces in {seconds:.1} s"),
        )?;
        line(
            "again",
            &format!("{command} --seed {seed} --steps {steps} --seeds 1"),
        )
    }
}
