//! Answers on the control socket.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use outrigger_provider_sdk::Listener;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::commands::{
    AnnounceMaintenance, Changed, Command, Count, Failure, Listed, SetCost, SetFault, Status,
    Targets,
};
use super::{load_balancers, routes};
use crate::cloud::{Cloud, Quota};
use crate::faults::Fault;
use crate::instances::{Instance, InstanceId, Power};

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
    let handler = move |body: Result<Bytes, BytesRejection>| {
        ready(respond(
            read(body).and_then(|command| execute(&cloud, &about, command)),
        ))
    };
    Router::new().route("/v1", axum::routing::post(handler))
}

/// Why a command is refused.
pub(super) struct Refusal(pub(super) String);

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

fn read(body: Result<Bytes, BytesRejection>) -> Result<Command, Refusal> {
    serde_json::from_slice(&body?)
        .map_err(|error| Refusal(format!("the command is wrong: {error}")))
}

fn respond(answer: Result<Vec<u8>, Refusal>) -> Response {
    let (status, body) = match answer {
        Ok(body) => (StatusCode::OK, body),
        // Text is always JSON.
        Err(Refusal(error)) => (
            StatusCode::BAD_REQUEST,
            serde_json::to_vec(&Failure { error }).unwrap_or_default(),
        ),
    };
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn json(answer: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    let mut text = serde_json::to_vec_pretty(answer)?;
    text.push(b'\n');
    Ok(text)
}

fn execute(cloud: &Cloud, about: &About, command: Command) -> Result<Vec<u8>, Refusal> {
    match command {
        Command::Status => json(&status(cloud, about)),
        Command::List => json(&listed(cloud)),
        Command::Create(spec) => json(&changed([cloud.create(*spec)?])),
        Command::Stop(targets) => json(&set_power(cloud, &targets, Power::Shutdown)?),
        Command::Start(targets) => json(&set_power(cloud, &targets, Power::Running)?),
        Command::Maintenance(announced) => json(&announce_maintenance(cloud, announced)?),
        Command::Delete(targets) => json(&delete(cloud, &targets)?),
        Command::LoadBalancers => json(&load_balancers::list(cloud)),
        Command::CreateLoadBalancer(new) => json(&load_balancers::create(cloud, new)?),
        Command::EditLoadBalancer(edit) => json(&load_balancers::edit(cloud, edit)?),
        Command::DeleteLoadBalancers(targets) => json(&load_balancers::delete(cloud, &targets)?),
        Command::Routes => json(&routes::list(cloud)),
        Command::AddRoute(new) => json(&routes::add(cloud, new)?),
        Command::EditRoutes(edit) => json(&routes::edit(cloud, &edit)?),
        Command::RemoveRoutes(targets) => json(&routes::remove(cloud, &targets)?),
        Command::Volumes => json(&routes::list_volumes(cloud)),
        Command::SetVolume(volume) => json(&routes::set_volume(cloud, volume)?),
        Command::DeleteVolumes(targets) => json(&routes::delete_volumes(cloud, &targets)?),
        Command::SetCost(cost) => {
            set_cost(cloud, &cost)?;
            json(&status(cloud, about))
        }
        Command::SetFault(fault) => json(&set_fault(cloud, fault)?),
        Command::Clear => json(&Count {
            count: cloud.clear_faults(),
        }),
        Command::Counters => json(&cloud.counters()),
        Command::ResetCounters => json(&cloud.take_counters()),
    }
}

/// Refuses control characters in text that terminals show.
pub(super) fn printable(text: &str) -> Result<(), Refusal> {
    if !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Refusal(format!(
        "{text:?} has control characters; use letters, digits and punctuation"
    )))
}

/// The objects that are meant; a name that is not known refuses them all.
pub(super) fn chosen<T>(
    kind: &str,
    targets: &Targets,
    all: impl FnOnce() -> Vec<T>,
    named: impl Fn(&str) -> Vec<T>,
) -> Result<Vec<T>, Refusal> {
    if targets.all {
        return Ok(all());
    }
    if targets.targets.is_empty() {
        return Err(Refusal(format!("no {kind} is named; name some, or all")));
    }
    let mut objects = Vec::new();
    for target in &targets.targets {
        let meant = named(target);
        if meant.is_empty() {
            let error = format!("there is no {kind} {target}; nothing was changed");
            return Err(Refusal(error));
        }
        objects.extend(meant);
    }
    Ok(objects)
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
        load_balancers: cloud.load_balancers().len(),
        routes: cloud.routes().len(),
        volumes: cloud.volumes().len(),
        latency: crate::duration::format(cost.latency),
        jitter: cost.jitter,
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
    let maintenance = (!announced.over).then_some(announced.maintenance);
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

fn set_cost(cloud: &Cloud, cost: &SetCost) -> Result<(), Refusal> {
    let quota = match cost.qps {
        Some(qps) if qps != 0.0 => Some(Quota::checked(qps, cost.burst).map_err(Refusal)?),
        _ => None,
    };
    let latency = cost.latency.unwrap_or_else(|| cloud.cost().latency);
    cloud.set_latency(latency, cost.jitter);
    if cost.qps.is_some() {
        cloud.set_quota(quota);
    }
    Ok(())
}

fn set_fault(cloud: &Cloud, SetFault { fault, add }: SetFault) -> Result<Fault, Refusal> {
    fault.check().map_err(Refusal)?;
    if add {
        cloud.faults().add(fault.clone());
    } else {
        cloud.faults().replace(fault.clone());
    }
    Ok(fault)
}
