//! Mistakes about volumes.

use std::sync::atomic::{AtomicU64, Ordering};

use outrigger_api::v1::{
    BatchGetVolumesRequest, BatchGetVolumesResponse, ErrorReason, VolumeAbsent, VolumeNodeTerm,
    VolumeResult, VolumeTopology, volume_result::Outcome,
};
use tonic::Code;

use super::{Defect, item};
use crate::faults::Method::BatchGetVolumes;
use crate::wire::frames::Answer;

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
                if is_error(outcome, Code::FailedPrecondition) {
                    *outcome = absent();
                }
            },
        ),
        outcomes(
            "absent-volume-is-an-error",
            "A volume that does not exist is an error, as in the cloud's API.",
            &["VOL-03"],
            |outcome| {
                if let Outcome::Absent(_) = outcome {
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
            "foreign-volume-is-absent",
            "A volume of another account is absent.",
            &["VOL-07"],
            |outcome| {
                if let Outcome::NotManaged(_) = outcome {
                    *outcome = absent();
                }
            },
        ),
        volumes_absent_while_the_cloud_fails(),
        any_batch_of_volumes(),
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

fn absent() -> Outcome {
    let reason = "404: no such volume".to_owned();
    Outcome::Absent(VolumeAbsent { reason })
}

/// Changes the outcome of each volume.
fn outcomes(
    name: &'static str,
    sentence: &'static str,
    cases: &'static [&'static str],
    change: impl Fn(&mut Outcome) + Send + Sync + 'static,
) -> Defect {
    let each = move |answer: &mut BatchGetVolumesResponse| {
        let outcomes = answer.results.iter_mut();
        let outcomes = outcomes.filter_map(|result| result.outcome.as_mut());
        outcomes.for_each(&change);
    };
    Defect::new(name, sentence, cases).answer(BatchGetVolumes, each)
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

fn volumes_absent_while_the_cloud_fails() -> Defect {
    Defect::new(
        "volumes-absent-while-the-cloud-fails",
        "A lookup that fails in the cloud has no volumes.",
        &["VOL-08"],
    )
    .around(BatchGetVolumes, |call, next| async move {
        let request: BatchGetVolumesRequest = call.message();
        let answer = next.serve(call).await;
        let error = answer.error();
        if error.is_none_or(|error| error.code() != Code::Unavailable) {
            return answer;
        }
        let result = |key| VolumeResult {
            key,
            outcome: Some(absent()),
        };
        let keys = request.volumes.into_iter().map(|volume| volume.key);
        Answer::ok(&BatchGetVolumesResponse {
            results: keys.map(result).collect(),
        })
    })
}

fn any_batch_of_volumes() -> Defect {
    Defect::new(
        "key-of-a-volume-twice",
        "Of two volumes with one key the last one counts.",
        &["VOL-09"],
    )
    .request(BatchGetVolumes, |request: &mut BatchGetVolumesRequest| {
        let mut keys = std::collections::BTreeSet::new();
        request.volumes.reverse();
        let is_last = |volume: &outrigger_api::v1::Volume| keys.insert(volume.key.clone());
        request.volumes.retain(is_last);
    })
}
