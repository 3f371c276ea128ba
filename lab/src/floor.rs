//! The writes of initialising nodes, with no logic around them.
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

/// The result of a run.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Nodes that were written.
    pub nodes: usize,
    /// The writes of each.
    pub per_node: usize,
    /// From the first write to the last answer.
    pub duration: Duration,
    /// CPU time of the API server meanwhile; zero where it does not say.
    pub api_server: Duration,
}

impl Measured {
    /// Writes per second that the API server accepted.
    pub fn writes_per_second(&self) -> f64 {
        (self.nodes * self.per_node) as f64 / self.duration.as_secs_f64()
    }

    /// Milliseconds of the API server's processors for each write.
    pub fn milliseconds_per_write(&self) -> f64 {
        let writes = (self.nodes * self.per_node) as f64;
        self.api_server.as_secs_f64() * 1000.0 / writes.max(1.0)
    }
}

/// Makes the writes for all tainted nodes whose name starts with `prefix`, to `parallel` at a time: two that make a node
/// ready, metadata and spec, then status; and if `with_events` one event.
///
/// Listing them is not part of the time. `done` is called after each node with the number
/// of nodes so far.
pub async fn measure(
    client: &Client,
    prefix: &str,
    parallel: usize,
    with_events: bool,
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
        .run(numbered, done, |(number, node)| {
            initialise(client, node, number, with_events)
        })
        .await?;
    Ok(Measured {
        nodes,
        per_node: if with_events { 3 } else { 2 },
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
    with_event: bool,
) -> Result<()> {
    let what = format!("node {}", node.name);
    let path = format!("/api/v1/nodes/{}", node.name);
    let status_path = format!("{path}/status");
    let version = wire::patch(client, &path, &node.metadata_and_spec(), &what).await?;
    node.node.metadata.resource_version = Some(version);
    wire::patch(client, &status_path, &node.status(number), &what).await?;
    let Tainted { name, uid, .. } = &node;
    if !with_event {
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

const LABELS: [(&str, &str); 6] = [
    ("beta.kubernetes.io/instance-type", "m1.large"),
    ("node.kubernetes.io/instance-type", "m1.large"),
    ("failure-domain.beta.kubernetes.io/zone", "r1-a"),
    ("topology.kubernetes.io/zone", "r1-a"),
    ("failure-domain.beta.kubernetes.io/region", "r1"),
    ("topology.kubernetes.io/region", "r1"),
];

impl Tainted {
    /// The patch that removes the taint, and sets provider ID and labels.
    fn metadata_and_spec(&self) -> Value {
        let taints = self.node.spec.iter().flat_map(|spec| &spec.taints);
        let mut taints: Vec<_> = taints.flatten().collect();
        taints.remove(self.taint_index);
        let taints = (!taints.is_empty()).then_some(taints);
        let mut patch = self.exact();
        patch["metadata"]["labels"] = LABELS.into_iter().collect();
        patch["spec"] = json!({"providerID": format!("floor://{}", self.name), "taints": taints});
        patch
    }

    /// The patch of the addresses.
    fn status(&self, number: usize) -> Value {
        let (name, host) = (&self.name, number as u32);
        let mut patch = self.exact();
        patch["status"]["addresses"] = json!([
            {"type": "InternalIP", "address": Ipv4Addr::from(0x0a00_0000 | host).to_string()},
            {"type": "ExternalIP", "address": Ipv4Addr::from(0xc612_0000 | host).to_string()},
            {"type": "Hostname", "address": name},
            {"$patch": "replace"},
        ]);
        patch
    }

    /// A patch of nothing, for this Node under its version alone.
    fn exact(&self) -> Value {
        let version = &self.node.metadata.resource_version;
        json!({"metadata": {"uid": self.uid, "resourceVersion": version}})
    }
}
