//! Which Service a call is about.

use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Bytes};
use outrigger_api::v1::{GetLoadBalancerRequest, PlanLoadBalancerRequest};
use outrigger_provider_sdk::BoxError;
use prost::Message as _;
use tonic::Status;

use crate::faults::{About, Method};

/// Flag and length before a message.
const PREFIX: usize = 5;

/// Reads a request of one message, and gives it back.
pub(super) async fn peek<Q>(
    method: Method,
    request: Request<Q>,
) -> Result<(Request<Q>, About), Status>
where
    Q: HttpBody<Data = Bytes> + From<Bytes>,
    Q::Error: Into<BoxError>,
{
    let (head, body) = request.into_parts();
    let body = body.collect().await;
    let body = body.map_err(|error| Status::from_error(error.into()))?;
    let body = body.to_bytes();
    let message = body.get(PREFIX..).unwrap_or_default();
    let service = match method {
        Method::PlanLoadBalancer => PlanLoadBalancerRequest::decode(message)
            .ok()
            .and_then(|request| request.service),
        // Those of an update and of a list are in the answer.
        Method::UpdateLoadBalancerNodes | Method::ListLoadBalancers => None,
        // The Service has the same place in all the others.
        _ => GetLoadBalancerRequest::decode(message)
            .ok()
            .and_then(|request| request.service),
    };
    let about = service.map_or_else(About::default, |service| {
        About::service(&service.namespace, &service.name, &service.uid)
    });
    Ok((Request::from_parts(head, Q::from(body)), about))
}
