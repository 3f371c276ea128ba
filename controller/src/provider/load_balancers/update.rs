//! New targets for load balancers.

use std::{sync::Arc, time::Duration};

use outrigger_api::v1::{self, update_load_balancer_nodes_response::Outcome as Wire};
use outrigger_core::{
    service::{
        ServiceView,
        answer::{Answer, Call},
    },
    targets::Targets,
};
use tonic::{Request, Response, Status};

use super::{answer::Said, calls::client, offered, ranges};
use crate::provider::{
    Class, Error, Provider,
    call::{Limits, Unary},
    details::Checked,
    wire,
};

struct UpdateLoadBalancerNodes;

impl Unary for UpdateLoadBalancerNodes {
    type Request = v1::UpdateLoadBalancerNodesRequest;
    type Response = Option<v1::UpdateLoadBalancerNodesResponse>;
    const NAME: &'static str = "UpdateLoadBalancerNodes";
    const DEADLINE: Duration = Duration::from_mins(5);

    async fn send(
        channel: Checked,
        limits: Limits,
        request: Request<Self::Request>,
    ) -> Result<Response<Self::Response>, Status> {
        let mut client = client(channel, limits);
        let mut stream = client
            .update_load_balancer_nodes(request)
            .await?
            .into_inner();
        Ok(Response::new(stream.message().await?))
    }
}

impl Provider {
    /// Gives the load balancer of `service` these targets, and changes nothing else of it.
    ///
    /// # Errors
    /// As [`Provider::ensure_load_balancer`].
    pub async fn update_load_balancer(
        &self,
        service: Arc<ServiceView>,
        targets: Arc<Targets>,
    ) -> Result<Answer, Error> {
        let rpc = UpdateLoadBalancerNodes::NAME;
        let ranges = ranges(&service)?;
        let (permit, link) = self.shared.admit(Class::LoadBalancers).await?;
        let offered = offered(&link, rpc)?;
        let call = self.shared.call_with_targets::<UpdateLoadBalancerNodes>(
            &permit,
            &targets,
            |context, targets| v1::UpdateLoadBalancerNodesRequest {
                context: Some(context),
                services: vec![wire::service(&service, &offered.capability, &ranges)],
                targets: Some(targets),
            },
        );
        let malformed = |what: &str| Error::Malformed {
            rpc,
            what: what.into(),
        };
        match call.await?.and_then(|result| result.outcome) {
            None => Err(malformed("no result for the Service")),
            Some(Wire::Error(status)) => Err(Error::from_item(rpc, &status)
                .unwrap_or_else(|| malformed("an error with code OK"))),
            Some(Wire::Updated(updated)) => {
                Said::from(updated).check(Call::Update, &service, &link.session)
            }
        }
    }
}
