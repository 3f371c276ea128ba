//! Checks of the results of a batch.

use std::time::Duration;

use outrigger_api::v1::{self, AbsenceCertainty, ErrorReason, volume_result::Outcome};
use outrigger_core::text;

use super::{METHOD, VolumeLookup, message};
use crate::provider::{Error, wire};

/// One answer for each volume, in the order of their keys.
#[derive(Debug)]
pub(super) struct VolumeResults {
    pub(super) answers: Vec<Result<VolumeLookup, Error>>,
    /// Results about other volumes.
    pub(super) strays: usize,
}

/// Reads the results for volumes with the keys 0 to `count`. A missing, doubled or illegal one is an error
/// of that volume.
pub(super) fn read(results: Vec<v1::VolumeResult>, count: usize, took: Duration) -> VolumeResults {
    let mut answers: Vec<Option<Result<VolumeLookup, Error>>> = vec![None; count];
    let mut strays = 0;
    for result in results {
        let at: Option<usize> = result.key.parse().ok();
        let Some(answer) = at.and_then(|at| answers.get_mut(at)) else {
            strays += 1;
            continue;
        };
        *answer = Some(match answer {
            None => read_one(result.outcome, took),
            Some(_) => Err(malformed("two results for one volume")),
        });
    }
    let answers = answers
        .into_iter()
        .map(|answer| answer.unwrap_or_else(|| Err(malformed("no result for the volume"))));
    VolumeResults {
        answers: answers.collect(),
        strays,
    }
}

fn read_one(outcome: Option<Outcome>, took: Duration) -> Result<VolumeLookup, Error> {
    match outcome {
        None => Err(malformed("a result without an outcome")),
        Some(Outcome::Found(topology)) => {
            let checked = message::raw(topology).check();
            let checked = checked.map_err(|fault| malformed(&fault.to_string()))?;
            Ok(VolumeLookup::Found(checked))
        }
        Some(Outcome::Absent(absent)) => {
            let why = wire::doubt(&absent, took);
            if absent.certainty() != AbsenceCertainty::Confirmed || why.is_some() {
                let reason = why.as_deref().unwrap_or(&absent.reason);
                let message = format!("the volume may exist: {reason}");
                return Err(Error::Refused {
                    rpc: METHOD.name,
                    reason: ErrorReason::DependencyNotReady,
                    message: text::message(&message).into(),
                    retry_after: None,
                    effects: None,
                });
            }
            Ok(VolumeLookup::Absent {
                reason: text::message(&absent.reason).into(),
            })
        }
        Some(Outcome::NotManaged(not_managed)) => Ok(VolumeLookup::NotManaged {
            reason: text::message(&not_managed.reason).into(),
        }),
        Some(Outcome::Error(status)) => {
            let error = Error::from_item(METHOD.name, &status);
            Err(error.unwrap_or_else(|| malformed("an error with code OK")))
        }
    }
}

fn malformed(what: &str) -> Error {
    Error::Malformed {
        rpc: METHOD.name,
        what: text::message(what).into(),
    }
}
