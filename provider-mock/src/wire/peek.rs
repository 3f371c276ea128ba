//! Which Services a call is about.

use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Bytes};
use outrigger_api::v1::{
    GetLoadBalancerRequest, PlanLoadBalancerRequest, UpdateLoadBalancerNodesRequest,
};
use outrigger_provider_sdk::BoxError;
use prost::Message as _;
use tonic::Status;

use crate::faults::{About, Method};
use crate::journal::ServiceName;

/// Flag and length before a message.
const PREFIX: usize = 5;

/// Reads a request of one message, and gives it back.
pub(super) async fn peek<Q>(
    method: Method,
    request: Request<Q>,
) -> Result<(Request<Q>, Vec<ServiceName>), Status>
where
    Q: HttpBody<Data = Bytes> + From<Bytes>,
    Q::Error: Into<BoxError>,
{
    let (head, body) = request.into_parts();
    let body = body.collect().await;
    let body = body.map_err(|error| Status::from_error(error.into()))?;
    let body = body.to_bytes();
    let message = body.get(PREFIX..).unwrap_or_default();
    let services = match method {
        Method::PlanLoadBalancer => PlanLoadBalancerRequest::decode(message)
            .map(|request| request.service.into_iter().collect()),
        Method::UpdateLoadBalancerNodes => {
            UpdateLoadBalancerNodesRequest::decode(message).map(|request| request.services)
        }
        Method::ListLoadBalancers => Ok(Vec::new()),
        // The Service has the same place in all the others.
        _ => GetLoadBalancerRequest::decode(message)
            .map(|request| request.service.into_iter().collect()),
    };
    let named = services
        .unwrap_or_default()
        .into_iter()
        .map(|service| ServiceName {
            name: format!("{}/{}", service.namespace, service.name),
            uid: service.uid,
        });
    let named = named.collect();
    Ok((Request::from_parts(head, Q::from(body)), named))
}

/// The object that a fault must name to match the call. For an update, the answer names the
/// Service of each result.
pub(super) fn about(method: Method, services: &[ServiceName]) -> About {
    match services {
        [one] if method != Method::UpdateLoadBalancerNodes => About {
            service: Some((one.name.clone(), one.uid.clone())),
            ..About::default()
        },
        _ => About::default(),
    }
}
