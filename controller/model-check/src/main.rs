//! `model-check`: searches the models in a scope of one's choice.

use std::process::ExitCode;

use clap::Parser;
use outrigger_model_check::{MODELS, Scope, check};

/// Searches every interleaving of a few faults for one in which the controller's decisions do harm.
#[derive(Debug, Parser)]
struct Options {
    /// Models to search; all without.
    models: Vec<String>,
    /// Faults of each kind.
    #[arg(long, default_value_t = 1)]
    faults: u8,
    /// Processes that die.
    #[arg(long)]
    crashes: Option<u8>,
    /// Answers that are lost.
    #[arg(long)]
    lost_answers: Option<u8>,
    /// Reads that show the past.
    #[arg(long)]
    stale_reads: Option<u8>,
    /// Edits by users.
    #[arg(long)]
    edits: Option<u8>,
    /// Changes of leader.
    #[arg(long)]
    leader_changes: Option<u8>,
    /// Writes of an earlier term that arrive late.
    #[arg(long, default_value_t = 0)]
    late_writes: u8,
    /// States after which a search ends.
    #[arg(long, default_value_t = 20_000_000)]
    states: usize,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let each = |number: Option<u8>| number.unwrap_or(options.faults);
    let scope = Scope {
        crashes: each(options.crashes),
        lost_answers: each(options.lost_answers),
        stale_reads: each(options.stale_reads),
        edits: each(options.edits),
        leader_changes: each(options.leader_changes),
        late_writes: options.late_writes,
    };
    let all: Vec<String> = MODELS.map(str::to_owned).into();
    let models = if options.models.is_empty() {
        all
    } else {
        options.models
    };
    let mut has_fault = false;
    for model in models {
        let report = check(&model, scope, options.states);
        let report =
            report.ok_or_else(|| anyhow::anyhow!("no model {model:?}; there are {MODELS:?}"))?;
        println!("{report}");
        has_fault |= report.fault.is_some();
    }
    Ok(if has_fault {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
