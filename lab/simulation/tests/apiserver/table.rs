//! Requests of which each has a reason.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::Method;
use serde_json::{Value, json};

use super::side::{JSON, JSON_PATCH, MERGE, STRATEGIC, Step};

pub(crate) const N: &str = "/api/v1/nodes";
pub(crate) const S: &str = "/api/v1/namespaces/diff/services";
pub(crate) const L: &str = "/apis/coordination.k8s.io/v1/namespaces/diff/leases";
pub(crate) const V: &str = "/api/v1/persistentvolumes";
const E: &str = "/api/v1/namespaces/diff/events";
const C: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A request of the kubelet of Node `n`, signed by the key that it is for.
const PKCS10: &str = "\
    -----BEGIN CERTIFICATE REQUEST-----\n\
    MIHUMIGHAgEAMC8xFTATBgNVBAoMDHN5c3RlbTpub2RlczEWMBQGA1UEAwwNc3lz\n\
    dGVtOm5vZGU6bjAqMAUGAytlcAMhAJlFlmNQIaWx+wWrX/bGBayemMbysacsqsRf\n\
    sO//18QNoCUwIwYJKoZIhvcNAQkOMRYwFDASBgNVHREECzAJggFuhwQKAAABMAUG\n\
    AytlcANBAIchtj5GDkkQ3zM56YdLFkbsDBWbMwTzZcbZlA1fgKvwPFsmUkL/ZNQt\n\
    3Zo8rGlz1FZGXiQOYJtQTCsBQ5FgHQk=\n\
    -----END CERTIFICATE REQUEST-----\n";

pub(crate) const COLLECTIONS: [&str; 4] = [N, V, S, L];

pub(crate) fn steps() -> Vec<Step> {
    let mut steps = paths();
    steps.extend(nodes());
    steps.extend(services());
    steps.extend(leases());
    steps.extend(events());
    steps.extend(volumes());
    steps.extend(certificates());
    steps
}

fn paths() -> Vec<Step> {
    let empty = json!({});
    vec![
        Step::get("/api/v1/nosuch"),
        Step::get("/api/v1/namespaces/diff/nosuch/x"),
        Step::get("/api/v1/namespaces/diff/nodes/x"),
        Step::get("/api/v1/nodes/x/scale"),
        Step::post(format!("{N}/x"), &empty),
        Step::post("/api/v1/services", &empty),
        Step::patch(N, MERGE, &empty),
        Step::get(format!("{N}/none")),
        Step::delete(format!("{N}/none")),
        Step::patch(format!("{N}/none"), JSON_PATCH, &json!([])),
        Step::put(format!("{L}/none"), &json!({"metadata": {"name": "other"}})),
        Step::get(format!("{L}/none")),
        Step::post(
            N,
            &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "n"}}),
        ),
        Step::post(N, &json!({"metadata": {}})),
        Step::post(
            N,
            &json!({"metadata": {"name": "n", "resourceVersion": "1"}}),
        ),
        Step::post(
            "/api/v1/namespaces/none/services",
            &json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
        ),
        Step::post(
            S,
            &json!({"metadata": {"name": "s", "namespace": "other"}, "spec": {"ports": [{"port": 80}]}}),
        ),
    ]
}

