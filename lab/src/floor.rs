//! The writes of initialising nodes, of giving them Pod CIDRs or conditions, with no logic around them.
//!
//! No controller can be faster than its writes. Measured in the same run, on the same API
//! server and machine, this shows how much of a controller's time is its own work.

use std::{net::Ipv4Addr, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use outrigger_testbed::{
    Result,
    nodes::{self, Load, UNINITIALIZED_TAINT},
    wire,
};
use serde_json::{Value, json};

/// The writes that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// The two that make a node ready: metadata and spec, status.
    Ready,
    /// The writes of `Ready` and the event about it.
    ReadyAndEvent,
    /// The one that gives a node its Pod CIDR.
    PodCidrs,
    /// The one that reports the routes of a node.
    NetworkCondition,
}

impl Writes {
    /// Writes of one node.
    pub const fn per_node(self) -> usize {
        match self {
            Self::PodCidrs | Self::NetworkCondition => 1,
            Self::Ready => 2,
            Self::ReadyAndEvent => 3,
        }
    }
}

/// The form of the two writes of [`Writes::Ready`]. Each is refused if another client has changed what it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Form {
    /// Strategic merge patches under the resourceVersion, the cheapest without another right: the controller's.
    #[default]
    Merge,
    /// JSON patches with `test` operations: the controller's after a conflict.
    JsonPatch,
    /// PUT as JSON without `managedFields`: of metadata and spec, then of metadata and status.
    Put,
}

/// The result of a run.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Nodes that were written.
    pub nodes: usize,
    /// The writes of each.
    pub writes: Writes,
    /// From the first write to the last answer.
    pub duration: Duration,
    /// CPU time of the API server meanwhile; zero where it does not say.
    pub api_server: Duration,
}

impl Measured {
    /// Writes per second that the API server accepted.
    pub fn writes_per_second(&self) -> f64 {
        (self.nodes * self.writes.per_node()) as f64 / self.duration.as_secs_f64()
    }

    /// Milliseconds of the API server's processors for each write.
    pub fn milliseconds_per_write(&self) -> f64 {
        let writes = (self.nodes * self.writes.per_node()) as f64;
        self.api_server.as_secs_f64() * 1000.0 / writes.max(1.0)
    }
}

/// Makes `writes` in `form` for all tainted nodes whose name starts with `prefix`, to `parallel` at a time.
///
/// Listing them is not part of the time. `done` is called after each node with the number
/// of nodes so far.
pub async fn measure(
    client: &Client,
    prefix: &str,
    parallel: usize,
    (writes, form): (Writes, Form),
    done: impl FnMut(usize),
) -> Result<Measured> {
    let tainted = tainted(client, prefix).await?;
    let nodes = tainted.len();
    let load = Load {
        parallel,
        per_second: None,
    };
    let numbered = tainted.into_iter().enumerate();
    let cpu_before = cpu(client).await?;
    let duration = load
        .run(numbered, done, |(number, node)| async move {
            match writes {
                Writes::PodCidrs => give_pod_cidr(client, node, number).await,
                Writes::NetworkCondition => report_routes(client, node).await,
                Writes::Ready | Writes::ReadyAndEvent => {
                    initialise(client, node, number, (writes, form)).await
                }
            }
        })
        .await?;
    Ok(Measured {
        nodes,
        writes,
        duration,
        api_server: cpu(client).await?.saturating_sub(cpu_before),
    })
}

/// CPU time of the API server since its start, by its own account.
async fn cpu(client: &Client) -> Result<Duration> {
    let metrics = wire::get(client, "/metrics", "the API server's metrics").await?;
    let mut lines = metrics.lines();
    let seconds = lines.find_map(|line| line.strip_prefix("process_cpu_seconds_total "));
    let seconds: Option<f64> = seconds.and_then(|seconds| seconds.parse().ok());
    Ok(Duration::from_secs_f64(seconds.unwrap_or_default()))
}

struct Tainted {
    name: String,
    uid: String,
    taint_index: usize,
    /// The Node in the list, without managedFields.
    node: Node,
}

async fn tainted(client: &Client, prefix: &str) -> Result<Vec<Tainted>> {
    let nodes = nodes::list::<Node>(client).await?.into_iter();
    let tainted = nodes.filter_map(|mut node| {
        let name = node.metadata.name.clone();
        let taints = node.spec.as_ref()?.taints.as_ref()?;
        let mut keys = taints.iter().map(|taint| &taint.key);
        let taint_index = keys.position(|key| key == UNINITIALIZED_TAINT)?;
        node.metadata.managed_fields = None;
        Some(Tainted {
            name: name.filter(|name| name.starts_with(prefix))?,
            uid: node.metadata.uid.clone()?,
            taint_index,
            node,
        })
    });
    Ok(tainted.collect())
}

async fn initialise(
    client: &Client,
    mut node: Tainted,
    number: usize,
    (writes, form): (Writes, Form),
) -> Result<()> {
    let what = format!("node {}", node.name);
    let path = format!("/api/v1/nodes/{}", node.name);
    let status_path = format!("{path}/status");
    let spec = node.metadata_and_spec(form);
    let status = |node: &Tainted| node.status(number, form);
    if form == Form::Put {
        let version = wire::put(client, &path, &spec, &what).await?;
        node.node.metadata.resource_version = Some(version);
        wire::put(client, &status_path, &status(&node), &what).await?;
    } else {
        let version = wire::patch(client, &path, &spec, &what).await?;
        node.node.metadata.resource_version = Some(version);
        wire::patch(client, &status_path, &status(&node), &what).await?;
    }
    let Tainted { name, uid, .. } = &node;
    if writes == Writes::Ready {
        return Ok(());
    }
    let now = Timestamp::now().to_string();
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{number:x}"), "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid},
        "type": "Normal", "reason": "Synced", "message": "Node synced successfully",
        "source": {"component": "cloud-node-controller"},
        "reportingComponent": "cloud-node-controller",
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    let events = "/api/v1/namespaces/default/events";
    wire::post(client, events, &event, &format!("event about node {name}"))
        .await
        .map(drop)
}

