//! Confirmations of deletions by an operator: the annotation of the Lease, which counts once.

use std::{sync::Arc, time::Duration};

use outrigger_core::{event::EventContent, node::ANNOTATION_CONFIRM_DELETIONS};
use tokio::time::sleep;
use tracing::info;

use super::NodeLifecycle;
use crate::queue::Priority;
use outrigger_kube::{events::ObjectRef, leader::Handle};

/// How often the Lease, as last seen, is looked at.
const PERIOD: Duration = Duration::from_secs(1);

impl NodeLifecycle {
    /// Takes each annotation from the Lease, and then confirms the deletions that are withheld. Never returns.
    pub(super) async fn take_confirmations(self: Arc<Self>) {
        let Some(lease) = self.context.term.lease.clone() else {
            return std::future::pending().await;
        };
        loop {
            if let Some(value) = lease.annotation(ANNOTATION_CONFIRM_DELETIONS) {
                self.take_confirmation(&lease, &value).await;
            }
            sleep(PERIOD).await;
        }
    }

    async fn take_confirmation(&self, lease: &Handle, value: &str) {
        // First, so that it counts once, whatever becomes of this process.
        let taken = lease.annotate(ANNOTATION_CONFIRM_DELETIONS, None).await;
        let event = match (taken, value.parse()) {
            (Err(error), _) => EventContent::deletions_not_confirmed(&error),
            (Ok(()), Err(_)) => {
                let why = format!("its value is {value:?}, not how many deletions are withheld");
                EventContent::deletions_not_confirmed(&why)
            }
            (Ok(()), Ok(expected)) => self.confirm_withheld(expected),
        };
        info!(lease = lease.lease(), event = %event.message, "deletions of nodes confirmed, or not");
        let lease = ObjectRef::lease(lease.namespace(), lease.lease(), "");
        self.context.events.event(lease, event);
    }

    fn confirm_withheld(&self, expected: usize) -> EventContent {
        let now = self.state.clock.now();
        let confirmed = self.state.lifecycle.lock().confirm_withheld(now, expected);
        match confirmed {
            Ok(names) => {
                let event = EventContent::deletions_confirmed(names.len());
                self.context.queue.add_all(names, Priority::Fresh);
                event
            }
            Err(withheld) => {
                let why = format!("{withheld} deletions are withheld now, and it says {expected}");
                EventContent::deletions_not_confirmed(&why)
            }
        }
    }
}
