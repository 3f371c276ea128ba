//! Questions to the provider that wait for it or for its answer, and end when their Node needs none any more.

use std::{collections::HashMap, sync::Arc};

use outrigger_core::node::{NodeView, Ready};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Questions by the name of their Node: one at a time, as the queue hands out each name.
#[derive(Debug, Default)]
pub(super) struct Questions(Mutex<HashMap<Arc<str>, CancellationToken>>);

impl Questions {
    /// The answer to the question about the Node `name`; none if the question ends before. `is_over` is asked
    /// once the question can be ended, for what has changed before.
    pub(super) async fn ask<T>(
        &self,
        name: &Arc<str>,
        is_over: impl FnOnce() -> bool,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        let end = CancellationToken::new();
        self.0.lock().insert(Arc::clone(name), end.clone());
        let answer = if is_over() {
            None
        } else {
            end.run_until_cancelled(answer).await
        };
        self.0.lock().remove(name);
        answer
    }

    /// Ends the question about the Node `name`, if there is one.
    pub(super) fn end(&self, name: &str) {
        if let Some(end) = self.0.lock().get(name) {
            end.cancel();
        }
    }
}

/// Returns true if no question about the Node has to be answered: it is ready, or left alone.
pub(super) fn is_over(node: &NodeView) -> bool {
    node.ready == Ready::True || node.is_paused()
}
