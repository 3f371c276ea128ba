//! The loop persistentvolume-labels: labels and node affinity of volumes that were made without a provisioner,
//! before the webhook, or while it was away (P-1 to P-33 of `docs/upstream.md`).
//!
//! ```text
//!  store ─► queue ─► reconcile: core::volume::left_alone ─► no: provider: volumes().look_up
//!                                                               │ checked answer
//!                                                               ▼
//!                                                     core::volume::plan ─► one PATCH, or an event
//! ```
//!
//! A volume is labelled once: the mark in the same write keeps later lease terms from asking again. About a volume from
//! whose answer no write follows, the provider is asked again when the volume changes, and with each resync.
//!
//! RBAC: `list`, `watch`, `get`, `patch` on `persistentvolumes`; `create`, `patch` on `events`.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use outrigger_core::volume::{NodeTerm, Stage, VolumePatch, VolumeView, left_alone, plan};
use tokio::sync::Semaphore;
use tracing::{debug, info, warn};

use crate::{
    context::{LoopContext, not_written},
    control_loop::{ControlLoop, LoopInputs, Task},
    queue::{Outcome, Priority, QueueMetrics},
};
use outrigger_kube::{
    events::{EventContent, ObjectRef},
    store::{Change, Store},
    writer::ObjectWriter,
};
use outrigger_provider::{Session, VolumeLookup};
use outrigger_runtime::backoff::Backoff;

/// Name of the loop in `--controllers` and in its health check.
pub const NAME: &str = "persistentvolume-labels-controller";
/// The component of its events.
pub const COMPONENT: &str = "persistentvolume-labels";

/// Volumes that are written at once.
const WRITERS: usize = 8;

/// The volume's own label says something else than the cloud.
const CONTRADICTION: &str = "LabelContradiction";
/// Its node affinity lacks terms, and can never be changed.
const AFFINITY: &str = "NodeAffinityMissing";
/// There is no such volume in the cloud.
const NOT_FOUND: &str = "VolumeNotFound";
/// The provider or the API server failed.
const FAILED: &str = "FailedToLabelVolume";

/// The loop persistentvolume-labels.
pub struct VolumeLabels {
    context: LoopContext<Arc<str>>,
    volumes: Arc<Store<VolumeView>>,
    writer: ObjectWriter<VolumeView>,
    writing: Semaphore,
    /// No observation of a term is kept.
    state: Arc<()>,
}

/// Subscribes the loop to `volumes`. The name of the queue is upstream's (P-10).
pub fn subscribe(volumes: &Store<VolumeView>, metrics: &QueueMetrics) -> LoopInputs<Arc<str>, ()> {
    let inputs = LoopInputs::new("pvLabels", Backoff::default().with_jitter(), metrics);
    let queue = inputs.queue.clone();
    volumes.subscribe(
        move |change: &Change<'_, VolumeView>, origin| match change {
            Change::Added(volume) | Change::Updated(_, volume) => {
                queue.add(Arc::clone(&volume.name), origin.into());
            }
            Change::Deleted(volume) => queue.remove(&volume.name),
        },
    );
    inputs
}

impl VolumeLabels {
    /// The loop over `volumes`, for one lease term.
    pub fn new(context: LoopContext<Arc<str>>, volumes: Arc<Store<VolumeView>>) -> Self {
        Self {
            writer: ObjectWriter::new(context.api.clone(), Arc::clone(&volumes)),
            context,
            volumes,
            writing: Semaphore::new(WRITERS),
            state: Arc::default(),
        }
    }

    fn queue_all(&self) {
        let volumes = self.volumes.all().into_iter();
        let keys = volumes.map(|volume| Arc::clone(&volume.name));
        self.context.queue.add_all(keys, Priority::Bulk);
    }

    /// A `test` that fails, or an affinity that another client has set, refuses all of it: the volume is planned
    /// again.
    async fn write(&self, volume: &Arc<VolumeView>, write: &VolumePatch) -> Outcome {
        // Closed never.
        let _permit = self.writing.acquire().await;
        match self.writer.write(volume, write).await {
            Ok(written) => {
                if written.is_some() {
                    info!(
                        volume = &*volume.name,
                        labels = write.labels.len(),
                        affinity = write.node_terms.is_some(),
                        "volume labelled"
                    );
                }
                if let Some(missing) = &write.missing {
                    self.warn(volume, AFFINITY, &lacks(missing));
                }
                Outcome::Done
            }
            Err(error) => {
                if error.class().is_for_owner() {
                    self.warn(volume, FAILED, &error.to_string());
                }
                not_written!(self.context, volume = &*volume.name, "its labels", &error)
            }
        }
    }

    fn warn(&self, volume: &VolumeView, reason: &'static str, message: &str) {
        warn!(
            volume = &*volume.name,
            reason,
            error = message,
            "volume is not as the cloud has it"
        );
        let object = ObjectRef::volume(Arc::clone(&volume.name), &*volume.uid);
        let event = EventContent::warning(reason, message);
        self.context.events.event(object, event);
    }
}

impl ControlLoop for VolumeLabels {
    type Key = Arc<str>;
    type State = ();
    type Slot = ();

    const NAME: &'static str = NAME;

    fn state(&self) -> &Arc<()> {
        &self.state
    }

    /// The store, and a provider that serves volumes.
    async fn ready(&self) {
        let without = || {
            warn!("no volume is labelled: the provider serves no volumes (capabilities.volumes)");
            info!("Skipping {NAME:?}");
        };
        let serves = |session: &Session| session.volumes.is_some();
        self.context.provider.offering(serves, without).await;
        self.volumes.synced().await;
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        self.queue_all();
        Vec::new()
    }

    /// The new process may serve other drivers, and know what the last one refused.
    fn provider_restarted(&self) {
        self.queue_all();
    }

    async fn reconcile(self: Arc<Self>, name: Arc<str>, _: Priority, (): ()) -> Outcome {
        let (volume, session) = (self.volumes.get(&name), self.context.provider.session());
        let Some(volume) = volume else {
            return Outcome::Done;
        };
        let Some(session) = session else {
            return Outcome::Retry;
        };
        let Some(offered) = &session.volumes else {
            // Another process serves none: the next one is asked.
            return Outcome::Done;
        };
        if let Some(why) = left_alone(&volume, &offered.served, Stage::Existing) {
            debug!(volume = &*name, why, "volume left alone");
            return Outcome::Done;
        }
        let topology = match self.context.provider.volumes().look_up(&volume).await {
            Ok(VolumeLookup::Found(topology)) => topology,
            Ok(VolumeLookup::Absent { reason }) => {
                let message = format!("The volume does not exist in the cloud: {reason}");
                self.warn(&volume, NOT_FOUND, &message);
                return Outcome::Done;
            }
            Ok(VolumeLookup::NotManaged { reason }) => {
                debug!(volume = &*name, %reason, "volume not managed by the provider");
                return Outcome::Done;
            }
            Err(error) => {
                let class = error.class();
                if class.is_for_owner() {
                    self.warn(&volume, FAILED, &error.to_string());
                }
                return class.requeue().into();
            }
        };
        // The volume after the wait; another source would be another question.
        let now = self.volumes.get(&name);
        let Some(now) = now.filter(|now| now.source == volume.source) else {
            return Outcome::Retry;
        };
        match plan(&now, &topology, &offered.served, Stage::Existing) {
            Ok(patch) => self.write(&now, &patch).await,
            Err(contradiction) => {
                self.warn(&now, CONTRADICTION, &contradiction.to_string());
                Outcome::Done
            }
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
