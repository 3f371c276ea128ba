use serde_json::{Value, json};

use super::ServiceView;
use crate::fixture;

fn view(json: &Value) -> ServiceView {
    serde_json::from_str(&json.to_string()).unwrap()
}

#[test]
fn a_real_service_becomes_its_view() {
    let service = view(&fixture::full_service());
    assert_eq!(&*service.key, "shop/web");
    assert_eq!((service.namespace(), service.name()), ("shop", "web"));
    assert_eq!(&*service.uid, "6e1a4c0e-7f0b-4b6b-9c1f-0d3b7a2e5f10");
    assert_eq!(&*service.resource_version, "4711");
    assert_eq!(service.deleted, None);
    assert_eq!(service.labels.get("app"), Some("web"));
    assert!(service.has_finalizer() && service.is_load_balancer());
    assert!(!service.is_paused());

    let spec = &service.spec;
    assert_eq!(spec.ports.len(), 2);
    assert_eq!(&*spec.ports[0].target_port, "8080");
    assert_eq!(&*spec.ports[1].target_port, "dns");
    assert_eq!(spec.ports[0].app_protocol.as_deref(), Some("http"));
    assert_eq!((spec.ports[1].port, spec.ports[1].node_port), (53, 30053));
    assert_eq!(&*spec.ports[1].protocol, "UDP");
    assert_eq!(spec.load_balancer_class, None);
    assert_eq!(&*spec.load_balancer_ip, "192.0.2.7");
    assert_eq!(*spec.load_balancer_source_ranges, ["10.0.0.0/8".into()]);
    assert_eq!(&*spec.external_traffic_policy, "Local");
    assert_eq!(&*spec.session_affinity, "ClientIP");
    assert_eq!(spec.session_affinity_timeout, Some(10_800));
    assert_eq!(*spec.ip_families, ["IPv4".into(), "IPv6".into()]);
    assert_eq!(&*spec.ip_family_policy, "PreferDualStack");
    assert_eq!(*spec.external_ips, ["198.51.100.9".into()]);
    assert_eq!(spec.health_check_node_port, 30_999);

    assert_eq!(&*service.ingress[0].ip, "192.0.2.7");
    assert_eq!(service.ingress[0].ip_mode.as_deref(), Some("VIP"));
    assert_eq!(&*service.ingress[1].hostname, "web.lb.example.com");
    assert_eq!(service.ingress[1].ports[0].port, 80);
    let ready = service.condition("example.com/CertificateReady").unwrap();
    assert_eq!((&*ready.status, &*ready.reason), ("True", "Issued"));
    assert_eq!(
        ready.last_transition_time,
        Some("2026-11-21T10:00:09Z".parse().unwrap())
    );
}

#[test]
fn kubectls_copy_of_the_object_is_left_out() {
    let annotations = view(&fixture::full_service()).annotations;
    assert!(!annotations.contains_key("kubectl.kubernetes.io/last-applied-configuration"));
    assert_eq!(annotations.len(), 1);
}

/// The allocator's cost of so many bytes.
const fn allocated(bytes: usize) -> usize {
    if bytes == 0 {
        0
    } else {
        (bytes + 8).next_multiple_of(16)
    }
}

