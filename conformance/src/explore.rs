//! Random transitions of Services and targets, with faults between them: the state after each is held against
//! the desired one, and the last against that of new objects. A failure is shrunk to the smallest trace.
//!
//! ```text
//!   generate ──► Trace ──► Stage ── Job ──► Subject ──► provider under test
//!      ▲           │         └► look: after each turn, at the end, and against a new stage
//!    seed       shrink ◄── Broken: the rule, expected and actual
//! ```

mod generate;
mod job;
mod look;
mod options;
mod report;
mod rule;
mod stage;
pub(crate) mod state;
mod trace;
mod world;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use proptest::{
    strategy::{Strategy as _, ValueTree},
    test_runner::{Config, RngSeed, TestRunner},
};
use tokio::{
    signal::{
        ctrl_c,
        unix::{SignalKind, signal},
    },
    time::{Instant, timeout},
};

pub use report::{Explored, Found};
pub use rule::{Broken, Rule};
pub use trace::{Trace, WORDS};

use crate::{
    inputs::limit,
    run::{self, NoReport, Settings},
    subject::{Subject, Suite},
    verdict::Stop,
};
use stage::Stage;
use state::Identities;
use world::{Desired, World};

/// The traces to carry out: one of each seed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first seed.
    pub first: u64,
    /// How many; none: until the time is up.
    pub count: Option<u64>,
    /// The time after which no further one begins.
    pub duration: Option<Duration>,
    /// The turns of a trace.
    pub steps: usize,
}

/// Traces that a shrinking tries at most.
const MOST_TRIES: usize = 300;
/// The longest that a shrinking may take.
const LONGEST_SHRINKING: Duration = Duration::from_mins(5);
/// How often a smaller trace is tried: a race does not fail each time.
const TRIES: usize = 2;
/// The longest that one trace may take beyond the limits of the inputs.
const LONGEST: Duration = Duration::from_mins(5);

/// Carries traces out until one of them breaks a rule; `begins` gets each, those of a shrinking too. `command` is the
/// command line of the report, to which it adds a seed.
///
/// # Errors
///
/// The provider cannot be started or connected to, or the inputs do not fit it.
///
/// # Cancellation
///
/// Leaves behind in the cloud what the running trace has made.
pub async fn explore(
    settings: Settings,
    plan: Plan,
    command: String,
    mut begins: impl FnMut(&Explored, &Trace),
) -> Result<Explored, NoReport> {
    let suite = run::prepare(&settings).await;
    let suite = Arc::new(suite.map_err(NoReport::Unreachable)?);
    let fits = settings.inputs.check(&suite.handshake);
    fits.map_err(NoReport::Inputs)?;
    let unreachable = |stop: Stop| NoReport::Unreachable(stop.to_string());
    let subject = Subject::of(&suite, "explore").await.map_err(unreachable)?;
    let world = World::of(&subject).map_err(NoReport::Inputs)?;
    let explorer = Explorer {
        suite,
        subject,
        world: Arc::new(world),
    };
    let mut explored = Explored {
        command,
        ..Explored::default()
    };
    let exploration = explorer.explore(plan, &mut explored, &mut begins);
    let interrupted = async {
        let mut terminated = signal(SignalKind::terminate())?;
        tokio::select! {
            ended = ctrl_c() => ended,
            _ = terminated.recv() => Ok(()),
        }
    };
    // A shrinking that ends early shows the smallest trace so far.
    tokio::select! {
        () = exploration => {}
        _ = interrupted => eprintln!("provider-conformance: interrupted; it cleans up"),
    }
    run::clean_up(&explorer.suite, "explore").await;
    explored.leftovers = explorer.suite.leftovers.names();
    Ok(explored)
}

struct Explorer {
    suite: Arc<Suite>,
    subject: Subject,
    world: Arc<World>,
}

impl Explorer {
    async fn explore(
        &self,
        plan: Plan,
        explored: &mut Explored,
        begins: &mut impl FnMut(&Explored, &Trace),
    ) {
        let started = Instant::now();
        let mut seed = plan.first;
        let is_over = |seed: u64| {
            plan.count
                .is_some_and(|count| seed.wrapping_sub(plan.first) >= count)
                || plan
                    .duration
                    .is_some_and(|duration| started.elapsed() >= duration)
        };
        while !is_over(seed) && explored.failure.is_none() {
            self.one(seed, plan, explored, begins).await;
            explored.took = started.elapsed();
            seed = seed.wrapping_add(1);
        }
    }

