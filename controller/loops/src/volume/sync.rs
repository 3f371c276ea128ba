//! One volume.

use std::sync::Arc;

use outrigger_core::{
    error_class::ErrorClass,
    volume::{
        LabelProblem, NodeTerm, Stage, VolumeDecision, VolumePatch, VolumeStep, VolumeView, plan,
        step,
    },
};
use tracing::{debug, info, warn};

use super::VolumeLabels;
use crate::queue::Outcome;
use outrigger_kube::{
    error::ApiError,
    events::{EventContent, ObjectRef},
};
use outrigger_provider::{Session, VolumeLookup};
use outrigger_runtime::log_repeated;

/// The volume's own label says something else than the cloud.
const CONTRADICTION: &str = "LabelContradiction";
/// A label of the volume's provisioner is no list of zones.
const NO_ZONES: &str = "InvalidZoneLabel";
/// Its node affinity lacks terms, and can never be changed.
const AFFINITY: &str = "NodeAffinityMissing";
/// There is no such volume in the cloud.
const NOT_FOUND: &str = "VolumeNotFound";
/// The provider or the API server failed.
const FAILED: &str = "FailedToLabelVolume";

impl VolumeLabels {
    pub(super) async fn sync(&self, name: &Arc<str>) -> Outcome {
        let Some(volume) = self.volumes.get(name) else {
            return Outcome::Done;
        };
        let Some(session) = self.context.provider.session() else {
            return Outcome::Retry;
        };
        let Some(offered) = &session.volumes else {
            // Another process serves none: the next one is asked.
            return Outcome::Done;
        };
        match step(&volume, &offered.served, Stage::Existing) {
            VolumeStep::Leave(why) => {
                debug!(volume = &**name, why = why.as_str(), "volume left alone");
                Outcome::Done
            }
            VolumeStep::Decide(decision) => self.carry_out(&volume, &session, decision).await,
            VolumeStep::Ask if self.state.knows(&volume, &session) => Outcome::Done,
            VolumeStep::Ask => self.ask(volume, &session).await,
        }
    }

    async fn ask(&self, volume: Arc<VolumeView>, session: &Session) -> Outcome {
        match self.context.provider.volumes().look_up(&volume).await {
            Ok(VolumeLookup::Found(topology)) => {
                self.metrics.looked_up("found");
                let Some(offered) = &session.volumes else {
                    return Outcome::Done;
                };
                // The volume after the wait; another source would be another question.
                let now = self.volumes.get(&volume.name);
                let Some(now) = now.filter(|now| now.source == volume.source) else {
                    return Outcome::Retry;
                };
                let decision = plan(&now, &topology, &offered.served, Stage::Existing);
                self.carry_out(&now, session, decision).await
            }
            Ok(VolumeLookup::Absent { reason }) => {
                self.metrics.looked_up("absent");
                let message = format!("The volume does not exist in the cloud: {reason}");
                self.warn(&volume, NOT_FOUND, &message);
                self.state.remember(&volume, session);
                Outcome::Done
            }
            Ok(VolumeLookup::NotManaged { reason }) => {
                self.metrics.looked_up("not_managed");
                info!(volume = &*volume.name, %reason, "volume not managed by the provider");
                self.state.remember(&volume, session);
                Outcome::Done
            }
            Err(error) => {
                let class = error.class();
                self.metrics.looked_up(class.as_str());
                if class.is_for_owner() {
                    self.warn(&volume, FAILED, &error.to_string());
                }
                if class == ErrorClass::Invalid {
                    self.state.remember(&volume, session);
                }
                class.requeue().into()
            }
        }
    }

    async fn carry_out(
        &self,
        volume: &Arc<VolumeView>,
        session: &Session,
        decision: VolumeDecision,
    ) -> Outcome {
        match decision {
            VolumeDecision::Refuse(problem) => {
                let reason = match problem {
                    LabelProblem::Contradiction { .. } => CONTRADICTION,
                    LabelProblem::NoZones { .. } => NO_ZONES,
                };
                self.warn(volume, reason, &problem.to_string());
                self.state.remember(volume, session);
                Outcome::Done
            }
            VolumeDecision::Write { patch, missing } => {
                let written = self.write(volume, &patch).await;
                if written == Outcome::Done
                    && let Some(missing) = missing
                {
                    self.warn(volume, AFFINITY, &lacks(&missing));
                }
                written
            }
        }
    }

    /// A `test` that fails, or an affinity that another client has set, refuses all of it: the volume is planned
    /// again.
    async fn write(&self, volume: &Arc<VolumeView>, write: &VolumePatch) -> Outcome {
        // Closed never.
        let _permit = self.writing.acquire().await;
        match self.writer.write(volume, write).await {
            Ok(Some(_)) => {
                self.metrics.written();
                info!(
                    volume = &*volume.name,
                    labels = write.labels.len(),
                    affinity = write.node_terms.is_some(),
                    "volume labelled"
                );
                Outcome::Done
            }
            Ok(None) => Outcome::Done,
            Err(ApiError::Fenced) => Outcome::Retry,
            Err(error) => {
                let class = error.class();
                log_repeated!(
                    warn, self.context.repeats, &error.cause(),
                    volume = &*volume.name, class = class.as_str(), %error, "volume cannot be written"
                );
                if class.is_for_owner() {
                    self.warn(volume, FAILED, &error.to_string());
                }
                error.requeue().into()
            }
        }
    }

    /// An event, unless it was the last about the volume.
    fn warn(&self, volume: &VolumeView, reason: &'static str, message: &str) {
        if self.state.is_news(&volume.name, message) {
            warn!(volume = &*volume.name, reason, error = %message, "volume is not as the cloud has it");
            let object = ObjectRef::volume(Arc::clone(&volume.name), &*volume.uid);
            let event = EventContent::warning(reason, message);
            self.context.events.event(object, event);
        }
    }
}

/// The terms in words.
fn lacks(missing: &[NodeTerm]) -> String {
    let term = |term: &NodeTerm| {
        let requirements = term.match_expressions.iter();
        let requirements =
            requirements.map(|one| format!("{} in ({})", one.key, one.values.join(", ")));
        requirements.collect::<Vec<_>>().join(" and ")
    };
    let terms: Vec<_> = missing.iter().map(term).collect();
    format!(
        "The node affinity lacks {}, and cannot be changed; make the volume again for it",
        terms.join(", or ")
    )
}
