//! Finds few faults with which a seed fails.

use outrigger_simulation::fault;

use super::{Options, run_seed};

/// Leaves out as many faults of `seed` as it goes: halves first, then ever less. Prints those that are left.
pub(super) fn shrink(options: &Options, seed: u64) -> anyhow::Result<bool> {
    let all = fault::faults(seed, options.rounds as usize);
    let mut left: Vec<usize> = match &options.faults {
        Some(faults) => faults.clone(),
        None => (0..all.len()).collect(),
    };
    let (well, mut text) = run_seed(options, seed, Some(&left))?;
    if well {
        println!("seed {seed} does not fail");
        return Ok(true);
    }
    let mut part = left.len();
    while part > 0 {
        let mut at = 0;
        while at < left.len() {
            let mut fewer = left.clone();
            fewer.drain(at..(at + part).min(left.len()));
            let (well, tried) = run_seed(options, seed, Some(&fewer))?;
            if well {
                at += part;
            } else {
                println!("fails with {} of {} faults", fewer.len(), all.len());
                (left, text) = (fewer, tried);
            }
        }
        part /= 2;
    }
    print!("{text}");
    for number in &left {
        println!("  {number}: {}", all[*number]);
    }
    Ok(false)
}
