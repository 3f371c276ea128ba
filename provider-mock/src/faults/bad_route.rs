//! Bad answers about routes.

use outrigger_api::RpcStatus;
use outrigger_api::v1::{ListRoutesResponse, NodeAddress, Route, RouteResult};

use super::BadAnswer;

/// A destination that no route has.
const NO_CIDR: &str = "pods/24";

impl BadAnswer {
    /// Spoils the results of a batch.
    pub(crate) fn spoil_route_results(
        self,
        results: &mut Vec<RouteResult>,
        concerns: impl Fn(&RouteResult) -> bool,
    ) {
        match self {
            Self::MissingResult => results.retain(|result| !concerns(result)),
            Self::DuplicateResult => {
                let twins: Vec<_> = results
                    .iter()
                    .filter(|one| concerns(one))
                    .cloned()
                    .collect();
                results.extend(twins);
            }
            Self::ForeignResult => results.push(RouteResult {
                destination_cidr: "192.0.2.0/24".to_owned(),
                node_name: "stray".to_owned(),
                status: Some(RpcStatus::default()),
                ..RouteResult::default()
            }),
            _ => {
                for result in results.iter_mut().filter(|result| concerns(result)) {
                    self.spoil_route_result(result);
                }
            }
        }
    }

    fn spoil_route_result(self, result: &mut RouteResult) {
        match self {
            Self::Empty => result.status = None,
            Self::MalformedCidr => NO_CIDR.clone_into(&mut result.destination_cidr),
            Self::OversizedStrings => {
                result.status.get_or_insert_default().message = "m".repeat(100_000);
                if let Some(route) = &mut result.route {
                    route.name = "r".repeat(2_000);
                }
            }
            _ => {}
        }
    }

    /// Spoils a part of a list.
    pub(crate) fn spoil_routes(
        self,
        answer: &mut ListRoutesResponse,
        concerns: impl Fn(&Route) -> bool,
    ) {
        let listed = &mut answer.routes;
        match self {
            Self::MissingResult => listed.retain(|route| !concerns(route)),
            Self::DuplicateResult => {
                let twins: Vec<_> = listed.iter().filter(|one| concerns(one)).cloned().collect();
                listed.extend(twins);
            }
            Self::Empty => {
                listed.clear();
                answer.complete = false;
            }
            _ => {
                for route in listed.iter_mut().filter(|route| concerns(route)) {
                    self.spoil_route(route);
                }
            }
        }
    }

    fn spoil_route(self, route: &mut Route) {
        const NO_IP: &str = "999.0.2.1/33";
        match self {
            Self::MalformedCidr => NO_CIDR.clone_into(&mut route.destination_cidr),
            Self::MalformedAddress => {
                NO_IP.clone_into(&mut route.next_hop_ip);
                route.node_addresses.push(NodeAddress {
                    r#type: "InternalIP".to_owned(),
                    address: NO_IP.to_owned(),
                });
            }
            Self::OversizedStrings => {
                route.name = "r".repeat(2_000);
                route.node_name = "n".repeat(2_000);
            }
            _ => {}
        }
    }
}
