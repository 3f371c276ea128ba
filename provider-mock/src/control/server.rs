//! Answers on the control socket.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use outrigger_provider_sdk::Listener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, Refusal, chosen, json, read};
use super::messages::{
    ChangeCost, Changed, Cleared, CloseConnections, ClosedConnections, Failure, InjectFault,
    Listed, NewQuota, Status, Targets,
};
use super::{load_balancers, routes, volumes};
use crate::cloud::{Cloud, Jitter, Quota};
use crate::instances::{Instance, InstanceId, InstanceSpec, Power};

/// Largest request.
const MAX_BODY: usize = 4 << 20;

/// The part of the status besides the cloud.
#[derive(Debug, Clone)]
pub struct About {
    /// Where the contract is served.
    pub endpoint: String,
    /// Where the state is kept, if it is.
    pub state_file: Option<String>,
}

/// Serves until `stop`; connections that are open then are dropped.
pub async fn serve(listener: Listener, cloud: Cloud, about: About, stop: CancellationToken) {
    let about = Arc::new(about);
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(stream) => stream,
                // Logged, and followed by a pause.
                Err(_) => continue,
            },
            Some(_) = connections.join_next() => continue,
            () = stop.cancelled() => return,
        };
        let (cloud, about) = (cloud.clone(), Arc::clone(&about));
        let service = service_fn(move |request| {
            let (cloud, about) = (cloud.clone(), Arc::clone(&about));
            async move { Ok::<_, Infallible>(answer(&cloud, &about, request).await) }
        });
        connections.spawn(async move {
            let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            if let Err(error) = served.await {
                tracing::debug!(%error, "a control connection broke");
            }
        });
    }
}

