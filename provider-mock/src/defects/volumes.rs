//! Mistakes about volumes.

use std::sync::atomic::{AtomicU64, Ordering};

use outrigger_api::v1::{
    AbsenceCertainty, Absent, ErrorReason, GetVolumeRequest, GetVolumeResponse, VolumeNodeTerm,
    VolumeTopology, get_volume_response::Outcome,
};
use tonic::Code;

use super::hook::On;
use super::{Defect, refusal};
use crate::exchange::Answer;

const ZONE: &str = "topology.kubernetes.io/zone";

pub(super) fn defects() -> Vec<Defect> {
    let count = AtomicU64::new(0);
    vec![
        found("zone-of-the-provider", |topology| {
            topology
                .labels
                .insert(ZONE.to_owned(), "mock-1c".to_owned());
        }),
        absent_instead("malformed-handle-is-absent", Code::InvalidArgument),
        outcomes("young-volume-is-absent", |outcome| {
            if let Outcome::Absent(absent) = outcome {
                absent.set_certainty(AbsenceCertainty::Confirmed);
            }
        }),
        Defect::new("absent-volume-is-an-error").answered(
            On::of::<GetVolumeRequest>(),
            |_, answer| {
                let said: Vec<GetVolumeResponse> = answer.messages();
                if said.iter().any(is_absent) {
                    let text = "404: no such volume";
                    return Answer::failed(refusal(ErrorReason::CloudError, text));
                }
                answer
            },
        ),
        found("changing-labels", move |topology| {
            let number = count.fetch_add(1, Ordering::Relaxed).to_string();
            let key = "mock.example/lookup".to_owned();
            topology.labels.insert(key, number);
        }),
        found("volume-labels-of-kubernetes", |topology| {
            let key = "node.kubernetes.io/instance-type".to_owned();
            topology.labels.insert(key, "any".to_owned());
        }),
        outcomes("absence-of-unknown-certainty", |outcome| {
            if let Outcome::Absent(absent) = outcome
                && absent.certainty() == AbsenceCertainty::Confirmed
            {
                absent.set_certainty(AbsenceCertainty::Unspecified);
            }
        }),
        outcomes("foreign-volume-is-absent", |outcome| {
            if let Outcome::NotManaged(_) = outcome {
                *outcome = absent();
            }
        }),
        absent_instead("volumes-absent-while-the-cloud-fails", Code::Unavailable),
        found("term-without-requirements", |topology| {
            topology.node_terms.push(VolumeNodeTerm::default());
        }),
    ]
}

fn absent() -> Outcome {
    Outcome::Absent(Absent {
        certainty: AbsenceCertainty::Confirmed.into(),
        reason: "404: no such volume".to_owned(),
        age: None,
    })
}

fn is_absent(said: &GetVolumeResponse) -> bool {
    let certain = AbsenceCertainty::Confirmed;
    matches!(&said.outcome, Some(Outcome::Absent(absent)) if absent.certainty() == certain)
}

/// Answers an error of this code as the absence of the volume.
fn absent_instead(name: &'static str, code: Code) -> Defect {
    Defect::new(name).answered(On::of::<GetVolumeRequest>(), move |_, answer| {
        if answer.code() != code {
            return answer;
        }
        let outcome = Some(absent());
        Answer::ok(&GetVolumeResponse { outcome })
    })
}

/// Changes the outcome of each volume.
fn outcomes(name: &'static str, change: impl Fn(&mut Outcome) + Send + Sync + 'static) -> Defect {
    Defect::new(name).answer::<GetVolumeRequest>(move |_, said| {
        said.outcome.iter_mut().for_each(&change);
    })
}

/// Changes each volume that is found.
fn found(
    name: &'static str,
    change: impl Fn(&mut VolumeTopology) + Send + Sync + 'static,
) -> Defect {
    outcomes(name, move |outcome| {
        if let Outcome::Found(topology) = outcome {
            change(topology);
        }
    })
}
