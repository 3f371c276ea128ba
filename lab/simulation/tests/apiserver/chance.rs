//! Requests by chance.

use fastrand::Rng;
use serde_json::{Value, json};

use super::{
    side::{JSON_PATCH, MERGE, STRATEGIC, Step},
    table::{COLLECTIONS, L, N, S, V},
};

const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

pub(crate) struct Chance {
    rng: Rng,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
        }
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())].clone()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    pub(crate) fn step(&mut self) -> Step {
        let collection = self.pick(&COLLECTIONS);
        let name = self.pick(&["a", "b", "a-b"]);
        let path = format!("{collection}/{name}");
        let status = if matches!(collection, L) {
            String::new()
        } else {
            format!("{path}/status")
        };
        let step = match self.rng.u32(..100) {
            0..20 => Step::post(collection, &self.object(collection, name, false)),
            20..30 if collection == L => Step::put(path, &self.object(collection, name, true)),
            20..45 => {
                let patch = self.merge(collection);
                Step::patch(path, MERGE, &patch)
            }
            45..60 => {
                let (is_status, patch) = self.json_patch(collection);
                Step::patch(if is_status { status } else { path }, JSON_PATCH, &patch)
            }
            60..78 => {
                let (is_status, patch) = self.strategic(collection);
                Step::patch(if is_status { status } else { path }, STRATEGIC, &patch)
            }
            78..84 => Step::delete(path),
            84..92 => {
                let preconditions = self.pick(&[
                    json!({"uid": "{uid}", "resourceVersion": "{version}"}),
                    json!({"uid": "{uid}", "resourceVersion": "{old}"}),
                    json!({"uid": "fixed"}),
                    json!({"resourceVersion": "{version}"}),
                ]);
                Step::delete_if(path, &preconditions)
            }
            92..96 => Step::get(path),
            _ => Step::get(format!("{collection}?limit={}", self.rng.u32(0..3))),
        };
        if self.chance(20) && !step.path.contains('?') {
            step.partial()
        } else {
            step
        }
    }

    /// Deletes everything.
    pub(crate) fn end() -> Vec<Step> {
        let mut steps = Vec::new();
        for collection in COLLECTIONS {
            for name in ["a", "b", "a-b"] {
                let path = format!("{collection}/{name}");
                steps.push(Step::patch(
                    path.as_str(),
                    MERGE,
                    &json!({"metadata": {"finalizers": null}}),
                ));
                steps.push(Step::delete(path));
            }
        }
        steps
    }

    fn metadata(&mut self, name: &str, is_update: bool) -> Value {
        let mut metadata = json!({"name": name});
        if self.chance(40) {
            metadata["labels"] = self.pick(&[
                json!({}),
                json!({"x": "y"}),
                json!({"x": "", "a.b/c": "d"}),
                json!({"x": "no no"}),
            ]);
        }
        if self.chance(30) {
            metadata["annotations"] = self.pick(&[json!({"x": "any text"}), json!({"x": ""})]);
        }
        if self.chance(30) {
            metadata["finalizers"] =
                self.pick(&[json!([]), json!([FINALIZER]), json!(["a.b/c", FINALIZER])]);
        }
        if is_update {
            if self.chance(70) {
                metadata["resourceVersion"] =
                    self.pick(&[json!("{version}"), json!("{version}"), json!("{old}")]);
            }
            if self.chance(50) {
                metadata["uid"] = json!(self.pick(&["{uid}", "{uid}", "fixed"]));
            }
        }
        metadata
    }

    fn object(&mut self, collection: &str, name: &str, is_update: bool) -> Value {
        let metadata = self.metadata(name, is_update);
        match collection {
            N => json!({
                "metadata": metadata,
                "spec": self.pick(&[
                    json!({}),
                    json!({"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]}),
                    json!({"providerID": "x://1", "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}),
                    json!({"podCIDRs": ["10.2.0.0/24", "fd00::/64"], "taints": []}),
                ]),
                "status": {
                    "conditions": self.pick(&[
                        json!([]),
                        json!([{"type": "Ready", "status": "True", "reason": "R", "lastHeartbeatTime": "2026-01-02T00:00:00Z"}]),
                        json!([{"type": "Ready", "status": "False"}, {"type": "NetworkUnavailable", "status": "True"}]),
                    ]),
                    "addresses": self.pick(&[
                        json!(null),
                        json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}]),
                    ]),
                },
            }),
            S => json!({
                "metadata": metadata,
                "spec": self.service_spec(),
                "status": self.pick(&[json!({}), json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}})]),
            }),
            V => {
                let mut spec = json!({
                    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "csi": {"driver": "d", "volumeHandle": "h"},
                });
                if self.chance(30) {
                    spec["nodeAffinity"] = self.affinity();
                }
                json!({"metadata": metadata, "spec": spec})
            }
            _ => json!({
                "metadata": metadata,
                "spec": self.pick(&[
                    json!({}),
                    json!({"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 0}),
                    json!({
                        "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 2,
                        "acquireTime": "2026-01-02T00:00:00.000000Z", "renewTime": "2026-01-02T00:00:00.500000Z",
                    }),
                    json!({"leaseDurationSeconds": 0, "leaseTransitions": -1}),
                ]),
            }),
        }
    }

    fn service_spec(&mut self) -> Value {
        let mut spec = json!({
            "type": self.pick(&["LoadBalancer", "LoadBalancer", "ClusterIP"]),
            "ports": self.ports(),
        });
        if self.chance(30) {
            spec["externalTrafficPolicy"] = json!(self.pick(&["Local", "Cluster"]));
        }
        if self.chance(30) {
            spec["selector"] = json!({"a": "b"});
        }
        if self.chance(10) {
            spec["allocateLoadBalancerNodePorts"] = json!(false);
        }
        if self.chance(10) {
            spec["loadBalancerSourceRanges"] = json!(["10.0.0.0/8"]);
        }
        spec
    }

    fn ports(&mut self) -> Value {
        self.pick(&[
            json!([{"port": 80}]),
            json!([{"port": 80, "name": "http"}]),
            json!([{"port": 81, "protocol": "UDP", "targetPort": "dns"}]),
            json!([{"port": 80, "name": "http"}, {"port": 443, "name": "https", "targetPort": 8443}]),
            json!([{"port": 80, "name": "http"}, {"port": 80, "name": "again"}]),
            json!([]),
        ])
    }

    fn affinity(&mut self) -> Value {
        let zone = self.pick(&["a", "b"]);
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": [zone]}]}]}})
    }

    /// A change by a user.
    fn merge(&mut self, collection: &str) -> Value {
        if self.chance(30) {
            return json!({"metadata": self.pick(&[
                json!({"labels": {"x": "z"}}),
                json!({"labels": {"x": null}}),
                json!({"annotations": {"x": "more"}}),
                json!({"finalizers": null}),
                json!({"finalizers": [FINALIZER]}),
                json!({"finalizers": ["d.e/f", FINALIZER]}),
                json!({"deletionTimestamp": null, "creationTimestamp": null, "generation": 7}),
            ])});
        }
        match collection {
            N => json!({"spec": self.pick(&[
                json!({"unschedulable": true}),
                json!({"unschedulable": false}),
                json!({"taints": null}),
                json!({"podCIDRs": ["10.3.0.0/24"]}),
                json!({"providerID": "x://2"}),
            ])}),
            S => {
                let spec = match self.rng.u32(..6) {
                    0 => json!({"type": "LoadBalancer"}),
                    1 => json!({"type": "ClusterIP"}),
                    2 => json!({"ports": self.ports()}),
                    3 => json!({"externalTrafficPolicy": "Local"}),
                    4 => json!({"externalTrafficPolicy": "Cluster"}),
                    _ => json!({"selector": {"a": "c"}, "allocateLoadBalancerNodePorts": null}),
                };
                json!({"spec": spec})
            }
            V => json!({"spec": {"nodeAffinity": self.affinity()}}),
            _ => {
                json!({"metadata": {"resourceVersion": "{version}"}, "spec": {"holderIdentity": "b"}})
            }
        }
    }

    /// True: of the status.
    fn json_patch(&mut self, collection: &str) -> (bool, Value) {
        let test = |path: &str, value: Value| json!({"op": "test", "path": path, "value": value});
        let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
        let uid = test("/metadata/uid", json!("{uid}"));
        if collection == N {
            let taint = json!({"key": self.pick(&["k", "l"]), "effect": "NoSchedule"});
            return self.pick(&[
                (false, json!([uid, test("/spec/providerID", json!(null)), add("/spec/providerID", json!("x://1"))])),
                (false, json!([uid, test("/spec/taints/0/key", json!("node.cloudprovider.kubernetes.io/uninitialized")), {"op": "remove", "path": "/spec/taints/0"}])),
                (false, json!([uid, add("/spec/taints/-", taint.clone())])),
                (false, json!([uid, test("/spec/taints", json!(null)), add("/spec/taints", json!([])), add("/spec/taints/-", taint)])),
                (false, json!([test("/spec/podCIDRs", json!(null)), add("/spec/podCIDR", json!("10.4.0.0/24")), add("/spec/podCIDRs", json!(["10.4.0.0/24"]))])),
                (false, json!([test("/spec/taints/7", json!(null)), add("/metadata/labels/q", json!("r"))])),
                (true, json!([uid, test("/status/addresses", json!(null)), add("/status/addresses", json!([{"type": "InternalIP", "address": "10.0.0.2"}]))])),
                (true, json!([add("/status/addresses", json!([{"type": "InternalIP", "address": "10.0.0.3"}, {"type": "InternalIP", "address": "10.0.0.3"}]))])),
            ]);
        }
        let labels = json!([
            uid,
            test("/metadata/labels", json!(null)),
            add("/metadata/labels", json!({})),
            add("/metadata/labels/topology.kubernetes.io~1zone", json!("a")),
        ]);
        let patch = self.pick(&[
            labels,
            json!([
                test("/metadata/labels/x", json!("y")),
                add("/metadata/labels/x", json!("z"))
            ]),
            json!([{"op": "remove", "path": "/metadata/labels/x"}]),
            json!([{"op": "add", "path": "/metadata/annotations", "value": {"r": "s"}}]),
            json!([add("/metadata/nothing/here", json!(1))]),
            json!([]),
        ]);
        (false, patch)
    }

    /// A write as the controller makes it. True: to the status.
    fn strategic(&mut self, collection: &str) -> (bool, Value) {
        let uid = self.pick(&["{uid}", "{uid}", "{uid}", "fixed"]);
        let at = self.pick(&["2026-01-02T00:00:00Z", "2026-01-02T00:00:01Z"]);
        match collection {
            N => {
                let version = self.pick(&["{version}", "{version}", "{old}"]);
                let condition = json!({
                    "type": "NetworkUnavailable", "status": self.pick(&["True", "False"]), "reason": "RouteCreated",
                    "message": "m", "lastHeartbeatTime": at, "lastTransitionTime": at,
                });
                let patch = self.pick(&[
                    json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}}),
                    json!({"metadata": {"uid": uid, "annotations": {"e": "f", "x": null}}, "status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}),
                    json!({"status": {"addresses": [{"type": "ExternalIP", "address": "1.1.1.1"}, {"type": "InternalIP", "address": "10.0.0.9"}]}}),
                    json!({"metadata": {"uid": uid, "resourceVersion": version}, "status": {"addresses": [
                        {"type": "InternalIP", "address": "10.0.0.9"}, {"type": "InternalIP", "address": "fd00::9"}, {"$patch": "replace"},
                    ]}}),
                    json!({"metadata": {"uid": uid, "resourceVersion": version, "labels": {"e": "f"}}, "spec": {"taints": null}}),
                    json!({"metadata": {"uid": uid, "resourceVersion": version}, "spec": {"taints": [{"key": "k", "value": "", "effect": "NoSchedule"}]}}),
                ]);
                (patch["spec"].is_null(), patch)
            }
            S => {
                let mut metadata = json!({"uid": uid});
                let mut status = json!({});
                match self.rng.u32(..5) {
                    0 => metadata["finalizers"] = json!([FINALIZER]),
                    1 => {
                        metadata["finalizers"] = json!([FINALIZER]);
                        metadata["$setElementOrder/finalizers"] = json!(["a.b/c", FINALIZER]);
                    }
                    2 => metadata["$deleteFromPrimitiveList/finalizers"] = json!([FINALIZER]),
                    _ => {}
                }
                if self.chance(30) {
                    metadata["resourceVersion"] = json!(self.pick(&["{version}", "{old}"]));
                }
                if self.chance(50) {
                    metadata["annotations"] =
                        self.pick(&[json!({"e": "f"}), json!({"e": null, "g": "h"})]);
                }
                if self.chance(50) {
                    status["loadBalancer"] = self.pick(&[
                        json!({"ingress": null}),
                        json!({"ingress": [{"ip": "1.2.3.4", "ports": [{"port": 80, "protocol": "TCP"}]}]}),
                        json!({"ingress": [{"hostname": "a.b"}, {"ip": "::1", "ipMode": "Proxy"}]}),
                        json!({"ingress": [{"ip": "none"}]}),
                    ]);
                }
                if self.chance(60) {
                    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": at});
                    let order = |kinds: &[&str]| {
                        kinds
                            .iter()
                            .map(|kind| json!({"type": kind}))
                            .collect::<Value>()
                    };
                    let (conditions, order) = self.pick(&[
                        (json!([condition("A", "True")]), None),
                        (
                            json!([condition("B", "False"), condition("A", "True")]),
                            None,
                        ),
                        (
                            json!([condition("B", "False"), condition("C", "True")]),
                            Some(order(&["A", "B", "C"])),
                        ),
                        (json!([condition("C", "False")]), Some(order(&["C", "A"]))),
                        (
                            json!([{"type": "A", "$patch": "delete"}, condition("B", "True")]),
                            Some(order(&["B"])),
                        ),
                        (
                            json!([{"type": "B", "$patch": "delete"}]),
                            Some(order(&["A"])),
                        ),
                    ]);
                    status["conditions"] = conditions;
                    if let Some(order) = order {
                        status["$setElementOrder/conditions"] = order;
                    }
                }
                (true, json!({"metadata": metadata, "status": status}))
            }
            _ => {
                let patch = self.pick(&[
                    json!({"metadata": {"uid": uid, "labels": {"s": "t"}}}),
                    json!({"metadata": {"uid": uid, "finalizers": ["a.b/c"]}}),
                    json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c", "none.at/all"]}}),
                ]);
                (false, patch)
            }
        }
    }
}
