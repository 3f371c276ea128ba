//! For machines: one JSON document.

use serde_json::{Value, json};

use super::{Judged, Outcome, Report};
use crate::describe;

/// The whole report. Fields are only added, never renamed.
pub fn json(report: &Report) -> Value {
    json!({
        "suite": {"name": "provider-conformance", "version": report.version},
        "provider": {
            "name": report.provider,
            "version": report.provider_version,
            "endpoint": report.endpoint,
        },
        "runId": report.run_id,
        "started": report.started.to_string(),
        "seconds": report.seconds,
        "counts": report.counts(),
        "leftovers": report.leftovers,
        "cases": report.judged.iter().map(case).collect::<Vec<_>>(),
    })
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