fn nodes() -> Vec<Step> {
    let n = || format!("{N}/n");
    let json = |patch: Value| Step::patch(n(), JSON_PATCH, &patch);
    let strategic = |patch: Value| Step::patch(format!("{N}/n/status"), STRATEGIC, &patch);
    let exact = |version: &str, spec: Value| {
        let patch = json!({
            "metadata": {"uid": "{uid}", "resourceVersion": version, "labels": {"exact": "1"}}, "spec": spec,
        });
        Step::patch(n(), STRATEGIC, &patch).partial()
    };
    vec![
        Step::post(N, &json!({
            "metadata": {"name": "n", "labels": {"a": ""}, "finalizers": []},
            "spec": {"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
        })),
        Step::post(N, &json!({"metadata": {"name": "n"}})),
        Step::get(N),
        Step::get(n()).partial(),
        json(json!([{"op": "test", "path": "/spec/providerID", "value": null}, {"op": "add", "path": "/spec/providerID", "value": "x://1"}])).partial(),
        json(json!([{"op": "test", "path": "/spec/providerID", "value": null}])),
        json(json!([{"op": "add", "path": "/spec/providerID", "value": "x://2"}])),
        // Nothing changes.
        json(json!([{"op": "add", "path": "/spec/providerID", "value": "x://1"}])),
        json(json!([])),
        json(json!([{"op": "remove", "path": "/spec/nope"}])),
        json(json!([{"op": "bad", "path": "/spec/nope"}])),
        json(json!([{"op": "add", "path": "/spec/taints/-", "value": {"key": "k", "effect": "NoSchedule"}}, {"op": "add", "path": "/spec/taints/-", "value": {"key": "k", "effect": "NoSchedule", "value": "b"}}])),
        json(json!([{"op": "add", "path": "/metadata/uid", "value": "fixed"}])),
        json(json!([{"op": "add", "path": "/metadata/labels/a~1b~1c", "value": "x"}])),
        json(json!([{"op": "add", "path": "/metadata/name", "value": "other"}])),
        strategic(json!({"metadata": {"uid": "fixed"}})),
        strategic(json!({"metadata": {"resourceVersion": "{old}"}})),
        strategic(json!({"metadata": {"resourceVersion": "1", "labels": {"z": "1"}}})),
        strategic(json!({"metadata": {"labels": {"z": "1"}}, "spec": {"unschedulable": true}})),
        strategic(json!({"status": {"conditions": [{"type": "X", "status": "True", "lastHeartbeatTime": "2026-01-02T00:00:00Z"}]}})),
        strategic(json!({"status": {"conditions": [{"type": "X", "status": "True", "lastHeartbeatTime": null}]}})),
        strategic(json!({"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}})),
        strategic(json!({"status": {"nodeInfo": {"kubeletVersion": "v1.36.3"}}})),
        // The writes of the controller under the version that it has read.
        exact("{old}", json!({"taints": null})),
        exact("{version}", json!({"taints": [{"key": "k", "value": "", "effect": "NoExecute", "timeAdded": "2026-01-02T00:00:00Z"}]})),
        exact("{version}", json!({"taints": null})),
        strategic(json!({"metadata": {"uid": "{uid}", "resourceVersion": "{version}"}, "status": {"addresses": [
            {"type": "InternalIP", "address": "10.0.0.2"}, {"type": "InternalIP", "address": "fd00::2"},
            {"type": "Hostname", "address": "n"}, {"$patch": "replace"},
        ]}})),
        strategic(json!({"status": {"addresses": [{"$patch": "replace"}, {"type": "Hostname", "address": "m"}]}})),
        strategic(json!({"status": {"addresses": [
            {"type": "A", "address": "1"}, {"type": "B", "address": "1"}, {"type": "A", "address": "2"}, {"type": "C", "address": "1"},
            {"type": "B", "address": "2"}, {"type": "A", "address": "3"}, {"$patch": "replace"},
        ]}})),
        json(json!([{"op": "test", "path": "/spec/podCIDRs", "value": null}, {"op": "add", "path": "/spec/podCIDR", "value": "10.1.0.0/24"}, {"op": "add", "path": "/spec/podCIDRs", "value": ["10.1.0.0/24", "fd00::/64"]}])),
        Step::patch(n(), MERGE, &json!({"spec": {"podCIDRs": ["10.2.0.0/24"], "podCIDR": "10.2.0.0/24"}})),
        Step::patch(n(), MERGE, &json!({"spec": {"podCIDR": null}})),
        Step::patch(n(), "text/plain", &json!({})),
        Step { body: "{".to_owned(), ..Step::patch(n(), MERGE, &json!({})) },
        Step::delete_if(n(), &json!({"uid": "fixed"})),
        Step::delete_if(n(), &json!({"resourceVersion": "{old}"})),
        Step::delete_if(n(), &json!({"resourceVersion": "{old}", "uid": "fixed"})),
        Step::patch(n(), MERGE, &json!({"metadata": {"finalizers": ["a.b/c"]}})),
        Step::delete_if(n(), &json!({"resourceVersion": "{version}", "uid": "{uid}"})),
        Step::delete(n()),
        Step::patch(n(), MERGE, &json!({"metadata": {"finalizers": ["a.b/c", "d.e/f"]}})),
        Step::patch(n(), MERGE, &json!({"metadata": {"finalizers": null, "labels": {"last": "x"}}})),
        Step::get(n()),
        Step::post(N, &json!({"metadata": {"name": "n"}})),
        Step::delete_if(n(), &json!({"resourceVersion": "{version}", "uid": "{uid}"})),
    ]
}

fn services() -> Vec<Step> {
    let make =
        |name: &str, spec: Value| Step::post(S, &json!({"metadata": {"name": name}, "spec": spec}));
    let edit = |spec: Value| Step::patch(format!("{S}/lb"), MERGE, &json!({"spec": spec}));
    let status = |patch: Value| Step::patch(format!("{S}/lb/status"), STRATEGIC, &patch);
    let meta =
        |metadata: Value| Step::patch(format!("{S}/lb"), MERGE, &json!({"metadata": metadata}));
    vec![
        make(
            "lb",
            json!({"type": "LoadBalancer", "selector": {"a": "b"}, "ports": [{"port": 80}], "externalTrafficPolicy": "Local"}),
        ),
        make(
            "ci",
            json!({"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b", "protocol": "UDP", "targetPort": "x"}]}),
        ),
        make(
            "un",
            json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]}),
        ),
        make("bad", json!({"type": "LoadBalancer"})),
        make("bad", json!({"ports": [{"port": 0}]})),
        Step::get(S),
        Step::patch(
            format!("{S}/ci/status"),
            STRATEGIC,
            &json!({"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
        ),
        status(json!({
            "metadata": {"finalizers": ["service.kubernetes.io/load-balancer-cleanup"], "annotations": {"a": "b"}, "labels": {"l": "m"}},
            "spec": {"ports": [{"port": 99}]},
            "status": {
                "loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ports": [{"port": 80, "protocol": "TCP"}]}, {"hostname": "a.b"}]},
                "conditions": [{"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-02T00:00:00Z"}],
            },
        })),
        status(
            json!({"status": {"conditions": [{"type": "B", "status": "True", "reason": "R", "lastTransitionTime": null}]}}),
        ),
        status(
            json!({"status": {"$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}], "conditions": [{"type": "B", "status": "False"}]}}),
        ),
        status(json!({"status": {"loadBalancer": {"ingress": [{"ip": "xx"}]}}})),
        status(json!({"status": {"loadBalancer": {"ingress": [{"hostname": "1.2.3.4"}]}}})),
        edit(json!({"type": "ClusterIP"})),
        edit(json!({"type": "ClusterIP", "externalTrafficPolicy": null})),
        edit(json!({"externalTrafficPolicy": "Local"})),
        edit(json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]})),
        edit(json!({"type": "LoadBalancer"})),
        edit(json!({"externalTrafficPolicy": "Local"})),
        edit(json!({"externalTrafficPolicy": "Cluster"})),
        edit(json!({"ports": [{"port": 80, "name": "a"}, {"port": 443, "name": "b"}]})),
        edit(json!({"ports": [{"port": 8080, "name": "a"}]})),
        meta(json!({"finalizers": ["a.b/c", "service.kubernetes.io/load-balancer-cleanup"]})),
        Step::delete(format!("{S}/lb")),
        Step::delete(format!("{S}/lb")),
        meta(json!({"finalizers": ["a.b/c", "d.e/f"]})),
        meta(json!({"finalizers": ["a.b/c"]})),
        meta(json!({"deletionTimestamp": null})),
        status(json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}})),
        Step::get(format!("{S}/lb")),
        Step::delete_if(format!("{S}/ci"), &json!({"uid": "fixed"})),
        Step::delete(format!("{S}/ci")),
        Step::delete(format!("{S}/un")),
    ]
}