/// The same patch as the node-ipam loop's. `10.0.0.0/8` has 65,536 blocks.
async fn give_pod_cidr(client: &Client, node: Tainted, number: usize) -> Result<()> {
    let name = &node.name;
    let path = format!("/api/v1/nodes/{name}");
    let first = Ipv4Addr::from(0x0a00_0000 | (number as u32) << 8);
    let cidr = format!("{first}/24");
    let mut patch = node.exact();
    patch["spec"] = json!({"podCIDR": cidr, "podCIDRs": [cidr]});
    wire::patch(client, &path, &patch, &format!("node {name}")).await?;
    Ok(())
}

/// The same patch as the node-route loop's.
async fn report_routes(client: &Client, node: Tainted) -> Result<()> {
    let Tainted { name, uid, .. } = &node;
    let path = format!("/api/v1/nodes/{name}/status");
    let now = Timestamp::now();
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let patch = json!({
        "metadata": {"uid": uid},
        "status": {"conditions": [{
            "type": "NetworkUnavailable",
            "status": "False",
            "reason": "RouteCreated",
            "message": "RouteController created a route",
            "lastHeartbeatTime": now.to_string(),
            "lastTransitionTime": now.to_string(),
        }]},
    });
    wire::patch(client, &path, &patch, &format!("node {name}")).await?;
    Ok(())
}

const LABELS: [(&str, &str); 6] = [
    ("beta.kubernetes.io/instance-type", "m1.large"),
    ("node.kubernetes.io/instance-type", "m1.large"),
    ("failure-domain.beta.kubernetes.io/zone", "r1-a"),
    ("topology.kubernetes.io/zone", "r1-a"),
    ("failure-domain.beta.kubernetes.io/region", "r1"),
    ("topology.kubernetes.io/region", "r1"),
];

impl Tainted {
    /// The body of the write that removes the taint, and sets provider ID and labels.
    fn metadata_and_spec(&self, form: Form) -> Value {
        let Self { name, uid, .. } = self;
        let id = format!("floor://{name}");
        let taints = self.node.spec.iter().flat_map(|spec| &spec.taints);
        let mut taints: Vec<_> = taints.flatten().collect();
        taints.remove(self.taint_index);
        let taints = (!taints.is_empty()).then_some(taints);
        match form {
            Form::JsonPatch => {
                let taint = format!("/spec/taints/{}", self.taint_index);
                let mut patch = vec![
                    json!({"op": "test", "path": "/metadata/uid", "value": uid}),
                    json!({"op": "test", "path": format!("{taint}/key"), "value": UNINITIALIZED_TAINT}),
                    json!({"op": "remove", "path": taint}),
                    json!({"op": "test", "path": "/spec/providerID", "value": null}),
                    json!({"op": "add", "path": "/spec/providerID", "value": id}),
                ];
                for (key, value) in LABELS {
                    let label = format!("/metadata/labels/{}", key.replace('/', "~1"));
                    patch.push(json!({"op": "add", "path": label, "value": value}));
                }
                patch.into()
            }
            Form::Merge => {
                let mut patch = self.exact();
                patch["metadata"]["labels"] = LABELS.into_iter().collect();
                patch["spec"] = json!({"providerID": id, "taints": taints});
                patch
            }
            Form::Put => {
                let mut node = json!({"metadata": self.node.metadata, "spec": self.node.spec});
                for (key, value) in LABELS {
                    node["metadata"]["labels"][key] = value.into();
                }
                node["spec"]["providerID"] = id.into();
                node["spec"]["taints"] = json!(taints);
                node
            }
        }
    }

    /// The body of the write of the addresses.
    fn status(&self, number: usize, form: Form) -> Value {
        let (name, host) = (&self.name, number as u32);
        let mut addresses = vec![
            json!({"type": "InternalIP", "address": Ipv4Addr::from(0x0a00_0000 | host).to_string()}),
            json!({"type": "ExternalIP", "address": Ipv4Addr::from(0xc612_0000 | host).to_string()}),
            json!({"type": "Hostname", "address": name}),
        ];
        match form {
            Form::JsonPatch => {
                let status = self.node.status.as_ref();
                json!([
                    {"op": "test", "path": "/metadata/uid", "value": self.uid},
                    {"op": "test", "path": "/status/addresses", "value": status.and_then(|status| status.addresses.as_ref())},
                    {"op": "add", "path": "/status/addresses", "value": addresses},
                ])
            }
            Form::Merge => {
                let mut patch = self.exact();
                addresses.push(json!({"$patch": "replace"}));
                patch["status"]["addresses"] = addresses.into();
                patch
            }
            Form::Put => {
                let mut metadata = json!(self.node.metadata);
                for (key, value) in LABELS {
                    metadata["labels"][key] = value.into();
                }
                let mut node = json!({"metadata": metadata, "status": self.node.status});
                node["status"]["addresses"] = addresses.into();
                node
            }
        }
    }

    /// A patch of nothing, for this Node under its version alone.
    fn exact(&self) -> Value {
        let version = &self.node.metadata.resource_version;
        json!({"metadata": {"uid": self.uid, "resourceVersion": version}})
    }
}
