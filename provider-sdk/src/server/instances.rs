//! `InstancesService`.

use std::sync::Arc;

use outrigger_api::v1::{self, instances_service_server::InstancesService};
use tonic::{Request, Response, Status};

use super::calls::Answers;
use super::core::Core;
use crate::{InstanceSink, Instances, InstancesCapability, Node, Query};

pub(super) struct InstancesRpc<I> {
    pub(super) core: Arc<Core>,
    pub(super) instances: Arc<I>,
    pub(super) capability: InstancesCapability,
}

#[tonic::async_trait]
impl<I: Instances> InstancesService for InstancesRpc<I> {
    async fn batch_get_instances(
        &self,
        request: Request<v1::BatchGetInstancesRequest>,
    ) -> Result<Response<v1::BatchGetInstancesResponse>, Status> {
        let instances = Arc::clone(&self.instances);
        let look_up = async move |ctx, request: v1::BatchGetInstancesRequest| {
            let query = Query::from_wire(request.view(), request.max_staleness);
            let nodes: Vec<_> = request.items.into_iter().map(Node::from_wire).collect();
            instances.get_instances(&ctx, &nodes, &query).await
        };
        self.core.batch(request, look_up).await
    }

    async fn list_instances(
        &self,
        request: Request<v1::ListInstancesRequest>,
    ) -> Result<Response<Answers<v1::ListInstancesResponse>>, Status> {
        let instances = Arc::clone(&self.instances);
        let list = async move |ctx, request: v1::ListInstancesRequest, mut sink: InstanceSink| {
            let query = Query::from_wire(request.view(), request.max_staleness);
            instances.list_instances(&ctx, &query, &mut sink).await?;
            sink.complete().await
        };
        self.core.list(request, self.capability.list, list)
    }
}
