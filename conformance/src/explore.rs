//! Random transitions of Services, targets and routes, with faults between them: the state after each is held against
//! the desired one, and the last against that of new objects. A failure is shrunk to the smallest trace.
//!
//! ```text
//!   generate ──► Trace ──► Stage ── Job ──► Subject ──► provider under test
//!      ▲           │         └► look: after each turn, at the end, and against a new stage
//!    seed       shrink ◄── Broken: the rule, expected and actual
//! ```

mod desired;
mod generate;
mod job;
mod look;
mod play;
mod report;
mod rule;
mod shrink;
mod state;
mod trace;
mod world;

use std::{sync::Arc, time::Duration};

use ipnet::IpNet;
use tokio::time::{Instant, timeout};

pub use play::Broken;
pub use report::{Explored, Found, Origin, TraceFile};
pub use rule::Rule;
pub use trace::{Trace, WORDS};

use crate::{
    inputs::limit,
    run::{self, NoReport, Settings},
    subject::{Subject, Suite},
    verdict::{Failure, Verdict},
};
use play::Stage;
use state::Identities;
use world::World;

/// The traces to carry out.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Those of seeds from `first` on, each of at most so many turns.
    Seeds {
        /// The first seed.
        first: u64,
        /// How many; none: until the time is up.
        count: Option<u64>,
        /// The time after which no further one begins.
        duration: Option<Duration>,
        /// The turns of a trace.
        steps: usize,
    },
    /// These, each with a name.
    Given(Vec<(String, Trace)>),
}

/// Traces that a shrinking tries at most.
const MOST_TRIES: usize = 300;
/// The time after which a shrinking ends.
const SHRINKING: Duration = Duration::from_mins(5);
/// How often a trace that failed is made again, to see whether it always fails.
const REPEATS: usize = 4;
/// Parts of a range of Pod CIDRs that routes lead to one after the other, and those of one stage.
const PARTS: usize = 256;
const OF_RANGE: usize = 2;
/// The longest that one trace may take beyond the limits of the inputs.
const LONGEST: Duration = Duration::from_mins(5);

/// Carries traces out until one of them breaks a rule; `begun` gets each. `command` is the command line of the
/// report, to which it adds a seed or a trace.
///
/// # Errors
///
/// The provider cannot be started or connected to, or the inputs or traces do not fit it.
///
/// # Cancellation
///
/// Leaves behind in the cloud what the running trace has made; `sweep` removes it.
pub async fn explore(
    settings: Settings,
    plan: Plan,
    command: String,
    mut begun: impl FnMut(&Explored, &Trace),
) -> Result<Explored, NoReport> {
    let suite = run::prepare(&settings).await;
    let suite = Arc::new(suite.map_err(NoReport::Unreachable)?);
    let fits = settings.inputs.check(&suite.handshake);
    fits.map_err(NoReport::Inputs)?;
    let subject = Subject::of(&suite, "explore").await;
    let subject = subject.map_err(|stop| NoReport::Unreachable(stop.to_string()))?;
    let world = World::of(&subject).map_err(NoReport::Inputs)?;
    if let Plan::Given(traces) = &plan {
        for (name, trace) in traces {
            let checked = world.check(trace);
            checked.map_err(|error| NoReport::Inputs(format!("{name}: {error}")))?;
        }
    }
    let mut explorer = Explorer {
        suite,
        subject,
        world,
        tried: 0,
    };
    let mut explored = Explored {
        command,
        ..Explored::default()
    };
    let exploration = explorer.explore(plan, &mut explored, &mut begun);
    tokio::select! {
        () = exploration => {}
        _ = tokio::signal::ctrl_c() => eprintln!("provider-conformance: interrupted; it cleans up"),
    }
    explorer.clean_up().await;
    explored.leftovers = explorer.suite.leftovers.names();
    Ok(explored)
}

struct Explorer {
    suite: Arc<Suite>,
    subject: Subject,
    world: World,
    /// Traces that were tried, so that each has names of its own.
    tried: usize,
}