async fn answer(cloud: &Cloud, about: &About, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let answer = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => route(
            cloud,
            about,
            &head.method,
            head.uri.path(),
            &body.to_bytes(),
        ),
        Err(error) => Err(Refusal::bad_request(format!(
            "the request was not read: {error}"
        ))),
    };
    let (status, body) = match answer {
        Ok(body) => (StatusCode::OK, body),
        Err(Refusal { status, error }) => (
            status,
            serde_json::to_vec(&Failure { error }).unwrap_or_default(),
        ),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn route(cloud: &Cloud, about: &About, method: &Method, path: &str, body: &[u8]) -> Answer {
    match (method.as_str(), path) {
        ("GET", "/v1/status") => json(&status(cloud, about)),
        ("GET", "/v1/instances") => json(&listed(cloud)),
        ("POST", "/v1/instances") => create(cloud, body),
        ("POST", "/v1/instances/start") => set_power(cloud, body, Power::Running),
        ("POST", "/v1/instances/stop") => set_power(cloud, body, Power::Shutdown),
        ("POST", "/v1/instances/delete") => delete(cloud, body),
        ("GET", "/v1/load-balancers") => load_balancers::list(cloud),
        ("POST", "/v1/load-balancers") => load_balancers::create(cloud, body),
        ("POST", "/v1/load-balancers/show") => load_balancers::show(cloud, body),
        ("POST", "/v1/load-balancers/edit") => load_balancers::edit(cloud, body),
        ("POST", "/v1/load-balancers/delete") => load_balancers::delete(cloud, body),
        ("GET", "/v1/routes") => routes::list(cloud),
        ("POST", "/v1/routes") => routes::add(cloud, body),
        ("POST", "/v1/routes/edit") => routes::edit(cloud, body),
        ("POST", "/v1/routes/remove") => routes::remove(cloud, body),
        ("GET", "/v1/volumes") => volumes::list(cloud),
        ("POST", "/v1/volumes") => volumes::set(cloud, body),
        ("POST", "/v1/volumes/delete") => volumes::delete(cloud, body),
        ("PUT", "/v1/cost") => change_cost(cloud, body),
        ("GET", "/v1/faults") => json(&cloud.faults().list()),
        ("POST", "/v1/faults") => inject(cloud, body),
        ("DELETE", "/v1/faults") => json(&Cleared {
            cleared: cloud.clear_faults(),
        }),
        ("GET", "/v1/counters") => json(&cloud.counters()),
        ("DELETE", "/v1/counters") => json(&cloud.take_counters()),
        ("POST", "/v1/connections/close") => close_connections(cloud, body),
        _ => Err(Refusal {
            status: StatusCode::NOT_FOUND,
            error: format!(
                "there is no {method} {path}; there are /v1/status, /v1/instances, \
                 /v1/instances/start, …/stop, …/delete, /v1/load-balancers, …/show, …/edit, \
                 …/delete, /v1/routes, …/edit, …/remove, /v1/volumes, …/delete, /v1/cost, /v1/faults, /v1/counters and \
                 /v1/connections/close"
            ),
        }),
    }
}

fn status(cloud: &Cloud, about: &About) -> Status {
    let mut by_power: BTreeMap<String, usize> = BTreeMap::new();
    for instance in cloud.instances() {
        *by_power.entry(instance.power.to_string()).or_default() += 1;
    }
    let cost = cloud.cost();
    Status {
        provider_name: cloud.config().provider_name.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        endpoint: about.endpoint.clone(),
        state_file: about.state_file.clone(),
        synthesizes: cloud.config().synthesize,
        instances: by_power,
        deleted: cloud.deleted().len(),
        load_balancers: cloud.load_balancers().len(),
        routes: cloud.routes().len(),
        volumes: cloud.volumes().len(),
        latency: crate::duration::format(cost.latency),
        jitter: cost.jitter.to_string(),
        rate_limit: cost.quota,
        faults: cloud.faults().list(),
    }
}

fn listed(cloud: &Cloud) -> Listed {
    let mut instances = cloud.instances();
    instances.sort_by(|a, b| a.name.cmp(&b.name));
    Listed {
        provider_name: cloud.config().provider_name.to_string(),
        instances: instances.into_iter().map(Arc::unwrap_or_clone).collect(),
        deleted: cloud.deleted().iter().map(ToString::to_string).collect(),
    }
}

fn create(cloud: &Cloud, body: &[u8]) -> Answer {
    let spec: InstanceSpec = read(body)?;
    let created = cloud
        .create(spec)
        .map_err(|refused| Refusal::conflict(&refused))?;
    changed([created])
}

fn set_power(cloud: &Cloud, body: &[u8], power: Power) -> Answer {
    let ids = resolve(cloud, &read(body)?)?;
    changed(
        ids.iter()
            .filter_map(|id| cloud.set_power(id.as_str(), power)),
    )
}

fn delete(cloud: &Cloud, body: &[u8]) -> Answer {
    let targets: Targets = read(body)?;
    let ids = resolve(cloud, &targets)?;
    if targets.terminating {
        return changed(
            ids.iter()
                .filter_map(|id| cloud.set_power(id.as_str(), Power::Terminating)),
        );
    }
    changed(ids.iter().filter_map(|id| cloud.delete(id.as_str())))
}

/// The ids of the targets.
fn resolve(cloud: &Cloud, targets: &Targets) -> Result<Vec<InstanceId>, Refusal> {
    let named = |target: &str| cloud.find(target).into_iter().collect();
    let found = chosen("instance", targets, || cloud.instances(), named)?;
    Ok(found.iter().map(|instance| instance.id.clone()).collect())
}

fn changed(instances: impl IntoIterator<Item = Arc<Instance>>) -> Answer {
    json(&Changed {
        changed: instances.into_iter().map(Arc::unwrap_or_clone).collect(),
    })
}

fn change_cost(cloud: &Cloud, body: &[u8]) -> Answer {
    let change: ChangeCost = read(body)?;
    let jitter: Option<Jitter> = change
        .jitter
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(Refusal::bad_request)?;
    let quota = change.rate_limit.map(quota).transpose()?;
    let latency = change.latency.unwrap_or_else(|| cloud.cost().latency);
    cloud.set_latency(latency, jitter);
    if let Some(quota) = quota {
        cloud.set_quota(quota);
    }
    json(&change)
}

fn close_connections(cloud: &Cloud, body: &[u8]) -> Answer {
    let CloseConnections { hold } = read(body)?;
    json(&ClosedConnections {
        closed: cloud.close_connections(hold.unwrap_or_default()),
    })
}

fn quota(new: NewQuota) -> Result<Option<Quota>, Refusal> {
    if new.qps == 0.0 {
        return Ok(None);
    }
    Quota::checked(new.qps, new.burst)
        .map(Some)
        .map_err(Refusal::bad_request)
}

fn inject(cloud: &Cloud, body: &[u8]) -> Answer {
    let InjectFault { fault, add } = read(body)?;
    fault.check().map_err(Refusal::bad_request)?;
    let answer = json(&fault);
    if add {
        cloud.faults().add(fault);
    } else {
        cloud.faults().replace(fault);
    }
    answer
}