fn leases() -> Vec<Step> {
    let lease = |metadata: Value, spec: Value| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec});
    let l = || format!("{L}/l");
    let held = json!({
        "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2026-01-02T00:00:00.000000Z", "renewTime": "2026-01-02T00:00:00.500000Z",
    });
    let named = |version: &str| json!({"name": "l", "namespace": "diff", "uid": "{uid}", "resourceVersion": version});
    vec![
        Step::post(L, &lease(json!({"name": "l"}), held.clone())),
        Step::post(L, &lease(json!({"name": "l"}), held.clone())),
        Step::put(
            l(),
            &lease(
                named("{version}"),
                json!({"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 1}),
            ),
        ),
        // Nothing changes.
        Step::put(
            l(),
            &lease(
                named("{version}"),
                json!({"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 1}),
            ),
        ),
        Step::put(l(), &lease(named("{old}"), held.clone())),
        Step::put(l(), &lease(named(""), held.clone())),
        Step::put(
            l(),
            &lease(
                named("{version}"),
                json!({"leaseDurationSeconds": 0, "leaseTransitions": -1}),
            ),
        ),
        Step::put(
            l(),
            &lease(json!({"name": "l", "namespace": "other"}), held.clone()),
        ),
        Step::put(
            l(),
            &lease(json!({"name": "l", "uid": "fixed"}), held.clone()),
        ),
        Step::put(
            format!("{L}/made"),
            &lease(
                json!({"name": "made", "resourceVersion": "5"}),
                held.clone(),
            ),
        ),
        Step::put(
            format!("{L}/gone"),
            &lease(json!({"name": "gone", "uid": "fixed"}), held),
        ),
        Step::get(format!("{L}?limit=1")),
        Step::get(format!("{L}?limit=1&continue={{continue}}")),
        Step::get(format!("{L}?fieldSelector=metadata.name%3Dmade")),
        Step::delete_if(l(), &json!({"uid": "fixed"})),
        Step::delete(l()),
        Step::delete(format!("{L}/made")),
    ]
}

fn events() -> Vec<Step> {
    let event = |name: &str, namespace: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "diff"},
            "involvedObject": {"apiVersion": "v1", "kind": "Service", "namespace": namespace, "name": "n", "uid": "u"},
            "type": "Normal", "reason": "R", "message": "m", "count": 1, "firstTimestamp": "2026-01-02T00:00:00Z",
            "lastTimestamp": "2026-01-02T00:00:00Z", "source": {"component": "c"}, "reportingComponent": "c",
            "reportingInstance": "",
        })
    };
    vec![
        Step::post(E, &event("e.1", "diff")),
        Step::post(E, &event("e.1", "diff")).partial(),
        Step::post(E, &event("e.2", "other")),
        Step::post(E, &event("e.3", "")),
        Step::patch(
            format!("{E}/e.1?fieldValidation=Ignore"),
            STRATEGIC,
            &json!({"count": 2, "lastTimestamp": "2026-01-02T00:00:01Z", "message": "n"}),
        )
        .partial(),
        Step::get(format!("{E}/e.1")),
        Step::patch(format!("{E}/e.9"), STRATEGIC, &json!({"count": 2})),
        Step::delete(format!("{E}/e.1")),
    ]
}