impl Explorer {
    async fn explore(
        &mut self,
        plan: Plan,
        explored: &mut Explored,
        begun: &mut impl FnMut(&Explored, &Trace),
    ) {
        let started = Instant::now();
        match plan {
            Plan::Given(traces) => {
                for (name, trace) in traces {
                    self.one(trace, Origin::Given(name), explored, begun).await;
                    explored.took = started.elapsed();
                    if explored.failure.is_some() {
                        return;
                    }
                }
            }
            Plan::Seeds {
                first,
                count,
                duration,
                steps,
            } => {
                let mut seed = first;
                let is_over = |seed: u64| {
                    count.is_some_and(|count| seed.wrapping_sub(first) >= count)
                        || duration.is_some_and(|duration| started.elapsed() >= duration)
                };
                while !is_over(seed) && explored.failure.is_none() {
                    let trace = generate::trace(seed, &self.world, steps);
                    let origin = Origin::Seed(seed, steps);
                    self.one(trace, origin, explored, begun).await;
                    explored.took = started.elapsed();
                    seed = seed.wrapping_add(1);
                }
            }
        }
    }

    /// Carries one trace out, and shrinks it if it fails.
    async fn one(
        &mut self,
        trace: Trace,
        origin: Origin,
        explored: &mut Explored,
        begun: &mut impl FnMut(&Explored, &Trace),
    ) {
        begun(explored, &trace);
        explored.traces += 1;
        explored.turns += trace.0.len();
        if let Err(broken) = self.try_out(&trace).await {
            explored.failure = Some(self.shrunk(trace, broken, origin).await);
        }
    }

    async fn shrunk(&mut self, trace: Trace, broken: Broken, origin: Origin) -> Found {
        let started = Instant::now();
        let mut failed = 1;
        for _ in 0..REPEATS {
            failed += usize::from(self.breaks(&trace, broken.rule).await.is_some());
        }
        let made = REPEATS + 1;
        let turns = trace.0.len();
        let mut failure = Found {
            trace: trace.clone(),
            broken: broken.clone(),
            origin,
            failed: (failed, made),
            shrunk: None,
        };
        // A trace that seldom fails is tried more often.
        let tries = if failed == made {
            1
        } else {
            made.div_ceil(failed) + 1
        };
        let mut last = broken.clone();
        let fails = async |smaller: &Trace| {
            for _ in 0..tries {
                if started.elapsed() > SHRINKING {
                    return false;
                }
                if let Some(broken) = self.breaks(smaller, broken.rule).await {
                    last = broken;
                    return true;
                }
            }
            false
        };
        let (trace, tried) = shrink::shrink(trace, MOST_TRIES, fails).await;
        failure.trace = trace;
        failure.broken = last;
        failure.shrunk = Some((turns, tried, started.elapsed()));
        failure
    }

    /// The failure of a trace, if it is of this rule.
    async fn breaks(&mut self, trace: &Trace, rule: Rule) -> Option<Broken> {
        let broken = self.try_out(trace).await.err()?;
        (broken.rule == rule).then_some(broken)
    }

    /// Carries one trace out with names that no earlier one had, and removes all that it made.
    async fn try_out(&mut self, trace: &Trace) -> Result<(), Broken> {
        self.tried += 1;
        let limits = &self.suite.inputs.limits;
        let longest = LONGEST + limit(limits.ready) + limit(limits.gone);
        let mut verdict = match timeout(longest, Box::pin(self.play(trace))).await {
            Ok(verdict) => verdict,
            Err(_elapsed) => {
                let expected = format!("the trace ends within {longest:?}");
                Err(Broken::new(Rule::Ended, expected, "it did not end"))
            }
        };
        if let Some(Failure { expected, actual }) = self.suite.end().await {
            let turn = verdict.err().and_then(|broken| broken.turn);
            let broken = Broken::new(Rule::Process, expected, actual);
            verdict = Err(Broken { turn, ..broken });
        }
        self.clean_up().await;
        verdict
    }

