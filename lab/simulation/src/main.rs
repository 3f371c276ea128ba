//! `outrigger-simulation`; see `--help`, and docs/evidence.md for what it does.
//!
//! Each seed has a process of its own, so that nothing is left from another one.

mod shrink;
mod systematic;

use std::{
    io::{Write, stdout},
    ops::Range,
    process::{Command, ExitCode, Stdio},
    sync::Mutex,
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use clap::{ArgGroup, Parser};
use outrigger_runtime::{
    clock,
    telemetry::{Logging, Telemetry},
};
use outrigger_simulation::{
    fault, host,
    log::Log,
    world::{Outcome, World},
};
use rand::{SeedableRng as _, rngs::StdRng};
use rustix::time::{ClockId, clock_gettime};

/// Debug builds have large futures.
const STACK: usize = 256 << 20;

/// Runs two whole controllers with their providers, one API server and one cloud on simulated time.
#[derive(Clone, Parser)]
#[command(group = ArgGroup::new("alone").args(["seed", "story"]))]
struct Options {
    /// Run stories: each write, call and event of a story with each fault, one after the other; without names: all
    #[arg(long, value_name = "STORY", num_args = 0.., conflicts_with_all = ["alone", "seeds"])]
    systematic: Option<Vec<String>>,
    /// Run this story alone
    #[arg(long, conflicts_with = "seeds")]
    story: Option<String>,
    /// With --story: when its fault begins, as in write/services/2
    #[arg(long, requires_all = ["story", "fault"])]
    at: Option<String>,
    /// With --story: its fault
    #[arg(long, requires = "at")]
    fault: Option<String>,
    /// Run this seed alone
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run these seeds, FIRST..END without the last
    #[arg(long, value_parser = range, default_value = "1..11")]
    seeds: Range<u64>,
    /// Processes at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Rounds: in each users act and faults happen, then what users want must be reached
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// With --seed: only these of its faults, by number; without a number: none
    #[arg(long, value_delimiter = ',', num_args = 0.., requires = "seed")]
    faults: Option<Vec<usize>>,
    /// With --seed or --story: print the log
    #[arg(long, requires = "alone")]
    log: bool,
    /// With --seed: find few faults with which it fails
    #[arg(long, requires = "seed", conflicts_with = "log")]
    shrink: bool,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is no number"));
    let (first, end) = text.split_once("..").ok_or("write FIRST..END")?;
    Ok(number(first)?..number(end)?)
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    if let (Some(seed), Some(number)) = (options.seed, options.faults.iter().flatten().max()) {
        let count = fault::faults(seed, options.rounds as usize).len();
        ensure!(
            *number < count,
            "seed {seed} has the faults 0 to {}",
            count - 1
        );
    }
    let well = match (&options.systematic, &options.story, options.seed) {
        (Some(names), ..) => systematic::run(&options, names)?,
        (_, Some(name), _) => systematic::one(&options, name)?,
        (.., Some(seed)) if options.shrink => shrink::shrink(&options, seed)?,
        (.., Some(seed)) => one(&options, seed)?,
        _ => many(&options)?,
    };
    Ok(if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs a world in this process; the outcome, and its size in words.
fn simulate(
    options: &Options,
    seed: u64,
    world: impl FnOnce() -> anyhow::Result<World> + Send + 'static,
) -> anyhow::Result<(Outcome, String)> {
    mad_turmoil::rand::set_rng(StdRng::seed_from_u64(seed));
    clock::set_source(host::time_of_day);
    let to: Option<Box<dyn Write + Send>> = options.log.then(|| Box::new(stdout()) as _);
    let log = Log::new(to);
    let logging = Logging {
        verbosity: 2,
        ..Logging::default()
    };
    Telemetry::install_to(&logging, log.clone(), 1)?;
    // Another thread, whose hash maps have not been seeded yet.
    let run = thread::Builder::new().stack_size(STACK).spawn(move || {
        fastrand::seed(seed);
        world()?.run()
    })?;
    let outcome = run.join().map_err(|_| anyhow!("a panic; see above"))??;
    let (lines, digest) = log.digest();
    let minutes = outcome.time.as_secs_f64() / 60.0;
    let summary = format!(
        "{minutes:.0} simulated minutes, {} turns, {lines} lines, digest {digest:016x}",
        outcome.turns
    );
    Ok((outcome, summary))
}

/// Runs a seed in this process.
fn one(options: &Options, seed: u64) -> anyhow::Result<bool> {
    let rounds = options.rounds as usize;
    let mut faults = fault::faults(seed, rounds);
    if let Some(some) = &options.faults {
        let mut number = 0..;
        faults.retain(|_| number.next().is_some_and(|number| some.contains(&number)));
    }
    let (outcome, summary) = simulate(options, seed, move || World::new(seed, rounds, faults))?;
    match &outcome.broken {
        None => println!("seed {seed}: well; {summary}"),
        Some(broken) => {
            let rounds = options.rounds;
            let faults = options.faults.as_deref().map(numbers);
            let faults = faults.map_or_else(String::new, |numbers| format!(" --faults {numbers}"));
            println!(
                "seed {seed}: FAILED: {broken}; {summary}\n  in lab: cargo run --release -p outrigger-simulation -- --rounds {rounds} --seed \
                 {seed}{faults} --log\n  --shrink in place of --log finds the faults that it takes"
            );
        }
    }
    Ok(outcome.broken.is_none())
}

/// The time of the machine: the program replaces `clock_gettime` of libc.
fn stopwatch() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Does `work` for each of `all`, so many at a time.
fn in_parallel<T: Send>(
    jobs: usize,
    all: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let all = Mutex::new(all);
    let next = || all.lock().ok().and_then(|mut all| all.next());
    let work = || std::iter::from_fn(next).try_for_each(&work);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| anyhow!("a panic"))?)
    })
}

