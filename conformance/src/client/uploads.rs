//! `SyncNodeSet`, whole or broken off.

use std::time::Duration;

use outrigger_api::v1::{
    SyncNodeSetRequest, SyncNodeSetResponse, node_sets_service_client::NodeSetsServiceClient,
};
use tokio_stream::Stream;

use super::{CallError, Client};

impl Client {
    /// `NodeSetsService.SyncNodeSet` with these parts; the end of `parts` is the half-close.
    pub async fn sync_node_set(
        &self,
        parts: impl Stream<Item = SyncNodeSetRequest> + Send + 'static,
    ) -> Result<SyncNodeSetResponse, CallError> {
        self.unary(
            "SyncNodeSet",
            Duration::from_mins(1),
            parts,
            |channel, request| async move {
                NodeSetsServiceClient::new(channel)
                    .sync_node_set(request)
                    .await
            },
        )
        .await
    }
}
