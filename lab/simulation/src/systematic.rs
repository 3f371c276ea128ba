//! Runs stories: each write, call and event of one with each fault, one after the other.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use outrigger_simulation::{
    story::{STORIES, Story, fault, faults_at, occasion, occasions_between},
    world::World,
};

use super::{Options, child, in_parallel, simulate, stopwatch};

/// Stories have no chance, but their processes draw numbers too.
const SEED: u64 = 1;

fn named(name: &str) -> anyhow::Result<&'static Story> {
    let names: Vec<_> = STORIES.iter().map(|story| story.name).collect();
    Story::named(name).with_context(|| format!("no story {name}; there are {}", names.join(", ")))
}

/// Runs a story in this process. Without a fault its occasions are printed.
pub(super) fn one(options: &Options, name: &str) -> anyhow::Result<bool> {
    let story = named(name)?;
    let (fault_here, label, repeat) = match (&options.at, &options.fault) {
        (Some(at), Some(kind)) => (
            Some(fault(at, kind).with_context(|| format!("no fault {kind} at {at}"))?),
            format!("story {name}, {kind} at {at}"),
            format!("--story {name} --at {at} --fault {kind}"),
        ),
        _ => (None, format!("story {name}"), format!("--story {name}")),
    };
    let is_plain = fault_here.is_none();
    let (outcome, summary) = simulate(options, SEED, move || World::of_story(story, fault_here))?;
    match &outcome.broken {
        None => println!("{label}: well; {summary}"),
        Some(broken) => println!(
            "{label}: FAILED: {broken}; {summary}\n  in lab: cargo run --release -p outrigger-simulation -- {repeat} --log"
        ),
    }
    if is_plain {
        let [before, end] = &outcome.occasions;
        for at in occasions_between(before, end) {
            println!("  {at}");
        }
    }
    Ok(outcome.broken.is_none())
}

/// Runs the stories of these names, all if there is none, with each fault at each occasion.
pub(super) fn run(options: &Options, names: &[String]) -> anyhow::Result<bool> {
    let began = stopwatch();
    let stories: Vec<_> = match names {
        [] => STORIES.iter().collect(),
        names => names
            .iter()
            .map(|name| named(name))
            .collect::<Result<_, _>>()?,
    };
    let failed = AtomicUsize::new(0);
    let mut all = 0;
    for story in stories {
        let (well, text) = child(&["--story", story.name])?;
        let mut runs = Vec::new();
        for at in text.lines().filter_map(|line| line.strip_prefix("  ")) {
            let faults = occasion(at).map(faults_at).unwrap_or_default();
            runs.extend(
                faults
                    .into_iter()
                    .map(|(kind, _)| [at.to_owned(), kind.to_owned()]),
            );
        }
        let before = failed.load(Ordering::Relaxed);
        if !well {
            failed.fetch_add(1, Ordering::Relaxed);
            print!("{text}");
        }
        let count = runs.len();
        all += count + 1;
        in_parallel(options.jobs, runs.into_iter(), |[at, kind]| {
            let (well, text) = child(&["--story", story.name, "--at", &at, "--fault", &kind])?;
            if !well {
                failed.fetch_add(1, Ordering::Relaxed);
                print!("{text}");
            }
            Ok(())
        })?;
        let failures = failed.load(Ordering::Relaxed) - before;
        println!("{}: {failures} of {} runs failed", story.name, count + 1);
    }
    let took = stopwatch().saturating_sub(began);
    let failed = failed.into_inner();
    println!(
        "{failed} of {all} runs failed, in {:.0} s",
        took.as_secs_f64()
    );
    Ok(failed == 0)
}
