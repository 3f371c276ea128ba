//! Questions to the API server before a route is deleted.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use outrigger_core::{cidr::Cidr, node::NodeView, route::Confirmation};
use tokio::sync::Mutex;

use super::{RouteKey, RouteState};
use crate::context::LoopContext;
use outrigger_kubernetes::{decode::Item, error::ApiError, nodes};
use outrigger_runtime::log_repeated;

/// Asks the API server. One list of all Nodes serves all keys that wait for one.
pub(super) struct NodeConfirmer {
    context: LoopContext<RouteKey>,
    state: Arc<RouteState>,
    lists_begun: AtomicU64,
    last_list: Mutex<Option<(u64, Result<(), ApiError>)>>,
}

impl NodeConfirmer {
    pub(super) fn new(context: LoopContext<RouteKey>, state: &Arc<RouteState>) -> Self {
        Self {
            context,
            state: Arc::clone(state),
            lists_begun: AtomicU64::default(),
            last_list: Mutex::default(),
        }
    }

    /// Asks about `question`, for a plan of `destination`, and observes the Nodes of the answer.
    pub(super) async fn confirm(
        &self,
        question: &Confirmation,
        destination: Cidr,
    ) -> Result<(), ApiError> {
        let answered = match question {
            Confirmation::Node(name) => self.confirm_node(name, destination).await,
            Confirmation::AllNodes => self.confirm_all(destination).await,
        };
        if let Err(error) = &answered {
            let class = error.class().as_str();
            log_repeated!(
                warn, self.context.repeats, &error.cause(),
                %destination, class, %error, "stale route stays, since its Node cannot be asked for"
            );
        }
        answered
    }

    async fn confirm_node(&self, name: &Arc<str>, destination: Cidr) -> Result<(), ApiError> {
        let question = self.state.ask();
        let due = match self.context.api.get::<NodeView>(&nodes::path(name)).await {
            Ok(node) => question.shows(node),
            Err(error) if error.is_not_found() => question.denies(name),
            Err(error) => return Err(error),
        };
        // Its own key goes on with the answer.
        self.state
            .queue_destinations(due.into_iter().filter(|other| *other != destination));
        Ok(())
    }

    /// One list serves all that ask before it begins.
    async fn confirm_all(&self, destination: Cidr) -> Result<(), ApiError> {
        let begun = self.lists_begun.load(Ordering::Acquire);
        let mut last = self.last_list.lock().await;
        if let Some((list, result)) = &*last
            && *list > begun
        {
            return result.clone();
        }
        let list = self.lists_begun.fetch_add(1, Ordering::AcqRel) + 1;
        let result = self.list_nodes(destination).await;
        *last = Some((list, result.clone()));
        result
    }

    async fn list_nodes(&self, destination: Cidr) -> Result<(), ApiError> {
        let question = self.state.ask();
        let mut undecodable = None;
        let each = |item: Item<NodeView>| match item {
            Item::Decoded(node) => {
                let due = question.shows(node);
                let others = due.into_iter().filter(|other| *other != destination);
                self.state.queue_destinations(others);
            }
            // The route may lead to it.
            Item::Undecodable(node) => undecodable = Some(node),
        };
        self.context.api.list(nodes::COLLECTION, None, each).await?;
        match undecodable {
            None => Ok(()),
            Some(node) => Err(ApiError::Decode(format!(
                "Node {} cannot be decoded: {}",
                node.key, node.cause
            ))),
        }
    }
}