/// Runs all seeds, each in a process.
fn many(options: &Options) -> anyhow::Result<bool> {
    let began = stopwatch();
    let totals = Mutex::new((0.0, Vec::new()));
    in_parallel(options.jobs, options.seeds.clone(), |seed| {
        let (well, text) = run_seed(options, seed, None)?;
        print!("{text}");
        let minutes = text
            .split(" simulated minutes")
            .next()
            .and_then(|text| text.rsplit(' ').next());
        let minutes: f64 = minutes
            .and_then(|minutes| minutes.parse().ok())
            .unwrap_or(0.0);
        if let Ok(mut totals) = totals.lock() {
            totals.0 += minutes / 60.0;
            if !well {
                totals.1.push(seed);
            }
        }
        Ok(())
    })?;
    let took = stopwatch().saturating_sub(began);
    let (hours, failed) = totals.into_inner()?;
    println!(
        "{hours:.1} simulated hours in {:.1} s, {:.0} a minute; seeds that failed: {failed:?}",
        took.as_secs_f64(),
        hours / took.as_secs_f64() * 60.0
    );
    Ok(failed.is_empty())
}

/// Numbers of faults as `--faults` takes them.
fn numbers(faults: &[usize]) -> String {
    let faults: Vec<_> = faults.iter().map(usize::to_string).collect();
    faults.join(",")
}

/// Runs a seed in another process; its output.
fn run_seed(
    options: &Options,
    seed: u64,
    faults: Option<&[usize]>,
) -> anyhow::Result<(bool, String)> {
    let (seed, rounds) = (seed.to_string(), options.rounds.to_string());
    let numbers = faults.map(numbers);
    let mut arguments = vec!["--seed", &seed, "--rounds", &rounds];
    if let Some(numbers) = &numbers {
        arguments.push("--faults");
        arguments.extend((!numbers.is_empty()).then_some(&**numbers));
    }
    child(&arguments)
}

/// Runs this program in another process; its output.
fn child(arguments: &[&str]) -> anyhow::Result<(bool, String)> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run myself")?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.is_empty() {
        text = format!("{}: FAILED: a panic\n", arguments.join(" "));
    }
    Ok((output.status.success(), text))
}
