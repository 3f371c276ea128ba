//! Answers on the control socket.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use outrigger_provider_sdk::Listener;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::messages::{
    AnnounceMaintenance, ChangeCost, Changed, Cleared, CloseConnections, ClosedConnections,
    Failure, InjectFault, Listed, NewQuota, Status, Targets,
};
use super::operations::{self as on, Operation};
use super::refusal::{Refusal, chosen};
use super::{load_balancers, routes, volumes};
use crate::cloud::{Cloud, Jitter, Quota};
use crate::faults::Fault;
use crate::instances::{Instance, InstanceId, InstanceSpec, Maintenance, Power};

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

/// Serves until `stop`, and accepts no connection after it.
pub async fn serve(listener: Listener, cloud: Cloud, about: About, stop: CancellationToken) {
    let served = axum::serve(Sockets(listener), router(cloud, Arc::new(about)));
    tokio::select! {
        _ = served.into_future() => {}
        () = stop.cancelled() => {}
    }
}

/// The listener as axum wants it.
struct Sockets(Listener);

impl axum::serve::Listener for Sockets {
    type Io = UnixStream;
    type Addr = ();

    async fn accept(&mut self) -> (UnixStream, ()) {
        loop {
            // An error is logged, and followed by a pause.
            if let Ok(stream) = self.0.accept().await {
                return (stream, ());
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<()> {
        Ok(())
    }
}

fn router(cloud: Cloud, about: Arc<About>) -> Router {
    let api = Api(BTreeMap::new())
        .on(&on::STATUS, move |cloud, ()| Ok(status(cloud, &about)))
        .on(&on::INSTANCES, |cloud, ()| Ok(listed(cloud)))
        .on(&on::CREATE_INSTANCE, create)
        .on(&on::START_INSTANCES, |cloud, targets| {
            set_power(cloud, &targets, Power::Running)
        })
        .on(&on::STOP_INSTANCES, |cloud, targets| {
            set_power(cloud, &targets, Power::Shutdown)
        })
        .on(&on::ANNOUNCE_MAINTENANCE, announce_maintenance)
        .on(&on::DELETE_INSTANCES, |cloud, targets| {
            delete(cloud, &targets)
        })
        .on(&on::LOAD_BALANCERS, |cloud, ()| {
            Ok(load_balancers::list(cloud))
        })
        .on(&on::SHOW_LOAD_BALANCERS, |cloud, targets| {
            load_balancers::show(cloud, &targets)
        })
        .on(&on::CREATE_LOAD_BALANCER, load_balancers::create)
        .on(&on::EDIT_LOAD_BALANCER, load_balancers::edit)
        .on(&on::DELETE_LOAD_BALANCERS, |cloud, targets| {
            load_balancers::delete(cloud, &targets)
        })
        .on(&on::ROUTES, |cloud, ()| Ok(routes::list(cloud)))
        .on(&on::ADD_ROUTE, routes::add)
        .on(&on::EDIT_ROUTES, |cloud, edit| routes::edit(cloud, &edit))
        .on(&on::REMOVE_ROUTES, |cloud, targets| {
            routes::remove(cloud, &targets)
        })
        .on(&on::VOLUMES, |cloud, ()| Ok(volumes::list(cloud)))
        .on(&on::SET_VOLUME, volumes::set)
        .on(&on::DELETE_VOLUMES, |cloud, targets| {
            volumes::delete(cloud, &targets)
        })
        .on(&on::CHANGE_COST, change_cost)
        .on(&on::FAULTS, |cloud, ()| Ok(cloud.faults().list()))
        .on(&on::SET_FAULT, set_fault)
        .on(&on::CLEAR_FAULTS, |cloud, ()| {
            let cleared = cloud.clear_faults();
            Ok(Cleared { cleared })
        })
        .on(&on::COUNTERS, |cloud, ()| Ok(cloud.counters()))
        .on(&on::RESET_COUNTERS, |cloud, ()| Ok(cloud.take_counters()))
        .on(
            &on::CLOSE_CONNECTIONS,
            |cloud, CloseConnections { hold }| {
                let closed = cloud.close_connections(hold.unwrap_or_default());
                Ok(ClosedConnections { closed })
            },
        );
    let api = Arc::new(api);
    let handler =
        move |body: Result<Bytes, BytesRejection>| ready(respond(api.answer(&cloud, body)));
    Router::new()
        .route("/v1", axum::routing::post(handler))
        .layer(DefaultBodyLimit::max(MAX_BODY))
}

/// Reads the question of a command, and answers it.
type Handler = Box<dyn Fn(&Cloud, &RawValue) -> Result<Vec<u8>, Refusal> + Send + Sync>;

/// The commands by their names.
struct Api(BTreeMap<&'static str, Handler>);

impl Api {
    /// Answers an operation.
    fn on<Q: DeserializeOwned + 'static, A: Serialize + 'static>(
        mut self,
        operation: &Operation<Q, A>,
        answer: impl Fn(&Cloud, Q) -> Result<A, Refusal> + Send + Sync + 'static,
    ) -> Self {
        let handler = move |cloud: &Cloud, question: &RawValue| {
            let question = serde_json::from_str(question.get()).map_err(|error| wrong(&error))?;
            serde_json::to_vec(&answer(cloud, question)?).map_err(|error| wrong(&error))
        };
        self.0.insert(operation.name, Box::new(handler));
        self
    }

    /// Answers a document with one command.
    fn answer(
        &self,
        cloud: &Cloud,
        body: Result<Bytes, BytesRejection>,
    ) -> Result<Vec<u8>, Refusal> {
        let body = body
            .map_err(|error| Refusal::bad_request(format!("the request was not read: {error}")))?;
        let commands: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(&body).map_err(|error| wrong(&error))?;
        let list = || self.0.keys().copied().collect::<Vec<_>>().join(", ");
        let one = match commands.len() {
            1 => commands.into_iter().next(),
            _ => None,
        };
        let Some((name, question)) = one else {
            let error = format!("a request is one command: {}", list());
            return Err(Refusal::bad_request(error));
        };
        match self.0.get(name.as_str()) {
            Some(handler) => handler(cloud, &question),
            None => Err(Refusal {
                status: StatusCode::NOT_FOUND,
                error: format!("there is no command {name:?}; there are {}", list()),
            }),
        }
    }
}

fn wrong(error: &serde_json::Error) -> Refusal {
    Refusal::bad_request(format!("the request is wrong: {error}"))
}

fn respond(answer: Result<Vec<u8>, Refusal>) -> Response {
    let (status, body) = match answer {
        Ok(body) => (StatusCode::OK, body),
        Err(Refusal { status, error }) => {
            // Text is always JSON.
            (
                status,
                serde_json::to_vec(&Failure { error }).unwrap_or_default(),
            )
        }
    };
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
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

fn create(cloud: &Cloud, spec: InstanceSpec) -> Result<Changed, Refusal> {
    Ok(changed([cloud.create(spec)?]))
}

fn set_power(cloud: &Cloud, targets: &Targets, power: Power) -> Result<Changed, Refusal> {
    let ids = resolve(cloud, targets)?;
    let set = ids
        .iter()
        .filter_map(|id| cloud.set_power(id.as_str(), power));
    Ok(changed(set))
}

fn announce_maintenance(cloud: &Cloud, announced: AnnounceMaintenance) -> Result<Changed, Refusal> {
    let targets = Targets {
        targets: announced.targets,
        ..Targets::default()
    };
    let maintenance = (!announced.over).then_some(Maintenance {
        starts_at: announced.starts_at,
        reason: announced.reason,
    });
    let ids = resolve(cloud, &targets)?;
    let announce = |id: &InstanceId| cloud.announce_maintenance(id.as_str(), maintenance.clone());
    Ok(changed(ids.iter().filter_map(announce)))
}

fn delete(cloud: &Cloud, targets: &Targets) -> Result<Changed, Refusal> {
    if targets.terminating {
        return set_power(cloud, targets, Power::Terminating);
    }
    let ids = resolve(cloud, targets)?;
    Ok(changed(
        ids.iter().filter_map(|id| cloud.delete(id.as_str())),
    ))
}

/// The ids of the targets.
fn resolve(cloud: &Cloud, targets: &Targets) -> Result<Vec<InstanceId>, Refusal> {
    let named = |target: &str| cloud.find(target).into_iter().collect();
    let instances = chosen("instance", targets, || cloud.instances(), named)?;
    Ok(instances
        .iter()
        .map(|instance| instance.id.clone())
        .collect())
}

fn changed(instances: impl IntoIterator<Item = Arc<Instance>>) -> Changed {
    Changed {
        changed: instances.into_iter().map(Arc::unwrap_or_clone).collect(),
    }
}

fn change_cost(cloud: &Cloud, change: ChangeCost) -> Result<ChangeCost, Refusal> {
    let jitter = change.jitter.as_deref().map(str::parse::<Jitter>);
    let jitter = jitter.transpose().map_err(Refusal::bad_request)?;
    let quota = change.rate_limit.map(quota).transpose()?;
    let latency = change.latency.unwrap_or_else(|| cloud.cost().latency);
    cloud.set_latency(latency, jitter);
    if let Some(quota) = quota {
        cloud.set_quota(quota);
    }
    Ok(change)
}

fn quota(new: NewQuota) -> Result<Option<Quota>, Refusal> {
    if new.qps == 0.0 {
        return Ok(None);
    }
    Quota::checked(new.qps, new.burst)
        .map(Some)
        .map_err(Refusal::bad_request)
}

fn set_fault(cloud: &Cloud, InjectFault { fault, add }: InjectFault) -> Result<Fault, Refusal> {
    fault.check().map_err(Refusal::bad_request)?;
    if add {
        cloud.faults().add(fault.clone());
    } else {
        cloud.faults().replace(fault.clone());
    }
    Ok(fault)
}
