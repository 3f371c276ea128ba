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
        found(
            "zone-of-the-provider",
            "A volume has the zone in which the provider runs.",
            &["VOL-01"],
            |topology| {
                topology
                    .labels
                    .insert(ZONE.to_owned(), "mock-1c".to_owned());
            },
        ),
        outcomes(
            "malformed-handle-is-absent",
            "A malformed handle is that of a volume which does not exist.",
            &["VOL-02"],
            |outcome| {
                if is_error(outcome, Code::InvalidArgument) {
                    *outcome = absent();
                }
            },
        ),
        outcomes(
            "young-volume-is-absent",
            "A volume that the cloud does not show yet is absent.",
            &["VOL-06"],
            |outcome| {
                if let Outcome::Absent(absent) = outcome {
                    absent.set_certainty(AbsenceCertainty::Confirmed);
                }
            },
        ),
        outcomes(
            "absent-volume-is-an-error",
            "A volume that does not exist is an error, as in the cloud's API.",
            &["VOL-03", "VOL-11"],
            |outcome| {
                if is_certain(outcome) {
                    let error = item(ErrorReason::CloudError, "404: no such volume");
                    *outcome = Outcome::Error(error);
                }
            },
        ),
        found(
            "changing-labels",
            "A label of a volume has the number of the lookup.",
            &["VOL-04"],
            move |topology| {
                let number = count.fetch_add(1, Ordering::Relaxed).to_string();
                let key = "mock.example/lookup".to_owned();
                topology.labels.insert(key, number);
            },
        ),
        found(
            "volume-labels-of-kubernetes",
            "A volume has a label of kubernetes.io beside zone and region.",
            &["VOL-05"],
            |topology| {
                let key = "node.kubernetes.io/instance-type".to_owned();
                topology.labels.insert(key, "any".to_owned());
            },
        ),
        outcomes(
            "absence-of-unknown-certainty",
            "The absence of a volume does not say how certain it is.",
            &["VOL-11"],
            |outcome| {
                if let Outcome::Absent(absent) = outcome
                    && absent.certainty() == AbsenceCertainty::Confirmed
                {
                    absent.set_certainty(AbsenceCertainty::Unspecified);
                }
            },
        ),
        outcomes(
            "foreign-volume-is-absent",
            "A volume of another account is absent.",
            &["VOL-07"],
            |outcome| {
                if let Outcome::NotManaged(_) = outcome {
                    *outcome = absent();
                }
            },
        ),
        Defect::new(
            "volumes-absent-while-the-cloud-fails",
            "A lookup that fails in the cloud has no volumes.",
            &["VOL-08"],
        )
        .while_the_cloud_fails::<BatchGetVolumesRequest>(absent),
        found(
            "term-without-requirements",
            "A volume that can be used everywhere has a term without requirements.",
            &["VOL-10"],
            |topology| topology.node_terms.push(VolumeNodeTerm::default()),
        ),
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
fn outcomes(
    name: &'static str,
    sentence: &'static str,
    cases: &'static [&'static str],
    change: impl Fn(&mut Outcome) + Send + Sync + 'static,
) -> Defect {
    let each = move |_: &BatchGetVolumesRequest, _: &_, outcome: &mut Outcome| change(outcome);
    Defect::new(name, sentence, cases).outcomes(each)
}

/// Changes each volume that is found.
fn found(
    name: &'static str,
    sentence: &'static str,
    cases: &'static [&'static str],
    change: impl Fn(&mut VolumeTopology) + Send + Sync + 'static,
) -> Defect {
    outcomes(name, sentence, cases, move |outcome| {
        if let Outcome::Found(topology) = outcome {
            change(topology);
        }
    })
}
