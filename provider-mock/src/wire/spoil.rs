//! Turns a correct answer into the one that a fault asks for.

use outrigger_api::v1::{
    BatchCreateRoutesResponse, BatchDeleteRoutesResponse, BatchGetInstancesResponse,
    BatchGetVolumesResponse, DeleteLoadBalancerResponse, EnsureLoadBalancerResponse,
    GetLoadBalancerResponse, ListInstancesResponse, ListLoadBalancersResponse, ListRoutesResponse,
    RouteResult, ServiceRef, UpdateLoadBalancerNodesResponse, VolumeResult, instance_result,
    update_load_balancer_nodes_response, volume_result,
};
use tonic::Status;
use tonic::body::Body;

use super::frames::Answer;
use super::peek::Handles;
use crate::cloud::Cloud;
use crate::faults::{About, BadAnswer, Effect, Fault, Method};

/// Beyond what any caller accepts that named no limit of its own (4 MiB).
const OVERSIZED_BYTES: usize = 5 << 20;

/// Spoils the answer if a fault wants it; an answer that is an error stays as it is. `about` is what
/// the call is about, `volumes` which volumes the keys of its results mean.
pub(super) async fn spoil(
    cloud: &Cloud,
    method: Method,
    about: &About,
    volumes: &Handles,
    body: Body,
) -> Result<Body, Status> {
    let mut answer = Answer::read(body).await?;
    let items = items_in(&mut answer, method, about, volumes);
    fail_items(cloud, method, volumes, &mut answer);
    if items.is_empty() {
        return Ok(answer.into_body());
    }
    // One fault spoils one answer; two would hide each other.
    if let Some((bad, fault)) = cloud.faults().bad_answer(method, &items) {
        spoil_with(bad, &fault, method, volumes, &mut answer);
    }
    Ok(answer.into_body())
}

fn service(service: Option<&ServiceRef>) -> About {
    service.map_or_else(About::default, |service| {
        About::service(&service.namespace, &service.name, &service.uid)
    })
}

fn route(result: &RouteResult) -> About {
    About::route(&result.destination_cidr, &result.node_name)
}

fn volume(result: &VolumeResult, volumes: &Handles) -> About {
    About::volume(volumes.get(&result.key).map(String::as_str))
}

/// The results of a batch about routes; both kinds of batches have them in the same place.
fn each_batch(answer: &mut Answer, method: Method, mut change: impl FnMut(&mut Vec<RouteResult>)) {
    if method == Method::BatchCreateRoutes {
        answer.each(|message: &mut BatchCreateRoutesResponse| change(&mut message.results));
    } else {
        answer.each(|message: &mut BatchDeleteRoutesResponse| change(&mut message.results));
    }
}

fn items_in(answer: &mut Answer, method: Method, about: &About, volumes: &Handles) -> Vec<About> {
    let mut items = Vec::new();
    match method {
        Method::BatchGetInstances => answer.each(|message: &mut BatchGetInstancesResponse| {
            let results = message.results.iter();
            items.extend(results.map(|result| About::node(&result.node_name)));
        }),
        Method::ListInstances => answer.each(|message: &mut ListInstancesResponse| {
            let instances = message.instances.iter();
            items.extend(instances.map(|instance| About::node(&instance.node_name)));
        }),
        Method::UpdateLoadBalancerNodes => {
            answer.each(|message: &mut UpdateLoadBalancerNodesResponse| {
                items.push(service(message.service.as_ref()));
            });
        }
        Method::ListLoadBalancers => answer.each(|message: &mut ListLoadBalancersResponse| {
            let listed = message.load_balancers.iter();
            items.extend(listed.map(|one| service(one.service.as_ref())));
        }),
        Method::ListRoutes => answer.each(|message: &mut ListRoutesResponse| {
            let listed = message.routes.iter();
            items.extend(listed.map(|one| About::route(&one.destination_cidr, &one.node_name)));
        }),
        Method::BatchCreateRoutes | Method::BatchDeleteRoutes => {
            each_batch(answer, method, |results| {
                items.extend(results.iter().map(route));
            });
        }
        Method::BatchGetVolumes => answer.each(|message: &mut BatchGetVolumesResponse| {
            let results = message.results.iter();
            items.extend(results.map(|result| volume(result, volumes)));
        }),
        _ if answer.is_empty() => {}
        _ => items.push(about.clone()),
    }
    items
}

