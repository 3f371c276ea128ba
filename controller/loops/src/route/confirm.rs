//! Questions to the API server before a route is deleted.
//!
//! The store decides: a route is deleted once the API server shows no Node that the store lacks, or has an older view of. A
//! destination that waits for a list of all Nodes shares it with the others that wait.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use outrigger_core::{cidr::Cidr, node::NodeView, route::Confirmation};
use tokio::sync::Mutex;

use super::NodeRoute;
use outrigger_kube::{decode::Item, error::ApiError, nodes};
use outrigger_runtime::log_repeated;

/// Lists of all Nodes. One serves all keys that wait for one.
#[derive(Default)]
pub(super) struct NodeLists {
    begun: AtomicU64,
    last: Mutex<Option<(u64, Result<bool, ApiError>)>>,
}

impl NodeRoute {
    /// Asks about `question`, for a plan of `destination`. Returns true if the store has all that the answer shows, and nothing
    /// that it denies: else the watch is behind.
    pub(super) async fn confirm(
        &self,
        question: &Confirmation,
        destination: Cidr,
    ) -> Result<bool, ApiError> {
        let answered = match question {
            Confirmation::Node(name) => self.confirm_node(name).await,
            Confirmation::AllNodes => self.confirm_all().await,
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

    async fn confirm_node(&self, name: &Arc<str>) -> Result<bool, ApiError> {
        match self.context.api.get::<NodeView>(&nodes::path(name)).await {
            Ok(node) => Ok(self.is_stored(node)),
            Err(error) if error.is_not_found() => Ok(self.context.nodes.get(name).is_none()),
            Err(error) => Err(error),
        }
    }

    /// Takes a Node that the API server has just shown into the store, if the store has it.
    fn is_stored(&self, live: NodeView) -> bool {
        let live = Arc::new(live);
        self.context.nodes.refresh(&live);
        self.context.nodes.newest(&live).is_some()
    }

    /// One list serves all that ask before it begins.
    async fn confirm_all(&self) -> Result<bool, ApiError> {
        let begun = self.node_lists.begun.load(Ordering::Acquire);
        let mut last = self.node_lists.last.lock().await;
        if let Some((list, result)) = &*last
            && *list > begun
        {
            return result.clone();
        }
        let list = self.node_lists.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let result = self.list_nodes().await;
        *last = Some((list, result.clone()));
        result
    }

    async fn list_nodes(&self) -> Result<bool, ApiError> {
        let mut are_stored = true;
        let mut undecodable = None;
        let each = |item: Item<NodeView>| match item {
            Item::Decoded(node) => are_stored &= self.is_stored(node),
            // The route may lead to it.
            Item::Undecodable(node) => undecodable = Some(node),
        };
        self.context.api.list(nodes::COLLECTION, None, each).await?;
        match undecodable {
            None => Ok(are_stored),
            Some(node) => Err(ApiError::Decode(format!(
                "Node {} cannot be decoded: {}",
                node.key, node.cause
            ))),
        }
    }
}
