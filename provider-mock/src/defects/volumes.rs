//! Mistakes about volumes.

use std::sync::atomic::{AtomicU64, Ordering};

use outrigger_api::v1::{
    AbsenceCertainty, Absent, BatchGetVolumesRequest, ErrorReason, VolumeNodeTerm, VolumeTopology,
    volume_result::Outcome,
};
use tonic::Code;

use super::{Defect, item};

const ZONE: &str = "topology.kubernetes.io/zone";

pub(super) fn defects() -> Vec<Defect> {
    let count = AtomicU64::new(0);
    vec![
        found("zone-of-the-provider", |topology| {
            topology
                .labels
                .insert(ZONE.to_owned(), "mock-1c".to_owned());
        }),
        outcomes("malformed-handle-is-absent", |outcome| {
            if is_error(outcome, Code::InvalidArgument) {
                *outcome = absent();
            }
        }),
        outcomes("young-volume-is-absent", |outcome| {
            if let Outcome::Absent(absent) = outcome {
                absent.set_certainty(AbsenceCertainty::Confirmed);
            }
        }),
        outcomes("absent-volume-is-an-error", |outcome| {
            if is_certain(outcome) {
                let error = item(ErrorReason::CloudError, "404: no such volume");
                *outcome = Outcome::Error(error);
            }
        }),
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
        Defect::new("volumes-absent-while-the-cloud-fails")
            .while_the_cloud_fails::<BatchGetVolumesRequest>(absent),
        found("term-without-requirements", |topology| {
            topology.node_terms.push(VolumeNodeTerm::default());
        }),
    ]
}

fn is_error(outcome: &Outcome, code: Code) -> bool {
    matches!(outcome, Outcome::Error(status) if Code::from(status.code) == code)
}

fn is_certain(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Absent(absent) if absent.certainty() == AbsenceCertainty::Confirmed)
}

fn absent() -> Outcome {
    Outcome::Absent(Absent {
        certainty: AbsenceCertainty::Confirmed.into(),
        reason: "404: no such volume".to_owned(),
        age: None,
    })
}

/// Changes the outcome of each volume.
fn outcomes(name: &'static str, change: impl Fn(&mut Outcome) + Send + Sync + 'static) -> Defect {
    let each = move |_: &BatchGetVolumesRequest, _: &_, outcome: &mut Outcome| change(outcome);
    Defect::new(name).outcomes(each)
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