    /// Carries the trace of a seed out, and shrinks it if it fails.
    async fn one(
        &self,
        seed: u64,
        plan: Plan,
        explored: &mut Explored,
        begins: &mut impl FnMut(&Explored, &Trace),
    ) {
        let mut runner = TestRunner::new(Config {
            rng_seed: RngSeed::Fixed(seed),
            failure_persistence: None,
            ..Config::default()
        });
        let traces = generate::traces(&self.world, plan.steps);
        let Ok(mut tree) = traces.new_tree(&mut runner) else {
            // Nothing is rejected, so that each seed has a trace.
            return;
        };
        let (_, turns, counter) = tree.current();
        let first = Trace(turns);
        begins(explored, &first);
        explored.traces += 1;
        explored.turns += first.0.len();
        let Err(broken) = self.try_out(&first).await else {
            return;
        };
        if let Some(counter) = counter {
            // The turns after these are left out at once.
            let count = broken.turn.unwrap_or(first.0.len());
            counter.store(count, Ordering::SeqCst);
        }
        let rule = broken.rule;
        let mut best = Found {
            trace: first.clone(),
            broken,
            seed: (seed, plan.steps),
            shrunk: (0, Duration::ZERO),
        };
        explored.failure = Some(best.clone());
        begins(explored, &first);
        let started = Instant::now();
        let mut outcomes = HashMap::from([(first.to_string(), true)]);
        let mut fails = true;
        while best.shrunk.0 < MOST_TRIES && best.shrunk.1 < LONGEST_SHRINKING {
            let is_other = if fails {
                tree.simplify()
            } else {
                tree.complicate()
            };
            if !is_other {
                break;
            }
            let smaller = Trace(tree.current().1);
            let text = smaller.to_string();
            if let Some(outcome) = outcomes.get(&text) {
                fails = *outcome;
                continue;
            }
            begins(explored, &smaller);
            let broken = self.breaks(&smaller, rule).await;
            fails = broken.is_some();
            outcomes.insert(text, fails);
            if let Some(broken) = broken {
                (best.trace, best.broken) = (smaller, broken);
            }
            best.shrunk = (best.shrunk.0 + 1, started.elapsed());
            explored.failure = Some(best.clone());
        }
    }

    /// The failure of a trace by this rule, if one of some tries has it.
    async fn breaks(&self, trace: &Trace, rule: &'static Rule) -> Option<Broken> {
        for _ in 0..TRIES {
            let broken = self.try_out(trace).await.err();
            if broken.as_ref().is_some_and(|broken| broken.rule == rule) {
                return broken;
            }
        }
        None
    }

    /// Carries one trace out with names that no earlier one had, and removes all that it made.
    async fn try_out(&self, trace: &Trace) -> Result<(), Broken> {
        let limits = &self.suite.inputs.limits;
        let longest = LONGEST + limit(limits.ready) + limit(limits.gone);
        let mut verdict = match timeout(longest, Box::pin(self.play(trace))).await {
            Ok(verdict) => verdict,
            Err(_elapsed) => {
                let expected = format!("the trace ends within {longest:?}");
                Err(Rule::ENDED.broken(expected, "it did not end"))
            }
        };
        if let Some(failure) = self.suite.end(verdict.is_err()).await {
            let turn = verdict.err().and_then(|broken| broken.turn);
            let broken = Rule::PROCESS.failed(failure);
            verdict = Err(Broken { turn, ..broken });
        }
        run::clean_up(&self.suite, "explore").await;
        verdict
    }

    async fn play(&self, trace: &Trace) -> Result<(), Broken> {
        let plain = Identities::default();
        let cloud = look::cloud_state(&self.subject, &plain).await?;
        let mut stage = self.stage().await?;
        for (turn, number) in trace.0.iter().zip(1..) {
            let played = stage.turn(turn).await;
            played.map_err(|broken| Broken {
                turn: Some(number),
                ..broken
            })?;
        }
        stage.settle().await?;
        let changed = look::shown(&stage).await?;
        let desired = stage.desired.clone();
        stage.end().await?;
        let as_before = "the cloud has what it had before the first step, and no more";
        let after = look::cloud_state(&stage.subject, &plain).await?;
        are_same(Rule::LEFT, as_before, &cloud, &after)?;

        let mut stage = self.stage().await?;
        stage.make(desired).await?;
        let new = look::shown(&stage).await?;
        stage.end().await?;
        are_same(Rule::FRESH, "all is as with new Services", &new, &changed)?;
        let after = look::cloud_state(&stage.subject, &plain).await?;
        are_same(Rule::LEFT, as_before, &cloud, &after)
    }

    async fn stage(&self) -> Result<Stage, Broken> {
        let subject = Rule::PROCESS.of(self.subject.connect().await)?;
        let listed = look::balancers(&subject).await?.into_iter();
        Ok(Stage {
            others: listed
                .filter_map(|one| one.service)
                .map(|tag| tag.uid)
                .collect(),
            subject,
            desired: Desired::new(&self.world),
            lives: BTreeMap::new(),
            gone: Vec::new(),
        })
    }
}

/// The second lines are the first ones; `expected` says what they are of.
fn are_same(
    rule: &'static Rule,
    expected: &str,
    first: &[String],
    second: &[String],
) -> Result<(), Broken> {
    let (missing, more) = state::differences(first, second);
    if missing.is_empty() && more.is_empty() {
        return Ok(());
    }
    let more = more.iter().map(|line| format!("more: {line}"));
    let missing = missing.iter().map(|line| format!("missing: {line}"));
    let lines: Vec<_> = more.chain(missing).collect();
    Err(rule.broken(expected, lines.join("\n")))
}

#[cfg(test)]
mod tests;
