//! `InstancesService`: requests checked before, results completed after a vendor's handler.

use std::collections::HashSet;
use std::sync::Arc;

use outrigger_api::v1::{self, instances_service_server::InstancesService};
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::calls::{Answers, Call, answered, within};
use super::core::Core;
use super::effects::fit_effects;
use crate::instances::{InstanceSink, Lookups, into_wire};
use crate::{Error, Instances, InstancesCapability, Node, Query};

pub(super) struct InstancesRpc<I> {
    core: Arc<Core>,
    instances: Arc<I>,
    max_batch_size: usize,
    list: bool,
}

impl<I: Instances> InstancesRpc<I> {
    pub(super) fn new(
        core: Arc<Core>,
        instances: Arc<I>,
        capability: &InstancesCapability,
    ) -> Self {
        let max_batch_size = capability.max_batch_size as usize;
        Self {
            core,
            instances,
            max_batch_size,
            list: capability.list,
        }
    }
}

#[tonic::async_trait]
impl<I: Instances> InstancesService for InstancesRpc<I> {
    async fn batch_get_instances(
        &self,
        request: Request<v1::BatchGetInstancesRequest>,
    ) -> Result<Response<v1::BatchGetInstancesResponse>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "BatchGetInstances", &request, |request| {
                request.context.as_ref()
            })?;
            let request = request.into_inner();
            let query = Query::from_wire(request.view(), request.max_staleness)?;
            check_nodes(&request.items, self.max_batch_size)?;
            let nodes: Vec<_> = request.items.into_iter().map(Node::from_wire).collect();

            let max_bytes = call.session.max_send_bytes;
            let instances = Arc::clone(&self.instances);
            let response = call.run(async move |ctx| {
                let asked_at = Instant::now();
                let found = instances.get_instances(&ctx, &nodes, &query).await?;
                let results = fit_effects(one_each(nodes, found, asked_at), max_bytes);
                let response = v1::BatchGetInstancesResponse { results };
                within(max_bytes, response, "InstancesCapability.max_batch_size")
            });
            response.await
        })
        .await
    }

    type ListInstancesStream = Answers<v1::ListInstancesResponse>;

    async fn list_instances(
        &self,
        request: Request<v1::ListInstancesRequest>,
    ) -> Result<Response<Self::ListInstancesStream>, Status> {
        answered(async {
            let call = Call::admit(&self.core, "ListInstances", &request, |request| {
                request.context.as_ref()
            })?;
            if !self.list {
                return Err(Error::capability_disabled(
                    "this provider does not list instances",
                ));
            }
            let request = request.into_inner();
            let query = Query::from_wire(request.view(), request.max_staleness)?;

            let max_bytes = call.session.max_send_bytes;
            let instances = Arc::clone(&self.instances);
            let messages = call.stream(async move |ctx, messages| {
                let mut sink = InstanceSink::new(ctx.clone(), messages, max_bytes);
                instances.list_instances(&ctx, &query, &mut sink).await?;
                sink.complete().await
            });
            Ok(Box::pin(messages) as Answers<_>)
        })
        .await
    }
}

fn check_nodes(nodes: &[v1::Node], max_batch_size: usize) -> Result<(), Error> {
    if nodes.is_empty() || nodes.len() > max_batch_size {
        return Err(Error::invalid_request(format!(
            "the request asks about {} nodes; send 1 to {max_batch_size} \
             (InstancesCapability.max_batch_size)",
            nodes.len()
        )));
    }
    let mut names = HashSet::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let (name, id) = (&node.name, &node.provider_id);
        let wrong = if name.is_empty() {
            "has no name".to_owned()
        } else if name.len() > 253 {
            format!("has a name of {} bytes; send at most 253", name.len())
        } else if id.len() > 1024 {
            format!(
                "has a provider_id of {} bytes; send at most 1,024",
                id.len()
            )
        } else if !names.insert(name) {
            format!("is {name:?}, which the request has asked about already")
        } else {
            continue;
        };
        return Err(Error::invalid_request(format!("nodes[{index}] {wrong}")));
    }
    Ok(())
}

/// Exactly one result for each Node, in the order of the request.
fn one_each(nodes: Vec<Node>, mut found: Lookups, asked_at: Instant) -> Vec<v1::InstanceResult> {
    let results = nodes
        .into_iter()
        .map(|Node { name, .. }| {
            let result = found.remove(&name).unwrap_or_else(|| {
                tracing::warn!(node = name, "get_instances returned no result for a node");
                Err(Error::internal(
                    "the provider returned no result for this node",
                ))
            });
            into_wire(name, result, asked_at)
        })
        .collect();
    for node in found.keys() {
        tracing::warn!(
            node,
            "get_instances returned a result for a node that the request does not name"
        );
    }
    results
}
