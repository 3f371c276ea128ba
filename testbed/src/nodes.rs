//! Nodes as a kubelet with `--cloud-provider=external` registers them, without machines.
//!
//! Tests, measurements and the demo describe a [`Machine`] and [register](register()) it; the controller under test does
//! the rest. The objects have the size and the fields of real ones. Nothing sends heartbeats.
//!
//! ```
//! use outrigger_testbed::nodes::{Machine, Readiness, is_tainted};
//!
//! let machine = Machine::new("node-1")
//!     .provided_ip("10.0.0.5".parse()?)
//!     .readiness(Readiness::NotReady)
//!     .label("topology.example.com/rack", "r1");
//! let node = machine.node("2026-01-01T00:00:00Z".parse()?);
//! assert!(is_tainted(&node));
//! assert_eq!(node.spec.and_then(|spec| spec.provider_id), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod images;
mod load;

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeFeatures,
        NodeRuntimeHandler, NodeRuntimeHandlerFeatures, NodeSpec, NodeStatus, NodeSystemInfo,
        Taint,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
};
use kube::{Client, api::ObjectMeta};
use serde_json::json;

pub use self::load::list;
pub use self::load::{Load, delete_all, names, register_all};
use crate::{Result, wire};

/// The taint that keeps Pods off a node until a cloud controller has initialised it.
pub const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The annotation with the addresses that a kubelet was started with (`--node-ip`).
pub const PROVIDED_IP_ANNOTATION: &str = "alpha.kubernetes.io/provided-node-ip";

/// The state of a node's Ready condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// Status True, as a healthy kubelet reports.
    Ready,
    /// Status False, as a kubelet reports whose network is not set up.
    NotReady,
    /// Status Unknown, as the control plane sets when a kubelet has fallen silent.
    Unknown,
}

/// A node to register. Made with [`Machine::new`] and refined with the other methods.
///
/// By default it is Ready, carries the uninitialized taint, has no provider ID and, since
/// no address was provided, has its host name as only address.
#[derive(Debug, Clone)]
pub struct Machine {
    name: String,
    provided_ips: Vec<IpAddr>,
    readiness: Readiness,
    provider_id: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    taints: Vec<Taint>,
    initialized: bool,
}

impl Machine {
    /// A machine whose node and host name is `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            provided_ips: Vec::new(),
            readiness: Readiness::Ready,
            provider_id: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            initialized: false,
        }
    }

    /// `count` machines named `<prefix>00000`, `<prefix>00001` and so on.
    pub fn numbered(prefix: &str, count: usize) -> impl ExactSizeIterator<Item = Self> {
        (0..count).map(move |number| Self::new(format!("{prefix}{number:05}")))
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds an address of the kubelet's `--node-ip`: it is annotated and reported.
    #[must_use]
    pub fn provided_ip(mut self, ip: IpAddr) -> Self {
        self.provided_ips.push(ip);
        self
    }

    /// Registers with another state of the Ready condition.
    #[must_use]
    pub fn readiness(mut self, readiness: Readiness) -> Self {
        self.readiness = readiness;
        self
    }

    /// Registers with a provider ID, as a kubelet with `--provider-id` does.
    #[must_use]
    pub fn provider_id(mut self, id: impl Into<String>) -> Self {
        self.provider_id = Some(id.into());
        self
    }

    /// Adds a label, or replaces one that kubelet sets.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Adds a taint. It stands before the uninitialized one, as with a kubelet's
    /// `--register-with-taints`.
    #[must_use]
    pub fn taint(mut self, key: &str, value: Option<&str>, effect: &str) -> Self {
        self.taints.push(Taint {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            effect: effect.to_owned(),
            time_added: None,
        });
        self
    }

    /// Leaves the uninitialized taint out, as a kubelet without external provider does.
    #[must_use]
    pub fn initialized(mut self) -> Self {
        self.initialized = true;
        self
    }

    /// The object that the kubelet sends. `now` is the time of its conditions.
    pub fn node(&self, now: Timestamp) -> Node {
        let mut labels = BTreeMap::from(
            [
                ("beta.kubernetes.io/arch", "amd64"),
                ("beta.kubernetes.io/os", "linux"),
                ("kubernetes.io/arch", "amd64"),
                ("kubernetes.io/hostname", self.name.as_str()),
                ("kubernetes.io/os", "linux"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        labels.extend(self.labels.clone());
        let mut annotations = self.annotations.clone();
        annotations.insert(
            "volumes.kubernetes.io/controller-managed-attach-detach".to_owned(),
            "true".to_owned(),
        );
        if !self.provided_ips.is_empty() {
            let ips: Vec<_> = self.provided_ips.iter().map(ToString::to_string).collect();
            annotations.insert(PROVIDED_IP_ANNOTATION.to_owned(), ips.join(","));
        }
        let mut machine = self.clone();
        if !self.initialized {
            machine = machine.taint(UNINITIALIZED_TAINT, Some("true"), "NoSchedule");
        }
        Node {
            metadata: ObjectMeta {
                name: Some(machine.name.clone()),
                labels: Some(labels),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                provider_id: machine.provider_id.clone(),
                taints: (!machine.taints.is_empty()).then(|| machine.taints.clone()),
                ..NodeSpec::default()
            }),
            status: Some(self.status(now)),
        }
    }

    fn status(&self, now: Timestamp) -> NodeStatus {
        let internal = self
            .provided_ips
            .iter()
            .map(|ip| ("InternalIP", ip.to_string()));
        let addresses = internal.chain([("Hostname", self.name.clone())]);
        NodeStatus {
            addresses: Some(
                addresses
                    .map(|(type_, address)| NodeAddress {
                        type_: type_.to_owned(),
                        address,
                    })
                    .collect(),
            ),
            capacity: Some(resources("8", "32869776Ki")),
            allocatable: Some(resources("7910m", "30155664Ki")),
            conditions: Some(conditions(self.readiness, now)),
            daemon_endpoints: Some(NodeDaemonEndpoints {
                kubelet_endpoint: Some(DaemonEndpoint { port: 10250 }),
            }),
            images: Some(images::images()),
            node_info: Some(self.system_info()),
            runtime_handlers: Some(["", "runc"].map(runtime_handler).into()),
            features: Some(NodeFeatures {
                supplemental_groups_policy: Some(true),
            }),
            ..NodeStatus::default()
        }
    }

    fn system_info(&self) -> NodeSystemInfo {
        // Follows from the name, so that a node that registers again is the same machine.
        let mut ids = fastrand::Rng::with_seed(seed(&self.name));
        NodeSystemInfo {
            architecture: "amd64".to_owned(),
            boot_id: uuid(&mut ids),
            container_runtime_version: "containerd://2.1.4".to_owned(),
            kernel_version: "6.12.41+deb13-cloud-amd64".to_owned(),
            kube_proxy_version: String::new(),
            kubelet_version: "v1.36.3".to_owned(),
            machine_id: uuid(&mut ids).replace('-', ""),
            operating_system: "linux".to_owned(),
            os_image: "Debian GNU/Linux 13 (trixie)".to_owned(),
            swap: None,
            system_uuid: uuid(&mut ids),
        }
    }
}

/// Registers one node and returns what the API server made of it.
pub async fn register(client: &Client, machine: &Machine) -> Result<Node> {
    let node = machine.node(Timestamp::now());
    let answer = wire::post(client, load::NODES, &node, &node_named(&machine.name)).await?;
    wire::parse(&answer, &node_named(&machine.name))
}

/// Sets a node's Ready condition, which it has had since `since`.
///
/// `Unknown` is written as the control plane's node monitor does, the others as kubelet.
pub async fn set_readiness(
    client: &Client,
    name: &str,
    readiness: Readiness,
    since: Timestamp,
) -> Result<()> {
    let manager = match readiness {
        Readiness::Unknown => "kube-controller-manager",
        Readiness::Ready | Readiness::NotReady => "kubelet",
    };
    let status = json!({"status": {"conditions": [ready(readiness, since)]}});
    let path = format!("/api/v1/nodes/{name}/status?fieldManager={manager}");
    wire::patch(client, &path, &status, &node_named(name)).await?;
    Ok(())
}

/// Returns whether a node still waits for a cloud controller.
pub fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == UNINITIALIZED_TAINT))
}

