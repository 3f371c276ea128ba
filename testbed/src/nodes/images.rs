//! The image list of a node, which is most of its size.

use std::sync::OnceLock;

use k8s_openapi::api::core::v1::ContainerImage;

use super::seed;

/// Name, tag and size in MB: 50, which is as many as kubelet reports.
const IMAGES: [(&str, &str, i64); 50] = [
    (
        "ghcr.io/cloudnative-pg/postgresql",
        "17.5-standard-trixie",
        612,
    ),
    ("docker.io/library/elasticsearch", "8.18.4", 588),
    ("docker.elastic.co/beats/filebeat", "8.18.4", 311),
    ("quay.io/cilium/cilium", "v1.18.1", 287),
    ("docker.io/grafana/grafana", "12.1.1", 214),
    ("registry.k8s.io/ingress-nginx/controller", "v1.13.2", 112),
    ("quay.io/prometheus/prometheus", "v3.5.0", 109),
    ("docker.io/istio/proxyv2", "1.27.0", 105),
    ("docker.io/bitnami/redis", "8.2.1-debian-12-r0", 98),
    ("docker.io/fluent/fluent-bit", "4.0.8", 94),
    ("ghcr.io/dexidp/dex", "v2.44.0", 88),
    ("docker.io/library/nginx", "1.29.1", 72),
    ("quay.io/argoproj/argocd", "v3.1.1", 71),
    ("docker.io/calico/node", "v3.30.3", 69),
    ("registry.k8s.io/kube-apiserver", "v1.36.3", 31),
    ("registry.k8s.io/kube-proxy", "v1.36.3", 30),
    ("quay.io/jetstack/cert-manager-controller", "v1.18.2", 29),
    ("ghcr.io/external-secrets/external-secrets", "v0.19.2", 28),
    ("registry.k8s.io/external-dns/external-dns", "v0.19.0", 27),
    ("quay.io/jetstack/cert-manager-webhook", "v1.18.2", 26),
    ("registry.k8s.io/coredns/coredns", "v1.12.3", 22),
    ("registry.k8s.io/sig-storage/csi-provisioner", "v5.3.0", 21),
    ("registry.k8s.io/sig-storage/csi-attacher", "v4.9.0", 20),
    ("registry.k8s.io/sig-storage/csi-resizer", "v1.14.0", 20),
    ("registry.k8s.io/sig-storage/csi-snapshotter", "v8.3.0", 19),
    ("registry.k8s.io/autoscaling/vpa-recommender", "1.4.1", 18),
    (
        "registry.k8s.io/metrics-server/metrics-server",
        "v0.8.0",
        17,
    ),
    (
        "registry.k8s.io/kube-state-metrics/kube-state-metrics",
        "v2.16.0",
        16,
    ),
    (
        "registry.k8s.io/sig-storage/csi-node-driver-registrar",
        "v2.14.0",
        12,
    ),
    ("registry.k8s.io/sig-storage/livenessprobe", "v2.16.0", 12),
    ("quay.io/prometheus/node-exporter", "v1.9.1", 11),
    (
        "registry.k8s.io/node-problem-detector/node-problem-detector",
        "v0.8.21",
        10,
    ),
    ("docker.io/library/busybox", "1.37.0", 2),
    ("registry.k8s.io/pause", "3.10.1", 1),
    // Left over from upgrades, until kubelet needs the space.
    ("quay.io/cilium/cilium", "v1.17.6", 283),
    ("docker.io/grafana/grafana", "12.0.3", 211),
    ("registry.k8s.io/ingress-nginx/controller", "v1.12.4", 111),
    ("quay.io/prometheus/prometheus", "v3.4.2", 108),
    ("docker.io/istio/proxyv2", "1.26.3", 104),
    ("docker.io/fluent/fluent-bit", "4.0.4", 93),
    ("docker.io/library/nginx", "1.28.0", 71),
    ("docker.io/calico/node", "v3.30.2", 69),
    ("registry.k8s.io/kube-proxy", "v1.35.4", 30),
    ("quay.io/jetstack/cert-manager-controller", "v1.17.4", 28),
    ("registry.k8s.io/coredns/coredns", "v1.12.1", 22),
    ("registry.k8s.io/sig-storage/csi-provisioner", "v5.2.0", 21),
    (
        "registry.k8s.io/metrics-server/metrics-server",
        "v0.7.2",
        17,
    ),
    (
        "registry.k8s.io/sig-storage/csi-node-driver-registrar",
        "v2.13.0",
        12,
    ),
    ("registry.k8s.io/sig-storage/livenessprobe", "v2.15.0", 12),
    ("quay.io/prometheus/node-exporter", "v1.9.0", 11),
];

pub(super) fn images() -> Vec<ContainerImage> {
    static LIST: OnceLock<Vec<ContainerImage>> = OnceLock::new();
    LIST.get_or_init(|| IMAGES.iter().map(image).collect())
        .clone()
}

fn image(&(name, tag, megabytes): &(&str, &str, i64)) -> ContainerImage {
    let mut digest = fastrand::Rng::with_seed(seed(name) ^ seed(tag));
    ContainerImage {
        names: Some(vec![
            format!(
                "{name}@sha256:{:032x}{:032x}",
                digest.u128(..),
                digest.u128(..)
            ),
            format!("{name}:{tag}"),
        ]),
        size_bytes: Some(megabytes * 1_000_000 + digest.i64(..1_000_000).abs()),
    }
}
