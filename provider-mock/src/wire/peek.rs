//! The nodes, Services, routes and volumes that a call is about.

use std::collections::HashMap;

use http::Request;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Bytes};
use outrigger_api::v1::{
    BatchCreateRoutesRequest, BatchDeleteRoutesRequest, BatchGetInstancesRequest,
    BatchGetVolumesRequest, GetLoadBalancerRequest, Node, PlanLoadBalancerRequest, Route, Service,
    UpdateLoadBalancerNodesRequest, Volume,
};
use outrigger_provider_sdk::BoxError;
use prost::Message as _;
use tonic::Status;

use crate::cidr::Cidr;
use crate::faults::{About, Method};
use crate::journal::ServiceName;
use crate::volumes::handle_in;

/// Flag and length before a message.
const PREFIX: usize = 5;

/// Subjects that a request names.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    pub(super) nodes: Vec<String>,
    pub(super) services: Vec<ServiceName>,
    /// Destinations, without those that are no CIDR.
    pub(super) routes: Vec<Cidr>,
    /// Handles by their keys in the request.
    pub(super) volumes: Handles,
}

/// Handles of volumes by their keys in a request.
pub(super) type Handles = HashMap<String, String>;

/// Reads a request of one message, and gives it back.
pub(super) async fn peek<Q>(
    method: Method,
    request: Request<Q>,
) -> Result<(Request<Q>, Subjects), Status>
where
    Q: HttpBody<Data = Bytes> + From<Bytes>,
    Q::Error: Into<BoxError>,
{
    let (head, body) = request.into_parts();
    let body = body.collect().await;
    let body = body.map_err(|error| Status::from_error(error.into()))?;
    let body = body.to_bytes();
    let message = body.get(PREFIX..).unwrap_or_default();
    let subjects = match method {
        Method::BatchGetInstances => BatchGetInstancesRequest::decode(message)
            .map(|request| Subjects::of_nodes(request.nodes)),
        Method::BatchCreateRoutes => BatchCreateRoutesRequest::decode(message)
            .map(|request| Subjects::of_routes(&request.routes)),
        Method::BatchDeleteRoutes => BatchDeleteRoutesRequest::decode(message)
            .map(|request| Subjects::of_routes(&request.routes)),
        Method::BatchGetVolumes => BatchGetVolumesRequest::decode(message)
            .map(|request| Subjects::of_volumes(request.volumes)),
        Method::PlanLoadBalancer => PlanLoadBalancerRequest::decode(message)
            .map(|request| Subjects::of_services(request.service)),
        Method::UpdateLoadBalancerNodes => UpdateLoadBalancerNodesRequest::decode(message)
            .map(|request| Subjects::of_services(request.services)),
        Method::ListLoadBalancers => Ok(Subjects::default()),
        // The Service has the same place in all the others.
        _ => GetLoadBalancerRequest::decode(message)
            .map(|request| Subjects::of_services(request.service)),
    };
    let subjects = subjects.unwrap_or_default();
    Ok((Request::from_parts(head, Q::from(body)), subjects))
}

impl Subjects {
    /// How many items the call is about.
    pub(super) fn items(&self) -> usize {
        let Self {
            nodes,
            services,
            routes,
            volumes,
        } = self;
        nodes.len() + services.len() + routes.len() + volumes.len()
    }

    fn of_nodes(nodes: Vec<Node>) -> Self {
        Self {
            nodes: nodes.into_iter().map(|node| node.name).collect(),
            ..Self::default()
        }
    }

    fn of_services(services: impl IntoIterator<Item = Service>) -> Self {
        let named = services.into_iter().map(|service| ServiceName {
            name: format!("{}/{}", service.namespace, service.name),
            uid: service.uid,
        });
        Self {
            services: named.collect(),
            ..Self::default()
        }
    }

    fn of_routes(routes: &[Route]) -> Self {
        let cidrs = routes.iter().map(|route| route.destination_cidr.parse());
        let cidrs = cidrs.filter_map(|cidr| cidr.ok().map(Cidr::network));
        Self {
            routes: cidrs.collect(),
            ..Self::default()
        }
    }

    fn of_volumes(volumes: Vec<Volume>) -> Self {
        let handle = |volume: Volume| Some((volume.key, handle_in(&volume.source?.source?)));
        Self {
            volumes: volumes.into_iter().filter_map(handle).collect(),
            ..Self::default()
        }
    }
}

/// The object that a fault must name to match the call. For an update, the answer names the
/// Service of each result.
pub(super) fn about(method: Method, subjects: &Subjects) -> About {
    match subjects.services.as_slice() {
        [one] if method != Method::UpdateLoadBalancerNodes => About {
            service: Some((one.name.clone(), one.uid.clone())),
            ..About::default()
        },
        _ => About {
            nodes: subjects.nodes.clone(),
            ..About::default()
        },
    }
}