fn volumes() -> Vec<Step> {
    let affinity = |zone: &str| json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": [zone]}]}]}});
    let v = || format!("{V}/v");
    vec![
        Step::post(
            V,
            &json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}}}),
        ),
        Step::patch(
            v(),
            JSON_PATCH,
            &json!([
                {"op": "test", "path": "/metadata/uid", "value": "{uid}"},
                {"op": "test", "path": "/metadata/labels", "value": null},
                {"op": "add", "path": "/metadata/labels", "value": {}},
                {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
                {"op": "add", "path": "/spec/nodeAffinity", "value": affinity("a")},
            ]),
        ),
        Step::patch(
            v(),
            MERGE,
            &json!({"spec": {"nodeAffinity": affinity("b")}}),
        ),
        Step::patch(v(), MERGE, &json!({"spec": {"nodeAffinity": null}})),
        Step::new(Method::DELETE, v(), JSON, &Value::Null),
    ]
}

fn certificates() -> Vec<Step> {
    let c = || format!("{C}/c");
    let request = json!({"metadata": {"name": "c"}, "spec": {
        "signerName": "kubernetes.io/kubelet-serving", "request": BASE64_STANDARD.encode(PKCS10),
        "usages": ["digital signature", "server auth"], "expirationSeconds": 3600,
    }});
    let approved = json!({"type": "Approved", "status": "True", "reason": "R", "message": "m"});
    let approve = json!([
        {"op": "test", "path": "/metadata/uid", "value": "{uid}"},
        {"op": "test", "path": "/status/conditions", "value": null},
        {"op": "add", "path": "/status/conditions", "value": [approved]},
    ]);
    let approval = |name: &str| Step::patch(format!("{C}/{name}/approval"), JSON_PATCH, &approve);
    let of_signer = |name: &str| Step::get(format!("{C}?fieldSelector=spec.signerName%3D{name}"));
    vec![
        Step::post(C, &request),
        Step::post(C, &request),
        of_signer("kubernetes.io/kubelet-serving"),
        of_signer("kubernetes.io/other"),
        // Neither of them changes.
        Step::patch(c(), MERGE, &json!({"spec": {"expirationSeconds": 7200}})),
        Step::patch(c(), MERGE, &json!({"status": {"conditions": [approved]}})),
        Step::patch(c(), MERGE, &json!({"metadata": {"labels": {"a": "b"}}})),
        approval("none"),
        approval("c"),
        approval("c"),
        Step::patch(
            c(),
            MERGE,
            &json!({"metadata": {"labels": null}, "status": null}),
        ),
        Step::get(c()),
        Step::get(c()).partial(),
        Step::delete_if(c(), &json!({"uid": "fixed"})),
        Step::delete(c()),
    ]
}
