//! The loop persistentvolume-labels: labels and node affinity of volumes that were made without a provisioner,
//! before the webhook, or while it was away (P-1 to P-33 of `docs/upstream.md`).
//!
//! ```text
//!  store ─► queue ─► sync: core::volume::step ─► Ask ─► provider: volumes().look_up
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

use std::sync::Arc;

use outrigger_core::volume::VolumeView;
use tokio::sync::Semaphore;
use tracing::{info, warn};

pub use self::{metrics::VolumeMetrics, state::VolumeState};
use crate::{
    context::LoopContext,
    control_loop::{ControlLoop, LoopInputs, Task},
    queue::{Outcome, Priority, QueueMetrics},
};
use outrigger_kube::{
    store::{Change, Store},
    writer::ObjectWriter,
};
use outrigger_provider::Session;
use outrigger_runtime::backoff::Backoff;

/// Name of the loop in `--controllers` and in its health check.
pub const NAME: &str = "persistentvolume-labels-controller";
/// The component of its events.
pub const COMPONENT: &str = "persistentvolume-labels";

/// Volumes that are written at once.
const WRITERS: usize = 8;

/// The loop persistentvolume-labels.
pub struct VolumeLabels {
    context: LoopContext<Arc<str>>,
    volumes: Arc<Store<VolumeView>>,
    writer: ObjectWriter<VolumeView>,
    metrics: VolumeMetrics,
    state: Arc<VolumeState>,
    writing: Semaphore,
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
                queue.add(Arc::clone(&volume.name), origin.into());
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
    /// The loop over `volumes`, for one lease term.
    pub fn new(
        context: LoopContext<Arc<str>>,
        volumes: Arc<Store<VolumeView>>,
        metrics: VolumeMetrics,
    ) -> Self {
        Self {
            writer: ObjectWriter::new(context.api.clone(), Arc::clone(&volumes)),
            context,
            volumes,
            metrics,
            state: Arc::default(),
            writing: Semaphore::new(WRITERS),
        }
    }

    fn queue_all(&self) {
        let volumes = self.volumes.all().into_iter();
        let keys = volumes.map(|volume| Arc::clone(&volume.name));
        self.context.queue.add_all(keys, Priority::Bulk);
    }
}

impl ControlLoop for VolumeLabels {
    type Key = Arc<str>;
    type State = VolumeState;
    type Slot = ();

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
        self.sync(&name).await
    }
}
