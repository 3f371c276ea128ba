//! Nodes, instances and Services for tests.

use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

use crate::{
    node::{
        ANNOTATION_PROVIDED_NODE_IP, NodeAddress, NodeView, TAINT_UNINITIALIZED, Taint,
        instance::Instance, labels, plan::NodePlan,
    },
    string_map::StringMap,
};

mod routes;
mod services;

pub(crate) use routes::{cidr, ranges, raw_route, route, routed};
pub(crate) use services::{any_service, capability, full_service, load_balancer};

/// A node as a kubelet with `--cloud-provider=external` registers it.
pub(crate) fn registered(name: &str) -> NodeView {
    let node = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7"},
        "spec": {"taints": [
            {"key": TAINT_UNINITIALIZED, "value": "true", "effect": "NoSchedule"},
        ]},
        "status": {"addresses": [
            {"type": "InternalIP", "address": "10.0.0.5"},
            {"type": "Hostname", "address": name},
        ]},
    });
    serde_json::from_value(node).unwrap()
}

pub(crate) fn map(entries: &[(&str, &str)]) -> StringMap {
    entries.iter().copied().collect()
}

/// `Type=address` words.
pub(crate) fn addresses(words: &str) -> Box<[NodeAddress]> {
    let words = words.split_whitespace();
    words
        .map(|word| {
            let (kind, address) = word.split_once('=').unwrap();
            NodeAddress {
                kind: kind.into(),
                address: address.into(),
            }
        })
        .collect()
}

/// `key:effect` words.
pub(crate) fn taints(words: &str) -> Box<[Taint]> {
    let words = words.split_whitespace();
    words
        .map(|word| {
            let (key, effect) = word.split_once(':').unwrap();
            let (key, value) = key.split_once('=').unwrap_or((key, ""));
            let key = match key {
                "cloud" => TAINT_UNINITIALIZED,
                other => other,
            };
            Taint::new(key, value, effect)
        })
        .collect()
}

pub(crate) fn with_provided_ip(node: NodeView, value: &str) -> NodeView {
    NodeView {
        annotations: node
            .annotations
            .with([(ANNOTATION_PROVIDED_NODE_IP, value)]),
        ..node
    }
}

/// `node` as the API server has it once a plan is written.
pub(crate) fn written(node: &NodeView, plan: &NodePlan) -> NodeView {
    let change = plan.change.as_ref();
    let node = change.map_or_else(|| node.clone(), |change| change.applied_to(node, "8"));
    match &plan.addresses {
        Some(addresses) => node.with_addresses(addresses, "9"),
        None => node,
    }
}

/// A real node's JSON, 14 kB: images and `managedFields` are what most of it is.
pub(crate) fn full_node() -> Value {
    let image = |n: usize| {
        let digest = format!("{n:02x}").repeat(32);
        json!({
            "names": [
                format!("registry.example.com/team-{n}/service-{n}@sha256:{digest}"),
                format!("registry.example.com/team-{n}/service-{n}:v1.{n}.0"),
            ],
            "sizeBytes": 40_000_000 + n,
        })
    };
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": format!("kubelet has something to say about {kind} in a sentence"),
            "lastHeartbeatTime": "2026-11-21T10:05:00Z",
            "lastTransitionTime": "2026-11-21T10:01:02Z",
        })
    };
    let labels = json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/instance-type": "m5.large",
        "failure-domain.beta.kubernetes.io/region": "eu-west-1",
        "failure-domain.beta.kubernetes.io/zone": "eu-west-1a",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "ip-10-0-0-5.eu-west-1.compute.internal",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m5.large",
        "node-role.kubernetes.io/worker": "",
        "topology.kubernetes.io/region": "eu-west-1",
        "topology.kubernetes.io/zone": "eu-west-1a",
    });
    let fields = |object: &Value| {
        let keys = object.as_object().unwrap().keys();
        let fields: serde_json::Map<_, _> = keys.map(|k| (format!("f:{k}"), json!({}))).collect();
        Value::Object(fields)
    };
    let managed = |manager: &str, rest: Value| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1",
            "time": "2026-11-21T10:05:00Z", "fieldsType": "FieldsV1", "fieldsV1": rest,
        })
    };
    let condition_fields: serde_json::Map<_, _> =
        ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
            .iter()
            .map(|kind| {
                let touched = json!({
                    ".": {}, "f:type": {}, "f:status": {}, "f:reason": {}, "f:message": {},
                    "f:lastHeartbeatTime": {}, "f:lastTransitionTime": {},
                });
                (format!("k:{{\"type\":\"{kind}\"}}"), touched)
            })
            .collect();
    let mut managed_fields = vec![
        managed(
            "kubelet",
            json!({"f:metadata": {"f:labels": fields(&labels)}}),
        ),
        managed(
            "kubelet",
            json!({"f:status": {"f:conditions": condition_fields}}),
        ),
    ];
    for manager in [
        "kube-controller-manager",
        "cloud-controller-manager",
        "kubectl-label",
    ] {
        managed_fields.push(managed(
            manager,
            json!({
                "f:metadata": {"f:labels": fields(&labels)},
                "f:spec": {"f:podCIDRs": {".": {}, "v:\"10.1.4.0/24\"": {}}, "f:taints": {}},
            }),
        ));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "ip-10-0-0-5.eu-west-1.compute.internal",
            "uid": "2f3f9a0e-6f62-4b1e-9d2b-0f4a6c1f7d11",
            "resourceVersion": "123456",
            "creationTimestamp": "2026-11-21T10:00:00Z",
            "labels": labels,
            "annotations": {
                "alpha.kubernetes.io/provided-node-ip": "10.0.0.5",
                "csi.volume.kubernetes.io/nodeid": "{\"disk.csi.example.com\":\"i-0123456789abcdef0\"}",
                "kubectl.kubernetes.io/last-applied-configuration": "{}".repeat(500),
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "managedFields": managed_fields,
        },
        "spec": {
            "podCIDR": "10.1.4.0/24",
            "podCIDRs": ["10.1.4.0/24", "fd00:1:4::/64"],
            "providerID": "example:///eu-west-1a/i-0123456789abcdef0",
            "taints": [
                {"key": TAINT_UNINITIALIZED, "value": "true", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute",
                 "timeAdded": "2026-11-21T10:00:01Z"},
            ],
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "10.0.0.5"},
                {"type": "Hostname", "address": "ip-10-0-0-5.eu-west-1.compute.internal"},
            ],
            "allocatable": {"cpu": "1930m", "memory": "7220184Ki", "pods": "29"},
            "capacity": {"cpu": "2", "memory": "7910360Ki", "pods": "29"},
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": (0..30).map(image).collect::<Vec<_>>(),
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "0a1b2c3d-0000-4000-8000-000000000000",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.41",
                "kubeletVersion": "v1.36.3",
                "machineID": "ec2a1b2c3d4e5f60718293a4b5c6d7e8",
                "operatingSystem": "linux",
                "osImage": "Debian GNU/Linux 13 (trixie)",
                "systemUUID": "ec2a1b2c-3d4e-5f60-7182-93a4b5c6d7e8",
            },
        },
    })
}