fn fail_items(cloud: &Cloud, method: Method, volumes: &Handles, answer: &mut Answer) {
    let error = |about: &About| {
        let error = cloud.faults().item_error(method, about);
        error.map(|error| error.to_item())
    };
    match method {
        Method::BatchGetInstances => answer.each(|message: &mut BatchGetInstancesResponse| {
            for result in &mut message.results {
                if let Some(error) = error(&About::node(&result.node_name)) {
                    result.outcome = Some(instance_result::Outcome::Error(error));
                }
            }
        }),
        Method::UpdateLoadBalancerNodes => {
            use update_load_balancer_nodes_response::Outcome;
            answer.each(|message: &mut UpdateLoadBalancerNodesResponse| {
                if let Some(error) = error(&service(message.service.as_ref())) {
                    message.outcome = Some(Outcome::Error(error));
                }
            });
        }
        Method::BatchCreateRoutes | Method::BatchDeleteRoutes => {
            each_batch(answer, method, |results| {
                for result in results {
                    if let Some(error) = error(&route(result)) {
                        result.status = Some(error);
                        result.route = None;
                    }
                }
            });
        }
        Method::BatchGetVolumes => answer.each(|message: &mut BatchGetVolumesResponse| {
            for result in &mut message.results {
                if let Some(error) = error(&volume(result, volumes)) {
                    result.outcome = Some(volume_result::Outcome::Error(error));
                }
            }
        }),
        _ => {}
    }
}

/// Spoils an answer of a provider with a mistake: each of its items, always.
pub(crate) fn spoil_all(bad: BadAnswer, method: Method, answer: &mut Answer) {
    let always = Fault::on(method, Effect::BadAnswer(bad));
    spoil_with(bad, &always, method, &Handles::new(), answer);
}

fn spoil_with(
    bad: BadAnswer,
    fault: &Fault,
    method: Method,
    volumes: &Handles,
    answer: &mut Answer,
) {
    let node = |name: &str| fault.is_about(&About::node(name));
    let owner = |owner: Option<&ServiceRef>| fault.is_about(&service(owner));
    match method {
        _ if bad == BadAnswer::OversizedReply => answer.inflate(OVERSIZED_BYTES),
        Method::BatchGetInstances => answer.each(|message: &mut BatchGetInstancesResponse| {
            bad.spoil_results(&mut message.results, node);
        }),
        Method::ListInstances => answer.each(|message: &mut ListInstancesResponse| {
            bad.spoil_list(&mut message.instances, &mut message.complete, node);
        }),
        Method::GetLoadBalancer => answer.each(|message: &mut GetLoadBalancerResponse| {
            bad.spoil_answer(&mut message.answer);
        }),
        Method::EnsureLoadBalancer => answer.each(|message: &mut EnsureLoadBalancerResponse| {
            bad.spoil_answer(&mut message.answer);
        }),
        Method::DeleteLoadBalancer => answer.each(|message: &mut DeleteLoadBalancerResponse| {
            bad.spoil_answer(&mut message.answer);
        }),
        Method::UpdateLoadBalancerNodes => answer.all(|results| bad.spoil_updates(results, owner)),
        Method::ListLoadBalancers => answer.each(|message: &mut ListLoadBalancersResponse| {
            bad.spoil_owned(message, owner);
        }),
        Method::ListRoutes => answer.each(|message: &mut ListRoutesResponse| {
            bad.spoil_routes(message, |one| {
                fault.is_about(&About::route(&one.destination_cidr, &one.node_name))
            });
        }),
        Method::BatchCreateRoutes | Method::BatchDeleteRoutes => {
            each_batch(answer, method, |results| {
                bad.spoil_route_results(results, |result| fault.is_about(&route(result)));
            });
        }
        Method::BatchGetVolumes => answer.each(|message: &mut BatchGetVolumesResponse| {
            let concerns = |result: &_| fault.is_about(&volume(result, volumes));
            bad.spoil_volume_results(&mut message.results, concerns);
        }),
        _ => {}
    }
}
