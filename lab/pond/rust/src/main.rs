//! Pond as a provider, with the SDK for Rust. POND is the URL of the cloud, `POND_TOKEN` its token.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, time::Duration};

use http::header::{AUTHORIZATION, RETRY_AFTER};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use outrigger_provider_sdk::{
    Answer, BoxError, Context, Error, Instances, LoadBalancers, Lookup, Lookups, OfService as _,
    Outcome, Provider, ProviderInfo, Query, Server, Targets, answer, v1,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone)]
struct Pond {
    url: String,
    token: String,
    http: Client<HttpConnector, String>,
    /// The dependency that the last request has shown to fail.
    failing: Arc<Mutex<Option<v1::DependencyStatus>>>,
}

#[derive(Deserialize)]
struct Machine {
    id: String,
    name: String,
    address: String,
    zone: String,
    on: bool,
}

#[derive(Deserialize)]
struct Balancer {
    id: String,
    address: String,
    #[serde(flatten)]
    spec: Spec,
}

#[derive(Deserialize, PartialEq, Serialize)]
struct Spec {
    ports: Vec<Port>,
    check: i32,
    targets: Vec<String>,
}

#[derive(Deserialize, PartialEq, Serialize)]
struct Port {
    port: i32,
    node_port: i32,
}

impl Pond {
    /// One request to the cloud. A status of a failure is an error with the reason that it means.
    async fn request<T: DeserializeOwned>(
        &self,
        ctx: &Context,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<T, Error> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .body(body.map(|body| body.to_string()).unwrap_or_default())
            .map_err(Error::unexpected)?;
        let exchange = async {
            let (head, body) = self.http.request(request).await?.into_parts();
            Ok::<_, BoxError>((head, body.collect().await?.to_bytes()))
        };
        let limit = ctx.remaining().map_or(LIMIT, |time| time.min(LIMIT));
        let Ok(Ok((head, body))) = tokio::time::timeout(limit, exchange).await else {
            let error = Error::cloud_unavailable("Pond does not answer");
            return Err(self.failed("cloud-api", error));
        };
        let text = format!("Pond: {}", String::from_utf8_lossy(&body));
        Err(match head.status.as_u16() {
            200 => {
                *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = None;
                return serde_json::from_slice(&body).map_err(Error::unexpected);
            }
            401 => self.failed("credentials", Error::credentials_invalid(text)),
            409 => Error::conflict(text),
            422 => Error::quota_exceeded(text),
            429 => {
                let pause = head.headers.get(RETRY_AFTER).map(|pause| pause.to_str());
                let seconds = pause.and_then(|text| text.ok()?.parse().ok());
                Error::rate_limited(Duration::from_secs(seconds.unwrap_or(1)))
            }
            503 => self.failed("cloud-api", Error::cloud_unavailable(text)),
            _ => Error::cloud_error(text),
        })
    }

    /// Notes which dependency an error shows to fail.
    fn failed(&self, name: &str, error: Error) -> Error {
        let failing = v1::DependencyStatus {
            name: name.to_owned(),
            readiness: v1::Readiness::Degraded.into(),
            message: error.message().to_owned(),
            ..v1::DependencyStatus::default()
        };
        *self.failing.lock().unwrap_or_else(PoisonError::into_inner) = Some(failing);
        error
    }

    async fn machines(&self, ctx: &Context) -> Result<Vec<Machine>, Error> {
        self.request(ctx, Method::GET, "/machines", None).await
    }

    /// The load balancer of a Service: Pond refuses a second with the same tags.
    async fn tagged(&self, ctx: &Context, uid: &str) -> Result<Option<Balancer>, Error> {
        let path = format!("/balancers?cluster={}&service={uid}", ctx.cluster().uid);
        let mut balancers: Vec<_> = self.request(ctx, Method::GET, &path, None).await?;
        Ok(balancers.pop())
    }

    async fn change(&self, ctx: &Context, id: &str, change: Value) -> Result<Answer, Error> {
        let path = format!("/balancers/{id}");
        let changed = self.request(ctx, Method::PUT, &path, Some(change)).await;
        changed.map(ready)
    }
}

impl Provider for Pond {
    fn info(&self) -> ProviderInfo {
        ProviderInfo {
            service_annotation_prefixes: vec!["pond.example/".to_owned()],
            ..ProviderInfo::new("pond", env!("CARGO_PKG_VERSION"))
        }
    }

    fn status(&self) -> v1::GetStatusResponse {
        let failing = self.failing.lock();
        let failing = failing.unwrap_or_else(PoisonError::into_inner).clone();
        let readiness = match failing {
            None => v1::Readiness::Ready,
            Some(_) => v1::Readiness::Degraded,
        };
        v1::GetStatusResponse {
            readiness: readiness.into(),
            dependencies: failing.into_iter().collect(),
            ..v1::GetStatusResponse::default()
        }
    }
}

impl Instances for Pond {
    async fn get_instance(
        &self,
        ctx: &Context,
        node: &v1::Node,
        _: &Query,
    ) -> Result<Lookup, Error> {
        look_up(&self.machines(ctx).await?, node)
    }

    /// By one list for a batch.
    async fn get_instances(
        &self,
        ctx: &Context,
        nodes: &[v1::Node],
        _: &Query,
    ) -> Result<Lookups, Error> {
        let machines = self.machines(ctx).await?;
        let result = |node: &v1::Node| (node.name.clone(), look_up(&machines, node));
        Ok(nodes.iter().map(result).collect())
    }
}

