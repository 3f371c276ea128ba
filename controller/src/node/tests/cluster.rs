//! A small API of nodes, and the loop over it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::FutureExt;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use outrigger_core::node::NodeView;
use outrigger_provider_mock::{
    Cloud, CloudConfig, MockProvider, ProviderOptions, cloud::Clock, instances::InstanceSpec,
};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::{
    io::DuplexStream,
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::PATIENCE;

use crate::{
    kube::{
        api::Api,
        events::{EventMetrics, Events},
        scripted::{self, Answer},
        store::{Origin, Store},
    },
    node::{CloudNode, Intake, NAME, NodeMetrics, Parts},
    provider::{self, Connect, Connecting, Provider, Transport},
    queue::QueueMetrics,
};

/// A node as a kubelet registers it, and a taint of somebody else.
pub(super) fn node(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": name},
        },
        "spec": {"taints": [
            {"key": super::UNINITIALIZED, "value": "true", "effect": "NoSchedule"},
            {"key": "other", "effect": "NoExecute"},
        ]},
        "status": {"addresses": [{"type": "Hostname", "address": name}]},
    })
}

/// Nodes in one question.
const BATCH: u32 = 100;

type Edit = Box<dyn FnOnce(&mut Value) + Send>;

struct Refusal {
    path: &'static str,
    code: u16,
    left: usize,
}

#[derive(Default)]
struct State {
    version: u64,
    nodes: BTreeMap<String, Value>,
    edits: Vec<Edit>,
    refusals: Vec<Refusal>,
}

/// The API server's side.
#[derive(Clone)]
pub(super) struct Cluster {
    state: Arc<Mutex<State>>,
    /// `METHOD path`, and for events `POST reason`.
    requests: Arc<watch::Sender<Vec<String>>>,
}

impl Cluster {
    fn new() -> Self {
        Self {
            state: Arc::default(),
            requests: Arc::new(watch::Sender::new(Vec::new())),
        }
    }

    pub(super) fn change(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut state = self.state.lock();
        state.version += 1;
        let version = state.version.to_string();
        let node = state.nodes.get_mut(name).unwrap();
        edit(node);
        node["metadata"]["resourceVersion"] = json!(version);
    }

    pub(super) fn before_next_patch(&self, edit: impl FnOnce(&mut Value) + Send + 'static) {
        self.state.lock().edits.push(Box::new(edit));
    }

    pub(super) fn refuse(&self, path: &'static str, code: u16, times: usize) {
        self.state.lock().refusals.push(Refusal {
            path,
            code,
            left: times,
        });
    }

    pub(super) async fn until(&self, holds: impl Fn(&[String]) -> bool) {
        let mut requests = self.requests.subscribe();
        let waited = timeout(PATIENCE, requests.wait_for(|requests| holds(requests)));
        let in_time = waited.await.is_ok();
        assert!(in_time, "{:#?}", self.requests.borrow());
    }

    async fn answer(self, request: Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        let answer = self.act(&parts.method, &path, &body);
        let what = match body["reason"].as_str() {
            Some(reason) if parts.method == Method::POST => reason.to_owned(),
            _ => path,
        };
        self.requests
            .send_modify(|log| log.push(format!("{} {what}", parts.method)));
        answer
    }

    fn act(&self, method: &Method, path: &str, body: &Value) -> Answer {
        let mut state = self.state.lock();
        let refusal = state
            .refusals
            .iter_mut()
            .find(|r| r.left > 0 && path.contains(r.path));
        if let Some(refusal) = refusal {
            refusal.left -= 1;
            return scripted::refusal(refusal.code, "Scripted");
        }
        let name = path.split('/').nth(4).unwrap_or_default().to_owned();
        match *method {
            Method::POST => scripted::json(201, body),
            Method::GET => match state.nodes.get(&name) {
                Some(node) => scripted::json(200, node),
                None => scripted::refusal(404, "NotFound"),
            },
            Method::PATCH => {
                let edits = std::mem::take(&mut state.edits);
                state.version += 1;
                let version = state.version.to_string();
                let Some(node) = state.nodes.get_mut(&name) else {
                    return scripted::refusal(404, "NotFound");
                };
                for edit in edits {
                    edit(node);
                }
                match patched(node, body.as_array().unwrap()) {
                    Some(mut new) => {
                        new["metadata"]["resourceVersion"] = json!(version);
                        *node = new.clone();
                        scripted::json(200, &new)
                    }
                    None => scripted::refusal(422, "Invalid"),
                }
            }
            _ => scripted::refusal(405, "MethodNotAllowed"),
        }
    }
}

/// RFC 6902, as far as the loop uses it; none if a `test` fails.
fn patched(node: &Value, operations: &[Value]) -> Option<Value> {
    let mut node = node.clone();
    for operation in operations {
        let path = operation["path"].as_str()?;
        let (parent, key) = path.rsplit_once('/')?;
        let key = key.replace("~1", "/").replace("~0", "~");
        match operation["op"].as_str()? {
            "test" => {
                let found = node.pointer(path).unwrap_or(&Value::Null);
                if *found != operation["value"] {
                    return None;
                }
            }
            "add" => {
                let parent = node.pointer_mut(parent)?.as_object_mut()?;
                parent.insert(key, operation["value"].clone());
            }
            "remove" => {
                node.pointer_mut(parent)?
                    .as_array_mut()?
                    .remove(key.parse().ok()?);
            }
            _ => return None,
        }
    }
    Some(node)
}

/// Connections to a server in this process.
struct Pipe(mpsc::UnboundedSender<DuplexStream>);

impl std::fmt::Display for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a pipe")
    }
}

