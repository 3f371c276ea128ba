//! `InstancesService`: each call goes to the vendor's [`Instances`]. Nothing here changes the cloud, so no lock is taken.

use std::sync::Arc;

use outrigger_api::v1::{self, instances_service_server::InstancesService};
use tonic::{Request, Response, Status};

use super::calls::Answers;
use super::core::Core;
use crate::{InstanceSink, Instances, Query};

pub(super) struct InstancesRpc<I> {
    pub(super) core: Arc<Core>,
    pub(super) instances: Arc<I>,
    /// It lists.
    pub(super) lists: bool,
}

#[tonic::async_trait]
impl<I: Instances> InstancesService for InstancesRpc<I> {
    async fn batch_get_instances(
        &self,
        request: Request<v1::BatchGetInstancesRequest>,
    ) -> Result<Response<v1::BatchGetInstancesResponse>, Status> {
        let instances = Arc::clone(&self.instances);
        let look_up = async move |ctx, request: v1::BatchGetInstancesRequest| {
            let query = query(request.view(), request.max_staleness);
            instances.get_instances(&ctx, &request.items, &query).await
        };
        self.core.batch(request, look_up).await
    }

    async fn list_instances(
        &self,
        request: Request<v1::ListInstancesRequest>,
    ) -> Result<Response<Answers<v1::ListInstancesResponse>>, Status> {
        let instances = Arc::clone(&self.instances);
        let list = async move |ctx, request: v1::ListInstancesRequest, mut sink: InstanceSink| {
            let query = query(request.view(), request.max_staleness);
            instances.list_instances(&ctx, &query, &mut sink).await?;
            sink.complete().await
        };
        self.core.list(request, self.lists, list)
    }
}

fn query(view: v1::InstanceView, max_staleness: Option<prost_types::Duration>) -> Query {
    let max_staleness = max_staleness.and_then(|staleness| staleness.try_into().ok());
    Query {
        view,
        max_staleness: max_staleness.unwrap_or_default(),
    }
}