/// By the provider ID, or by the name where there is none yet.
fn look_up(machines: &[Machine], node: &v1::Node) -> Result<Lookup, Error> {
    let id = node.provider_id.as_str();
    let machine = match id.strip_prefix("pond://") {
        _ if id.is_empty() => machines.iter().find(|machine| machine.name == node.name),
        Some(key) if is_id(key) => machines.iter().find(|machine| machine.id == key),
        Some(_) => {
            return Err(Error::malformed_provider_id(format!(
                "{id} is none of Pond"
            )));
        }
        None => return Ok(Outcome::not_managed(format!("{id} is another cloud's")).into()),
    };
    match machine {
        Some(machine) => Ok(Outcome::Found(instance(machine)).into()),
        // An empty list may be another account's.
        None if machines.is_empty() => Err(Error::cloud_error("Pond shows no machine at all")),
        // The Node may be deleted: the same list shows others.
        None => Ok(Outcome::absent("Pond shows other machines only").into()),
    }
}

fn is_id(key: &str) -> bool {
    let number = key.strip_prefix("m-").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn instance(machine: &Machine) -> v1::Instance {
    let power_state = if machine.on {
        v1::PowerState::Running
    } else {
        v1::PowerState::Shutdown
    };
    let address = v1::NodeAddress {
        r#type: "InternalIP".to_owned(),
        address: machine.address.clone(),
    };
    v1::Instance {
        provider_id: format!("pond://{}", machine.id),
        node_name: machine.name.clone(),
        addresses: vec![address],
        zone: machine.zone.clone(),
        power_state: power_state.into(),
        ..v1::Instance::default()
    }
}

impl LoadBalancers for Pond {
    async fn get_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::GetLoadBalancerRequest,
        targets: Option<&Targets>,
    ) -> Result<Answer, Error> {
        let service = request.service();
        let Some(balancer) = self.tagged(ctx, &service.uid).await? else {
            return Ok(answer::absent());
        };
        let targets = targets.map_or_else(|| balancer.spec.targets.clone(), addresses);
        if desired(service, targets)? == balancer.spec {
            return Ok(ready(balancer));
        }
        Ok(answer::differs("ports, health check or targets"))
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::EnsureLoadBalancerRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        let service = request.service();
        let spec = desired(service, addresses(targets))?;
        let balancer = self.tagged(ctx, &service.uid).await?;
        ctx.check()?;
        let mut body = json!(spec);
        match balancer {
            Some(balancer) if balancer.spec == spec => Ok(ready(balancer)),
            Some(balancer) => self.change(ctx, &balancer.id, body).await,
            None => {
                body["cluster"] = json!(ctx.cluster().uid);
                body["service"] = json!(service.uid);
                let path = "/balancers";
                let made = self.request(ctx, Method::POST, path, Some(body)).await;
                made.map(ready)
            }
        }
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        request: &v1::UpdateLoadBalancerNodesRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        let Some(balancer) = self.tagged(ctx, &request.service().uid).await? else {
            return Ok(answer::absent());
        };
        ctx.check()?;
        let targets = json!({ "targets": addresses(targets) });
        self.change(ctx, &balancer.id, targets).await
    }

    async fn delete_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::DeleteLoadBalancerRequest,
    ) -> Result<Answer, Error> {
        if let Some(balancer) = self.tagged(ctx, &request.service().uid).await? {
            ctx.check()?;
            let path = format!("/balancers/{}", balancer.id);
            let _: Balancer = self.request(ctx, Method::DELETE, &path, None).await?;
        }
        Ok(answer::absent())
    }
}

fn ready(balancer: Balancer) -> Answer {
    answer::ready([v1::LoadBalancerIngress {
        ip: balancer.address,
        ..v1::LoadBalancerIngress::default()
    }])
}

fn addresses(targets: &Targets) -> Vec<String> {
    let all = targets.iter().flat_map(|node| &node.addresses);
    let internal = all.filter(|address| address.r#type == "InternalIP");
    let mut addresses: Vec<_> = internal.map(|address| address.address.clone()).collect();
    addresses.sort_unstable();
    addresses
}

/// The one translation of a Service, for Get and Ensure. It refuses what Pond cannot serve.
fn desired(service: &v1::Service, targets: Vec<String>) -> Result<Spec, Error> {
    let is_ipv6 = service.ip_families.starts_with(&["IPv6".to_owned()]);
    let has_ranges = !service.load_balancer_source_ranges.is_empty();
    let has_no_port = service.ports.iter().any(|port| port.node_port == 0);
    for (feature, is_needed) in [
        ("choice of addresses", !service.load_balancer_ip.is_empty()),
        ("session affinity", service.session_affinity == "ClientIP"),
        ("source ranges", has_ranges),
        (
            "IPv6",
            is_ipv6 || service.ip_family_policy == "RequireDualStack",
        ),
        ("way to a port without a node port", has_no_port),
    ] {
        if is_needed {
            return Err(Error::unsupported_feature(format!("Pond has no {feature}")));
        }
    }
    let mut ports = Vec::new();
    for port in &service.ports {
        if port.protocol != "TCP" {
            let text = format!("Pond cannot serve {}/{}", port.protocol, port.port);
            return Err(Error::unsupported_protocol(text));
        }
        let (port, node_port) = (port.port, port.node_port);
        ports.push(Port { port, node_port });
    }
    let check = match service.health_check_node_port {
        0 => 10256,
        port => port,
    };
    Ok(Spec {
        ports,
        check,
        targets,
    })
}

fn main() -> ExitCode {
    outrigger_provider_sdk::main(async || {
        let pond = Pond {
            url: env::var("POND")?,
            token: env::var("POND_TOKEN")?,
            http: Client::builder(TokioExecutor::new()).build_http(),
            failing: Arc::default(),
        };
        let server = Server::new(pond.clone());
        Ok(server.instances(pond.clone()).load_balancers(pond))
    })
}
