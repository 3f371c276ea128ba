//! The writes of initialising nodes, of giving them Pod CIDRs or conditions, with no logic around them.
//!
//! No controller can be faster than its writes. Measured in the same run, on the same API
//! server and machine, this shows how much of a controller's time is its own work.

use std::{net::Ipv4Addr, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use serde_json::{Value, json};

use crate::{
    Result,
    nodes::{self, Load, UNINITIALIZED_TAINT},
    wire,
};

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

/// The result of a run.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Nodes that were written.
    pub nodes: usize,
    /// The writes of each.
    pub writes: Writes,
    /// From the first write to the last answer.
    pub duration: Duration,
}

impl Measured {
    /// Writes per second that the API server accepted.
    pub fn writes_per_second(&self) -> f64 {
        (self.nodes * self.writes.per_node()) as f64 / self.duration.as_secs_f64()
    }
}

/// Makes `writes` for all tainted nodes whose name starts with `prefix`, to `parallel` at a time.
///
/// Listing them is not part of the time. `done` is called after each node with the number
/// of nodes so far.
pub async fn measure(
    client: &Client,
    prefix: &str,
    parallel: usize,
    writes: Writes,
    done: impl FnMut(usize),
) -> Result<Measured> {
    let tainted = tainted(client, prefix).await?;
    let nodes = tainted.len();
    let load = Load {
        parallel,
        per_second: None,
    };
    let numbered = tainted.into_iter().enumerate();
    let duration = load
        .run(numbered, done, |(number, node)| async move {
            match writes {
                Writes::PodCidrs => give_pod_cidr(client, node, number).await,
                Writes::NetworkCondition => report_routes(client, node).await,
                Writes::Ready | Writes::ReadyAndEvent => {
                    initialise(client, node, number, writes).await
                }
            }
        })
        .await?;
    Ok(Measured {
        nodes,
        writes,
        duration,
    })
}

struct Tainted {
    name: String,
    uid: String,
    taint_index: usize,
}

async fn tainted(client: &Client, prefix: &str) -> Result<Vec<Tainted>> {
    let nodes = nodes::list::<Node>(client).await?.into_iter();
    let tainted = nodes.filter_map(|node| {
        let name = node.metadata.name.filter(|name| name.starts_with(prefix))?;
        let taints = node.spec?.taints?;
        let mut keys = taints.iter().map(|taint| &taint.key);
        Some(Tainted {
            name,
            uid: node.metadata.uid?,
            taint_index: keys.position(|key| key == UNINITIALIZED_TAINT)?,
        })
    });
    Ok(tainted.collect())
}

async fn initialise(client: &Client, node: Tainted, number: usize, writes: Writes) -> Result<()> {
    let Tainted { name, uid, .. } = &node;
    let what = format!("node {name}");
    let path = format!("/api/v1/nodes/{name}");
    wire::patch(client, &path, &metadata_and_spec(&node), &what).await?;

    let status = json!({"status": {"addresses": addresses(name, number)}});
    wire::patch(client, &format!("{path}/status"), &status, &what).await?;

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
    let Tainted { name, uid, .. } = &node;
    let path = format!("/api/v1/nodes/{name}");
    let first = Ipv4Addr::from(0x0a00_0000 | (number as u32) << 8);
    let cidr = format!("{first}/24");
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/spec/podCIDRs", "value": null},
        {"op": "add", "path": "/spec/podCIDR", "value": cidr},
        {"op": "add", "path": "/spec/podCIDRs", "value": [cidr]},
    ]);
    wire::patch(client, &path, &patch, &format!("node {name}")).await
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
    wire::patch(client, &path, &patch, &format!("node {name}")).await
}

fn metadata_and_spec(node: &Tainted) -> Value {
    let taint = format!("/spec/taints/{}", node.taint_index);
    let mut patch = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": node.uid}),
        json!({"op": "test", "path": format!("{taint}/key"), "value": UNINITIALIZED_TAINT}),
        json!({"op": "remove", "path": taint}),
        json!({"op": "add", "path": "/spec/providerID", "value": format!("floor://{}", node.name)}),
    ];
    for (key, value) in [
        ("beta.kubernetes.io~1instance-type", "m1.large"),
        ("node.kubernetes.io~1instance-type", "m1.large"),
        ("failure-domain.beta.kubernetes.io~1zone", "r1-a"),
        ("topology.kubernetes.io~1zone", "r1-a"),
        ("failure-domain.beta.kubernetes.io~1region", "r1"),
        ("topology.kubernetes.io~1region", "r1"),
    ] {
        let label = format!("/metadata/labels/{key}");
        patch.push(json!({"op": "add", "path": label, "value": value}));
    }
    Value::Array(patch)
}

fn addresses(name: &str, number: usize) -> Value {
    let host = number as u32;
    json!([
        {"type": "InternalIP", "address": Ipv4Addr::from(0x0a00_0000 | host).to_string()},
        {"type": "ExternalIP", "address": Ipv4Addr::from(0xc612_0000 | host).to_string()},
        {"type": "Hostname", "address": name},
        {"$patch": "replace"},
    ])
}
