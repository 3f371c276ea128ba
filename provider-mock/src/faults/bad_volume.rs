//! Bad answers about volumes.

use outrigger_api::v1::{
    VolumeAbsent, VolumeNotManaged, VolumeResult, VolumeTopology, volume_result::Outcome,
};

use super::BadAnswer;

const ZONE: &str = "topology.kubernetes.io/zone";
const INJECTED: &str = "injected with provider-mock ctl answers";

impl BadAnswer {
    /// Spoils the results of a lookup.
    pub(crate) fn spoil_volume_results(
        self,
        results: &mut Vec<VolumeResult>,
        concerns: impl Fn(&VolumeResult) -> bool,
    ) {
        match self {
            Self::MissingResult => results.retain(|result| !concerns(result)),
            Self::DuplicateResult => {
                let twins = results.iter().filter(|one| concerns(one));
                results.extend(twins.cloned().collect::<Vec<_>>());
            }
            Self::ForeignResult => results.push(VolumeResult {
                key: "stray".to_owned(),
                outcome: Some(Outcome::Found(VolumeTopology::default())),
            }),
            _ => {
                for result in results.iter_mut().filter(|result| concerns(result)) {
                    self.spoil_volume(&mut result.outcome);
                }
            }
        }
    }

    fn spoil_volume(self, outcome: &mut Option<Outcome>) {
        let reason = || INJECTED.to_owned();
        match (self, outcome) {
            (Self::Empty, outcome) => *outcome = None,
            (Self::NotManaged, outcome) => {
                *outcome = Some(Outcome::NotManaged(VolumeNotManaged { reason: reason() }));
            }
            (Self::FalseAbsence, outcome @ Some(Outcome::Found(_))) => {
                *outcome = Some(Outcome::Absent(VolumeAbsent { reason: reason() }));
            }
            (Self::BadLabel, Some(Outcome::Found(topology))) => {
                let labels = [
                    (ZONE, "no label value!"),
                    ("node-role.kubernetes.io/control-plane", ""),
                ];
                let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
                topology.labels.extend(labels);
            }
            (Self::OversizedStrings, Some(Outcome::Found(topology))) => {
                topology.labels.insert(ZONE.to_owned(), "z".repeat(2_000));
            }
            _ => {}
        }
    }
}