/// Label keys that meet every rule of initialisation.
fn label_key() -> impl Strategy<Value = &'static str> {
    select(vec![
        labels::ZONE,
        labels::ZONE_BETA,
        labels::REGION,
        labels::REGION_BETA,
        labels::INSTANCE_TYPE,
        labels::INSTANCE_TYPE_BETA,
        "kubernetes.io/hostname",
        "node.k8s.io/rack",
        "mykubernetes.io/rack",
        "rack",
        "example.com/rack",
        "example.com/row",
    ])
}

fn labels() -> impl Strategy<Value = StringMap> {
    vec((label_key(), select(vec!["", "a", "b"])), 0..6)
        .prop_map(|entries| entries.into_iter().collect())
}

fn address_list() -> impl Strategy<Value = Box<[NodeAddress]>> {
    let word = select(vec![
        "InternalIP=10.0.0.5",
        "InternalIP=10.0.0.55",
        "InternalIP=fd00::5",
        "ExternalIP=198.51.100.7",
        "ExternalIP=10.0.0.55",
        "Hostname=n6",
        "Hostname=other",
        "InternalDNS=n6.internal",
    ]);
    vec(word, 0..6).prop_map(|words| addresses(&words.join(" ")))
}

fn taint_list() -> impl Strategy<Value = Box<[Taint]>> {
    let word = select(vec![
        "cloud:NoSchedule",
        "cloud:NoExecute",
        "node.kubernetes.io/not-ready:NoSchedule",
        "node.kubernetes.io/not-ready:NoExecute",
        "dedicated:PreferNoSchedule",
    ]);
    vec(word, 0..5).prop_map(|words| taints(&words.join(" ")))
}

fn id() -> impl Strategy<Value = &'static str> {
    select(vec!["", "mock://a", "mock://b"])
}

prop_compose! {
    pub(crate) fn any_node()(
        labels in labels(),
        taints in taint_list(),
        addresses in address_list(),
        provider_id in id(),
        provided in option::weighted(0.3, select(vec!["10.0.0.55", "10.0.0.5,fd00::5", "nonsense"])),
    ) -> NodeView {
        let node = NodeView {
            labels,
            taints,
            addresses,
            provider_id: provider_id.into(),
            ..registered("n6")
        };
        match provided {
            Some(value) => with_provided_ip(node, value),
            None => node,
        }
    }
}

prop_compose! {
    pub(crate) fn any_instance()(
        additional_labels in labels(),
        addresses in address_list(),
        provider_id in id(),
        instance_type in select(vec!["", "large"]),
        zone in select(vec!["", "a", "b"]),
        region in select(vec!["", "a"]),
    ) -> Instance {
        Instance {
            provider_id: provider_id.into(),
            instance_type: instance_type.into(),
            addresses,
            zone: zone.into(),
            region: region.into(),
            additional_labels,
            ..Instance::default()
        }
    }
}

/// `json` once for each field of an object in it, at any depth, with that field set to null; and where
/// the field is.
pub(crate) fn with_each_field_null(json: &Value) -> Vec<(String, Value)> {
    match json {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| {
                let inner = with_each_field_null(value).into_iter();
                let inner = inner.map(move |(path, value)| (format!("/{name}{path}"), value));
                let itself = (format!("/{name}"), Value::Null);
                std::iter::once(itself).chain(inner).map(|(path, value)| {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), value);
                    (path, Value::Object(fields))
                })
            })
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .flat_map(|(at, item)| {
                with_each_field_null(item)
                    .into_iter()
                    .map(move |(path, item)| {
                        let mut items = items.clone();
                        items[at] = item;
                        (format!("/{at}{path}"), Value::Array(items))
                    })
            })
            .collect(),
        _ => Vec::new(),
    }
}
