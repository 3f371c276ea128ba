//! For machines: one JSON document.

use serde_json::{Value, json};

use super::{Cause, Judged, Outcome, Report, causes};
use crate::describe;

/// The number of the shape: another one where a field is renamed, or changes its meaning. docs/conformance.md has it.
pub const FORMAT: u32 = 1;

/// The whole report.
pub fn json(report: &Report) -> Value {
    json!({
        "format": FORMAT,
        "suite": {"name": "provider-conformance", "version": report.version},
        "contract": {"package": "cloudprovider.v1", "minor": report.minor},
        "provider": {
            "name": report.provider,
            "version": report.provider_version,
            "endpoint": report.endpoint,
            "capabilities": report.capabilities,
        },
        "runId": report.run_id,
        "started": report.started.to_string(),
        "seconds": report.seconds,
        "counts": report.counts(),
        "causes": causes(&report.judged).iter().map(cause).collect::<Vec<_>>(),
        "leftovers": report.leftovers,
        "cases": report.judged.iter().map(case).collect::<Vec<_>>(),
    })
}

fn cause(cause: &Cause<'_>) -> Value {
    json!({"failure": cause.failure, "cases": cause.cases})
}

fn case(judged: &Judged) -> Value {
    let Judged {
        case,
        outcome,
        seconds,
    } = judged;
    let mut entry = describe::entry(case);
    entry["result"] = json!(outcome.word(case.level));
    entry["seconds"] = json!(seconds);
    match outcome {
        Outcome::Passed { needless } => entry["waiver"] = json!(needless),
        Outcome::Failed { failure, expired } => {
            entry["failure"] = json!(failure);
            entry["waiver"] = json!(expired);
        }
        Outcome::Waived { failure, waiver } => {
            entry["failure"] = json!(failure);
            entry["waiver"] = json!(waiver);
        }
        Outcome::Skipped(skip) => {
            entry["skip"] = json!(skip.kind());
            entry["because"] = json!(skip.to_string());
        }
    }
    entry
}