#[test]
fn a_view_costs_little() {
    let json = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "6e1a4c0e-7f0b-4b6b-9c1f-0d3b7a2e5f10",
            "resourceVersion": "123456", "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
        },
        "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster", "ipFamilyPolicy": "SingleStack",
            "ipFamilies": ["IPv4"], "clusterIPs": ["10.96.0.7"], "selector": {"app": "web"},
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7", "ipMode": "VIP"}]}},
    });
    let mut other = json.clone();
    other["spec"]["type"] = "ClusterIP".into();
    other["metadata"]["finalizers"] = Value::Null;
    other["metadata"]["annotations"] = json!({"example.com/a": "x".repeat(5_000)});
    let other = view(&other);
    let bare = view(&json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": &*other.uid, "resourceVersion": "123456",
        },
        "spec": {"type": "ClusterIP"},
    }));
    assert_eq!(other, bare);
    assert_eq!(&*other.spec.kind, "ClusterIP");
    let texts = [
        &*other.key,
        &other.uid,
        &other.resource_version,
        &other.spec.kind,
    ];
    let texts: usize = texts.iter().map(|text| allocated(text.len())).sum();
    let bytes = size_of::<ServiceView>() + 16 + texts;
    assert!(
        bytes < 500,
        "{bytes} bytes of a Service that is no load balancer's"
    );

    let service = view(&json);
    let spec = &service.spec;
    let texts = [
        &*service.key,
        &service.uid,
        &service.resource_version,
        &spec.kind,
        &spec.external_traffic_policy,
        &spec.session_affinity,
        &spec.ip_family_policy,
        &service.finalizers[0],
        &spec.ip_families[0],
        &spec.ports[0].name,
        &spec.ports[0].protocol,
        &spec.ports[0].target_port,
        &service.ingress[0].ip,
        "VIP",
    ];
    let texts: usize = texts.iter().map(|text| allocated(text.len())).sum();
    let lists = 2 * allocated(size_of::<Box<str>>())
        + allocated(size_of_val(&*spec.ports))
        + allocated(size_of_val(&*service.ingress));
    let bytes = size_of::<ServiceView>() + 16 + texts + lists;
    assert!(bytes < 1_200, "{bytes} bytes");
}

/// As long as there may be a load balancer to clean up, all is kept.
#[test]
fn a_service_with_our_finalizer_is_kept_whole_whatever_its_type() {
    let mut json = fixture::full_service();
    let load_balancer = view(&json);
    json["spec"]["type"] = "ClusterIP".into();
    let mut expected = load_balancer.clone();
    expected.spec.kind = "ClusterIP".into();
    assert_eq!(view(&json), expected);
    json["metadata"]["finalizers"] = json!(["example.com/x"]);
    let released = view(&json);
    assert!(released.annotations.is_empty() && released.conditions.is_empty());
    assert_eq!(*released.finalizers, ["example.com/x".into()]);
    json["spec"]["type"] = "LoadBalancer".into();
    expected = load_balancer;
    expected.finalizers = ["example.com/x".into()].into();
    assert_eq!(view(&json), expected);
}

/// One odd object must not end a watch.
#[test]
fn missing_and_null_are_absent() {
    let bare = view(&json!({"metadata": {"name": "a", "namespace": "b"}}));
    assert_eq!(&*bare.key, "b/a");
    assert!(!bare.is_load_balancer() && !bare.has_finalizer());
    let nulls = view(&json!({
        "metadata": {"name": "a", "namespace": "b", "finalizers": null, "labels": null,
            "annotations": null, "deletionTimestamp": null},
        "spec": {"type": null, "ports": null, "loadBalancerClass": null, "ipFamilies": null,
            "sessionAffinityConfig": null, "selector": null, "healthCheckNodePort": null},
        "status": {"loadBalancer": null, "conditions": null},
    }));
    assert_eq!(nulls, bare);
    let deeper = view(&json!({
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"sessionAffinityConfig": {"clientIP": null}},
        "status": {"loadBalancer": {"ingress": null}},
    }));
    assert_eq!(deeper, bare);
    let port = view(&json!({
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {
            "type": "LoadBalancer",
            "ports": [{"port": 80, "targetPort": null, "nodePort": null}],
        },
    }));
    assert_eq!(port.spec.ports[0].port, 80);
    assert_eq!(&*port.spec.ports[0].target_port, "");
}

#[test]
fn each_field_but_the_name_may_be_null() {
    for (path, json) in fixture::with_each_field_null(&fixture::full_service()) {
        let decoded = serde_json::from_value::<ServiceView>(json);
        let is_required = path == "/metadata" || path == "/metadata/name";
        assert_eq!(decoded.is_err(), is_required, "{path}: {decoded:?}");
    }
}