fn node_named(name: &str) -> String {
    format!("node {name}")
}

fn resources(cpu: &str, memory: &str) -> BTreeMap<String, Quantity> {
    let all = [
        ("cpu", cpu),
        ("ephemeral-storage", "101430960Ki"),
        ("hugepages-1Gi", "0"),
        ("hugepages-2Mi", "0"),
        ("memory", memory),
        ("pods", "110"),
    ];
    all.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
        .into()
}

fn runtime_handler(name: &str) -> NodeRuntimeHandler {
    NodeRuntimeHandler {
        name: Some(name.to_owned()),
        features: Some(NodeRuntimeHandlerFeatures {
            recursive_read_only_mounts: Some(true),
            user_namespaces: Some(true),
        }),
    }
}

fn conditions(readiness: Readiness, now: Timestamp) -> Vec<NodeCondition> {
    [
        (
            "MemoryPressure",
            "KubeletHasSufficientMemory",
            "sufficient memory available",
        ),
        (
            "DiskPressure",
            "KubeletHasNoDiskPressure",
            "no disk pressure",
        ),
        (
            "PIDPressure",
            "KubeletHasSufficientPID",
            "sufficient PID available",
        ),
    ]
    .into_iter()
    .map(|(type_, reason, has)| {
        condition(type_, "False", reason, &format!("kubelet has {has}"), now)
    })
    .chain([ready(readiness, now)])
    .collect()
}

fn ready(readiness: Readiness, since: Timestamp) -> NodeCondition {
    let (status, reason, message) = match readiness {
        Readiness::Ready => ("True", "KubeletReady", "kubelet is posting ready status"),
        Readiness::NotReady => (
            "False",
            "KubeletNotReady",
            "container runtime network not ready: NetworkReady=false \
             reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not \
             initialized",
        ),
        Readiness::Unknown => (
            "Unknown",
            "NodeStatusUnknown",
            "Kubelet stopped posting node status.",
        ),
    };
    condition("Ready", status, reason, message, since)
}

fn condition(
    type_: &str,
    status: &str,
    reason: &str,
    message: &str,
    time: Timestamp,
) -> NodeCondition {
    NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(Time(time)),
        last_transition_time: Some(Time(time)),
    }
}

/// FNV-1a.
fn seed(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn uuid(random: &mut fastrand::Rng) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        random.u32(..),
        random.u16(..),
        random.u16(..0x1000),
        random.u16(..0x1000),
        random.u64(..1 << 48),
    )
}