    async fn play(&self, trace: &Trace) -> Result<(), Broken> {
        let stopped = |stop| Broken::stopped(Rule::Process, &stop);
        let plain = Identities::default();
        let subject = self.subject.connect().await.map_err(stopped)?;
        let destinations = self.destinations(&subject, 0).await.map_err(stopped)?;
        let lookups = look::lookups(&subject).await.map_err(stopped)?;
        let cloud = look::cloud_state(&subject, &plain).await?;

        let stage = Stage::new(&subject, &self.world, destinations).await;
        let mut stage = stage.map_err(stopped)?;
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
        let subject = stage.subject.clone();
        self.is_as_before(&subject, &cloud).await?;

        let destinations = self.destinations(&subject, 1).await.map_err(stopped)?;
        let stage = Stage::new(&subject, &self.world, destinations).await;
        let mut stage = stage.map_err(stopped)?;
        stage.make(desired).await?;
        let new = look::shown(&stage).await?;
        stage.end().await?;
        same_as_new(&changed, &new)?;
        self.is_as_before(&subject, &cloud).await?;
        let after = look::lookups(&subject).await.map_err(stopped)?;
        if lookups == after {
            return Ok(());
        }
        let (before, after) = (format!("{lookups:?}"), format!("{after:?}"));
        Err(Broken::new(Rule::Lookups, before, after))
    }

    async fn is_as_before(&self, subject: &Subject, before: &[String]) -> Result<(), Broken> {
        let after = look::cloud_state(subject, &Identities::default()).await?;
        match state::differences(before, &after) {
            (gone, new) if gone.is_empty() && new.is_empty() => Ok(()),
            (gone, new) => {
                let expected = "the cloud has what it had before the first step, and no more";
                let gone = gone.iter().map(|line| format!("missing: {line}"));
                let new = new.iter().map(|line| format!("left: {line}"));
                let lines: Vec<_> = new.chain(gone).collect();
                Err(Broken::new(Rule::Left, expected, lines.join("\n")))
            }
        }
    }

    /// Free parts of the ranges of Pod CIDRs, as long as there are any others for each stage of each trace; the last one
    /// is a half of the first.
    async fn destinations(&self, subject: &Subject, stage: usize) -> Verdict<Vec<IpNet>> {
        let mut all = Vec::new();
        if self.world.routes == 0 {
            return Ok(all);
        }
        for range in &subject.inputs().cluster.pod_cidrs {
            let free = subject.free_parts(*range, PARTS).await?;
            let stages = (free.len() / OF_RANGE).max(1);
            let first = (2 * self.tried + stage) % stages * OF_RANGE;
            all.extend(free.into_iter().skip(first).take(OF_RANGE));
        }
        let half = all.first().and_then(|net| {
            let mut halves = net.subnets(net.prefix_len() + 1).ok()?;
            halves.next()
        });
        all.extend(half);
        Ok(all)
    }

    /// Deletes all that is left over, whatever state the provider is in.
    async fn clean_up(&self) {
        if self.suite.ended().await.is_some()
            && let Err(error) = self.suite.start().await
        {
            eprintln!("provider-conformance: the provider does not start again: {error}");
            return;
        }
        if self.suite.leftovers.is_empty() {
            return;
        }
        let cleaned = async {
            let subject = Subject::of(&self.suite, "explore").await?;
            subject.clean_up().await
        };
        if let Err(stop) = cleaned.await {
            eprintln!("provider-conformance: something is left in the cloud: {stop}");
        }
    }
}

/// A changed load balancer shows what a new one shows.
fn same_as_new(changed: &[String], new: &[String]) -> Result<(), Broken> {
    match state::differences(changed, new) {
        (changed, new) if changed.is_empty() && new.is_empty() => Ok(()),
        (mut changed, mut new) => {
            let is_of_route = |line: &String| line.contains(look::OF_ROUTE);
            let rule = if changed.iter().chain(&new).all(is_of_route) {
                Rule::FreshRoutes
            } else {
                Rule::Fresh
            };
            if let ([changed], [new]) = (&mut *changed, &mut *new) {
                (*changed, *new) = state::around_difference(changed, new);
            }
            let lines = |lines: Vec<String>| {
                if lines.is_empty() {
                    "nothing more".to_owned()
                } else {
                    lines.join("\n")
                }
            };
            let expected = format!("as with new Services and routes: {}", lines(new));
            Err(Broken::new(rule, expected, lines(changed)))
        }
    }
}

#[cfg(test)]
mod tests;
