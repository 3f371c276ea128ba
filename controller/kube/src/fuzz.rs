//! Reading and writing with inputs near to real ones: see docs/evidence.md for how to run them for hours. No byte of an API
//! server, a kubelet or a file ends the process, and one odd object costs no other one.

mod patches;

use std::sync::OnceLock;

use base64::{Engine, prelude::BASE64_STANDARD};
use outrigger_core::{csr::CsrView, node::NodeView, service::ServiceView, volume::VolumeView};
use outrigger_runtime::fixture::near::{self, Edit};
use proptest::prelude::*;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::decode::{self, Item, ObjectEvent};

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    prop::collection::vec(any::<Edit>(), 0..6)
}

fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "a", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": "a", "x/y~z": "1"},
            "annotations": {"alpha.kubernetes.io/provided-node-ip": "10.0.0.1", "x/a": "1"},
        },
        "spec": {
            "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"], "unschedulable": true,
            "taints": [
                {"key": "other", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z", "later": 9_007_199_254_740_993_u64},
                {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
            ],
        },
        "status": {
            "addresses": [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": [
                {"type": "Ready", "status": "False", "reason": "R", "message": "m",
                 "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "x/Old", "status": "True", "reason": "R", "message": "m",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ],
            "nodeInfo": {"systemUUID": "s"},
        },
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
            "labels": {"a": "b"}, "annotations": {"x/a": "1"},
            "finalizers": ["service.kubernetes.io/load-balancer-cleanup", "a/b"],
        },
        "spec": {
            "type": "LoadBalancer", "loadBalancerClass": "x/y", "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "web", "nodePort": 30080}],
            "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 9}},
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 30081, "selector": {"app": "web"}, "loadBalancerIP": "192.0.2.1",
        },
        "status": {
            "conditions": [{"type": "x/Old", "status": "True", "reason": "R", "message": "",
                            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP",
                                          "ports": [{"port": 80, "protocol": "TCP"}]}]},
        },
    })
}

/// A kubelet's request, with the DER of its PKCS #10 in PEM.
fn csr(der: &[u8]) -> Value {
    let base64 = BASE64_STANDARD.encode(der);
    let lines: Vec<_> = base64
        .as_bytes()
        .chunks(64)
        .map(String::from_utf8_lossy)
        .collect();
    let label = "CERTIFICATE REQUEST-----\n";
    let pem = format!("-----BEGIN {label}{}\n-----END {label}", lines.join("\n"));
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "signerName": "kubernetes.io/kubelet-serving", "request": BASE64_STANDARD.encode(pem),
            "username": "system:node:a", "groups": ["system:nodes", "system:authenticated"],
            "usages": ["digital signature", "server auth"], "expirationSeconds": 3600,
        },
        "status": {"conditions": null, "certificate": null},
    })
}

/// The DER of a kubelet's request.
fn pkcs10() -> Vec<u8> {
    let mut params = CertificateParams::new(vec!["a".to_owned(), "10.0.0.1".to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:nodes");
    params
        .distinguished_name
        .push(DnType::CommonName, "system:node:a");
    let key = KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().der().to_vec()
}

fn volume() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": "pv", "uid": "u", "resourceVersion": "7", "labels": {"app": "db"},
            "annotations": {"pv.kubernetes.io/provisioned-by": "csi.example"},
        },
        "spec": {
            "csi": {"driver": "csi.example", "volumeHandle": "v", "volumeAttributes": {"a": "b"}},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]},
            ]}},
        },
    })
}

/// Longest cause of an object that cannot be decoded, in bytes: 200 characters.
const LONGEST_CAUSE: usize = 800;

/// Decodes an object by itself, in an event and in a list.
fn decode<V: DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let item = Item::<V>::of(bytes);
    if let Item::Undecodable(object) = &item {
        assert!(object.cause.len() <= LONGEST_CAUSE, "{}", object.cause);
        assert!(!object.cause.is_empty());
    }
    // A field that is not read may hold any bytes.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let event = decode::event::<V>(&format!(r#"{{"type":"MODIFIED","object":{text}}}"#));
    if serde_json::from_slice::<Value>(bytes).is_ok_and(|json| json.is_object()) {
        assert_eq!(event.unwrap(), ObjectEvent::Applied(item));
    }
    let _ = decode::event::<V>(text);
}

/// Made once: a key takes a while.
static PKCS10: OnceLock<Vec<u8>> = OnceLock::new();

proptest! {
    #[test]
    fn objects(edits in edits()) {
        let near = |seed: &Value| near::bytes(seed.to_string().as_bytes(), &edits);
        let changed = |seed: &Value| near::value(seed, &edits).to_string().into_bytes();
        for bytes in [near(&node()), changed(&node())] {
            decode::<NodeView>(&bytes);
        }
        for bytes in [near(&service()), changed(&service())] {
            decode::<ServiceView>(&bytes);
        }
        for bytes in [near(&volume()), changed(&volume())] {
            decode::<VolumeView>(&bytes);
        }
        let der = PKCS10.get_or_init(pkcs10);
        let of_kubelet = csr(der);
        for bytes in [near(&of_kubelet), changed(&of_kubelet)] {
            decode::<CsrView>(&bytes);
        }
        let other = csr(&near::bytes(der, &edits));
        let view: CsrView = serde_json::from_value(other.clone()).unwrap();
        prop_assert!(other != of_kubelet || view.pending.is_some_and(|request| request.is_ok()));
    }
}