impl Connect for Pipe {
    fn connect(&self) -> Connecting {
        let (here, there) = tokio::io::duplex(1 << 20);
        let sent = self.0.send(there);
        std::future::ready(match sent {
            Ok(()) => Ok(Box::new(here) as Box<dyn Transport>),
            Err(_) => Err(std::io::ErrorKind::ConnectionRefused.into()),
        })
        .boxed()
    }
}

/// The loop, its cluster and its cloud.
pub(super) struct Fixture {
    pub(super) cluster: Cluster,
    pub(super) cloud: Cloud,
    pub(super) nodes: Arc<Store<NodeView>>,
    may_write: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Fixture {
    /// With a machine for every node, and a store that has nothing to list.
    pub(super) fn start(prepare: impl FnOnce(&Cloud)) -> Self {
        Self::with(true, 0, prepare)
    }

    pub(super) fn without_machines() -> Self {
        Self::with(false, 0, |_| {})
    }

    /// With `count` nodes in the store when the loop starts.
    pub(super) fn filled(count: usize) -> Self {
        Self::with(true, count, |_| {})
    }

    fn with(synthesize: bool, count: usize, prepare: impl FnOnce(&Cloud)) -> Self {
        let cluster = Cluster::new();
        let api_server = cluster.clone();
        let client = scripted::client(move |request| api_server.clone().answer(request).boxed());
        let mut config = CloudConfig::new().unwrap();
        config.synthesize = synthesize;
        config.clock = Clock::tokio();
        let cloud = Cloud::new(config);
        prepare(&cloud);
        let mut tasks = JoinSet::new();
        let (dialed, accepted) = mpsc::unbounded_channel();
        let incoming = futures::stream::unfold(accepted, async |mut accepted| {
            let stream: Option<DuplexStream> = accepted.recv().await;
            stream.map(|stream| (std::io::Result::Ok(stream), accepted))
        });
        let options = ProviderOptions {
            max_batch_size: BATCH,
            ..ProviderOptions::default()
        };
        let server = MockProvider::with_options(cloud.clone(), options).into_server();
        tasks.spawn(async move {
            server
                .serve_with_incoming(incoming, std::future::pending())
                .await
                .unwrap();
        });
        let mut registry = Registry::default();
        let options = provider::Options {
            expected_name: None,
            allow_untagged: false,
            controller_name: "test".into(),
            controller_version: "0".into(),
            kubernetes_version: "v1".into(),
            cluster: provider::Cluster {
                name: "kubernetes".into(),
                ..Default::default()
            },
            max_receive_bytes: 4 << 20,
            standby: false,
        };
        let (provider, connection) = Provider::new(
            options,
            Pipe(dialed),
            &mut registry,
            CancellationToken::new(),
        );
        tasks.spawn(connection);
        let metrics = EventMetrics::register(&mut registry);
        let (events, writer) = Events::new(client.clone(), &metrics);
        tasks.spawn(writer.run(CancellationToken::new()));

        let mut nodes = Store::default();
        let intake = Intake::new(&mut nodes, &QueueMetrics::unregistered());
        let nodes = Arc::new(nodes);
        let may_write = Arc::new(AtomicBool::new(true));
        let fence = Arc::clone(&may_write);
        let parts = Parts {
            api: Api::new(client).fenced(Arc::new(move || fence.load(Ordering::Relaxed))),
            nodes: Arc::clone(&nodes),
            provider,
            events: events.recorder(NAME),
            workers: 32,
            metrics: NodeMetrics::register(&mut registry),
        };
        let this = Self {
            cluster,
            cloud,
            nodes,
            may_write,
            tasks,
        };
        for number in 0..count {
            this.register(node(&format!("n{number}")));
        }
        this.nodes.finish_list(|_| true);
        let mut this = this;
        this.tasks
            .spawn(CloudNode::new(parts, intake).run(CancellationToken::new()));
        this
    }

    /// The API server takes the node in, and the watch brings it.
    pub(super) fn register(&self, node: Value) {
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        self.cluster.state.lock().nodes.insert(name.clone(), node);
        self.cluster.change(&name, |_| {});
        self.refresh(&name);
    }

    /// The watch brings the node as it is.
    pub(super) fn refresh(&self, name: &str) {
        self.nodes.apply(
            serde_json::from_value(self.live(name)).unwrap(),
            Origin::Watch,
        );
    }

    pub(super) fn live(&self, name: &str) -> Value {
        self.cluster.state.lock().nodes[name].clone()
    }

    pub(super) fn create(&self, name: &str) {
        self.cloud
            .create(InstanceSpec::named(name.parse().unwrap()))
            .unwrap();
    }

    pub(super) fn fence(&self) {
        self.may_write.store(false, Ordering::Relaxed);
    }

    /// All requests that are no GET.
    pub(super) fn writes(&self) -> Vec<String> {
        let requests = self.cluster.requests.borrow();
        requests
            .iter()
            .filter(|request| !request.starts_with("GET"))
            .cloned()
            .collect()
    }

    pub(super) async fn initialized(&self, name: &str) {
        let path = format!("PATCH /api/v1/nodes/{name}/status");
        self.cluster
            .until(|requests| requests.contains(&path))
            .await;
        let taints = self.live(name)["spec"]["taints"].to_string();
        assert!(!taints.contains(super::UNINITIALIZED), "{taints}");
    }

    pub(super) async fn events(&self, count: usize) {
        let posts = |requests: &[String]| requests.iter().filter(|r| r.starts_with("POST")).count();
        self.cluster
            .until(|requests| posts(requests) >= count)
            .await;
    }

    /// Waits until the provider was asked so often.
    pub(super) async fn asked(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.cloud.counters().calls("BatchGetInstances", "OK") < count {
            assert!(Instant::now() < deadline, "{:?}", self.cloud.counters());
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Lets everything happen that would happen within a minute.
    pub(super) async fn settle(&self) {
        tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    }
}
