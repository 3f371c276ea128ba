//! A declared capability is served, and one that is not declared is not.

use outrigger_api::v1::{
    BatchCreateRoutesRequest, BatchDeleteRoutesRequest, BatchGetInstancesRequest,
    BatchGetVolumesRequest, CallContext, DeleteLoadBalancerRequest, EnsureLoadBalancerRequest,
    ErrorReason, GetLoadBalancerRequest, ListInstancesRequest, ListLoadBalancersRequest,
    ListRoutesRequest, PlanLoadBalancerRequest, UpdateLoadBalancerNodesRequest,
};
use tonic::Code;

use crate::{
    case::{Capability, Case, must, should},
    client::{CallError, Client},
    subject::{Subject, declares},
    verdict::{Verdict, expect, failed},
};

pub(super) fn cases() -> Vec<Case> {
    const SERVED: &str = "A provider MUST serve every RPC of a service whose capability it declares, but those marked OPTIONAL.";
    vec![
        must("IDN-30", "each method of a declared capability is served")
            .clause("common.proto", "", SERVED)
            .check(|subject| Box::pin(declared_is_served(subject))),
        should(
            "IDN-31",
            "methods of a capability that is not declared are UNIMPLEMENTED",
        )
        .clause(
            "provider.proto",
            "Capabilities",
            "A sub-message that is present means \"this is served\", even when it is empty.",
        )
        .check(|subject| Box::pin(undeclared_is_not_served(subject))),
        must(
            "IDN-32",
            "calls are served on a connection without a handshake of its own",
        )
        .of(Capability::Instances)
        .clause(
            "provider.proto",
            "Handshake",
            "A provider keeps no state per connection.",
        )
        .check(|subject| Box::pin(no_state_per_connection(subject))),
    ]
}

/// Calls one method so that it cannot change the cloud: without a key, or with an empty list.
async fn probe(
    client: &Client,
    method: &str,
    context: Option<CallContext>,
) -> Result<(), CallError> {
    match method {
        "BatchGetInstances" => {
            let request = BatchGetInstancesRequest {
                context,
                ..BatchGetInstancesRequest::default()
            };
            client.batch_get_instances(request).await.map(drop)
        }
        "ListInstances" => {
            let request = ListInstancesRequest {
                context,
                ..ListInstancesRequest::default()
            };
            client.list_instances(request).await.map(drop)
        }
        "GetLoadBalancer" => {
            let request = GetLoadBalancerRequest {
                context,
                ..GetLoadBalancerRequest::default()
            };
            client.get_load_balancer(request).await.map(drop)
        }
        "EnsureLoadBalancer" => {
            let request = EnsureLoadBalancerRequest {
                context,
                ..EnsureLoadBalancerRequest::default()
            };
            client.ensure_load_balancer(request).await.map(drop)
        }
        "UpdateLoadBalancerNodes" => {
            let request = UpdateLoadBalancerNodesRequest {
                context,
                ..UpdateLoadBalancerNodesRequest::default()
            };
            client.update_load_balancer_nodes(request).await.map(drop)
        }
        "DeleteLoadBalancer" => {
            let request = DeleteLoadBalancerRequest {
                context,
                ..DeleteLoadBalancerRequest::default()
            };
            client.delete_load_balancer(request).await.map(drop)
        }
        "ListLoadBalancers" => {
            let request = ListLoadBalancersRequest { context };
            client.list_load_balancers(request).await.map(drop)
        }
        "PlanLoadBalancer" => {
            let request = PlanLoadBalancerRequest {
                context,
                ..PlanLoadBalancerRequest::default()
            };
            client.plan_load_balancer(request).await.map(drop)
        }
        "SyncNodeSet" => client
            .sync_node_set(futures::stream::empty())
            .await
            .map(drop),
        "ListRoutes" => {
            let request = ListRoutesRequest { context };
            client.list_routes(request).await.map(drop)
        }
        "BatchCreateRoutes" => {
            let request = BatchCreateRoutesRequest {
                context,
                ..BatchCreateRoutesRequest::default()
            };
            client.batch_create_routes(request).await.map(drop)
        }
        "BatchDeleteRoutes" => {
            let request = BatchDeleteRoutesRequest {
                context,
                ..BatchDeleteRoutesRequest::default()
            };
            client.batch_delete_routes(request).await.map(drop)
        }
        _ => {
            let request = BatchGetVolumesRequest {
                context,
                ..BatchGetVolumesRequest::default()
            };
            client.batch_get_volumes(request).await.map(drop)
        }
    }
}

const METHODS: [(&str, Capability); 13] = [
    ("BatchGetInstances", Capability::Instances),
    ("ListInstances", Capability::InstancesList),
    ("GetLoadBalancer", Capability::LoadBalancers),
    ("EnsureLoadBalancer", Capability::LoadBalancers),
    ("UpdateLoadBalancerNodes", Capability::LoadBalancers),
    ("DeleteLoadBalancer", Capability::LoadBalancers),
    ("ListLoadBalancers", Capability::LoadBalancersList),
    ("PlanLoadBalancer", Capability::LoadBalancersPlan),
    ("SyncNodeSet", Capability::NodeSets),
    ("ListRoutes", Capability::Routes),
    ("BatchCreateRoutes", Capability::Routes),
    ("BatchDeleteRoutes", Capability::Routes),
    ("BatchGetVolumes", Capability::Volumes),
];

fn not_served(error: &CallError) -> bool {
    error.code == Code::Unimplemented || error.is(ErrorReason::CapabilityDisabled)
}

async fn declared_is_served(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    for (method, capability) in METHODS {
        if !declares(subject.handshake(), capability) {
            continue;
        }
        if let Err(error) = probe(&client, method, subject.context()).await {
            expect(
                !not_served(&error),
                format!(
                    "{method} is served, since {} is declared",
                    capability.declared_by()
                ),
                error,
            )?;
        }
    }
    Ok(())
}

async fn undeclared_is_not_served(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    for (method, capability) in METHODS {
        if declares(subject.handshake(), capability) {
            continue;
        }
        let by = capability.declared_by();
        let expected = format!("{method} is UNIMPLEMENTED, since {by} is not declared");
        match probe(&client, method, subject.context()).await {
            Ok(()) => return Err(failed(expected, "it is answered")),
            Err(error) => expect(not_served(&error), expected, error)?,
        }
    }
    Ok(())
}

async fn no_state_per_connection(subject: &Subject) -> Verdict {
    let _shaken = subject.connect().await?;
    let other = subject.dial().await?;
    match probe(&other, "BatchGetInstances", subject.context()).await {
        Err(error) if error.is(ErrorReason::NotHandshaked) => Err(failed(
            "a handshake on one connection counts for all of the process",
            error,
        )),
        _ => Ok(()),
    }
}
