//! The loop persistentvolume-labels: labels and node affinity of volumes that were made without a provisioner,
//! before the webhook, or while it was away (P-1 to P-33 of `docs/upstream.md`).
//!
//! ```text
//!  store ─► queue ─► sync: core::volume::step ─► Ask ─► provider: volumes().look_up (batched)
//!                                 │                          │ checked answer
//!                                 ▼                          ▼
//!                               Leave                 core::volume::plan ─► one PATCH, or an event
//! ```
//!
//! A volume is labelled once: the mark in the same write keeps later lease terms from asking again. An answer
//! from which no write follows is remembered for the lease term.
//!
//! RBAC: `list`, `watch`, `get`, `patch` on `persistentvolumes`; `create`, `patch` on `events`.

mod metrics;
mod state;
mod sync;

#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use futures::FutureExt;
use outrigger_core::volume::VolumeView;
use tokio::sync::Semaphore;
use tracing::{info, warn};

pub use self::{metrics::VolumeMetrics, state::VolumeState};
use outrigger_kubernetes::{
    api::Api,
    events::Recorder,
    store::{Change, Store},
    writer::ObjectWriter,
};
use outrigger_loops::control_loop::{ControlLoop, LoopInputs, Task, Term};
use outrigger_provider_client::Provider;
use outrigger_runtime::{
    queue::{Backoff, Outcome, Priority, Queue, QueueMetrics},
    telemetry::Repeats,
};

/// Name of the loop in `--controllers` and in its health check.
pub const NAME: &str = "persistentvolume-labels-controller";
/// The component of its events.
pub const COMPONENT: &str = "persistentvolume-labels";

/// Volumes that are written at once.
const WRITERS: usize = 8;

/// The parts that the loop is made of.
#[derive(Clone)]
pub struct VolumeParts {
    /// Requests under the name `pvl-controller`.
    pub api: Api,
    /// All volumes.
    pub volumes: Arc<Store<VolumeView>>,
    /// The cloud.
    pub provider: Provider,
    /// Events of component [`COMPONENT`].
    pub events: Recorder,
    /// `outrigger_volume_*`.
    pub metrics: VolumeMetrics,
}

/// The loop persistentvolume-labels.
pub struct VolumeLabels {
    parts: VolumeParts,
    writer: ObjectWriter<VolumeView>,
    queue: Queue<Arc<str>>,
    state: Arc<VolumeState>,
    writing: Semaphore,
    repeats: Repeats,
}

impl fmt::Debug for VolumeLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeLabels")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// Subscribes the loop to `volumes`. The name of the queue is upstream's (P-10).
pub fn subscribe(
    volumes: &Store<VolumeView>,
    metrics: &QueueMetrics,
) -> LoopInputs<Arc<str>, VolumeState> {
    let inputs =
        LoopInputs::<_, VolumeState>::new("pvLabels", Backoff::default().with_jitter(), metrics);
    let LoopInputs { queue, state } = inputs.clone();
    volumes.subscribe(move |change: &Change<'_, VolumeView>, origin| {
        // A lease term begins with all volumes.
        let Some(state) = state.current() else {
            return;
        };
        match change {
            Change::Added(volume) | Change::Updated(_, volume) => {
                queue.add(Arc::clone(&volume.name), origin.priority());
            }
            Change::Deleted(volume) => {
                queue.remove(&volume.name);
                state.forget(&volume.name);
            }
        }
    });
    inputs
}

impl VolumeLabels {
    /// The loop over the keys of `inputs`, for one lease term.
    pub fn new(
        mut parts: VolumeParts,
        inputs: &LoopInputs<Arc<str>, VolumeState>,
        term: &Term,
    ) -> Self {
        parts.api = parts.api.fenced(term.fence.clone());
        parts.provider = parts.provider.fenced(term.fence.clone());
        Self {
            writer: ObjectWriter::new(parts.api.clone(), Arc::clone(&parts.volumes)),
            parts,
            queue: inputs.queue.clone(),
            state: Arc::default(),
            writing: Semaphore::new(WRITERS),
            repeats: Repeats::default(),
        }
    }

    fn queue_all(&self) {
        let volumes = self.parts.volumes.all().into_iter();
        let keys = volumes.map(|volume| Arc::clone(&volume.name));
        self.queue.add_all(keys, Priority::Bulk);
    }
}

impl ControlLoop for VolumeLabels {
    type Key = Arc<str>;
    type State = VolumeState;

    const NAME: &'static str = NAME;

    fn state(&self) -> &Arc<VolumeState> {
        &self.state
    }

    /// The store, and a provider that serves volumes.
    async fn ready(&self) {
        let without = || {
            warn!("no volume is labelled: the provider serves no volumes (capabilities.volumes)");
            info!("Skipping {NAME:?}");
        };
        self.parts.provider.volumes().serving(without).await;
        self.parts.volumes.synced().await;
    }

    fn begin(self: &Arc<Self>) -> Vec<Task> {
        self.queue_all();
        // Another process behind the socket may serve other drivers, and know what the last one refused.
        let this = Arc::clone(self);
        let restarts = async move { this.parts.provider.each_restart(|| this.queue_all()).await };
        vec![("provider restarts", restarts.boxed())]
    }

    async fn reconcile(self: Arc<Self>, name: Arc<str>, _: Priority) -> Outcome {
        self.sync(&name).await
    }
}
