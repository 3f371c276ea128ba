//! Holds that `kube-scheduler` puts the Pods of `deploy/` on the first Node that a distribution registers.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use outrigger_testbed::{
    ControlPlane, MASTERS, Options,
    nodes::{self, Machine},
    process::Process,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::common_args;
use crate::workloads;

const DEPLOYMENT: &str =
    include_str!("../../../deploy/kustomize/overlays/deployment/deployment.yaml");
const DAEMON_SET: &str =
    include_str!("../../../deploy/kustomize/overlays/daemonset/daemonset.yaml");
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

struct Bootstrap {
    name: &'static str,
    control_plane: bool,
    taints: &'static [(&'static str, Option<&'static str>, &'static str)],
    extra_toleration: Option<&'static str>,
    /// Does the Pod of the Deployment, and of the `DaemonSet`, get the Node?
    placed: [bool; 2],
}

/// Each Node has the taints of a kubelet with `--cloud-provider=external` and of a Node that is not ready besides.
const BOOTSTRAPS: [Bootstrap; 7] = [
    Bootstrap {
        name: "kubeadm-and-talos",
        control_plane: true,
        taints: &[(CONTROL_PLANE, None, "NoSchedule")],
        extra_toleration: None,
        placed: [true, true],
    },
    Bootstrap {
        name: "rancher-control-plane-and-etcd",
        control_plane: true,
        taints: &[
            (CONTROL_PLANE, None, "NoSchedule"),
            ("node-role.kubernetes.io/etcd", None, "NoExecute"),
        ],
        extra_toleration: None,
        placed: [true, true],
    },
    Bootstrap {
        name: "k3s-and-rke2-servers",
        control_plane: true,
        taints: &[("CriticalAddonsOnly", Some("true"), "NoExecute")],
        extra_toleration: None,
        placed: [true, true],
    },
    Bootstrap {
        name: "cluster-api-worker",
        control_plane: false,
        taints: &[("node.cluster.x-k8s.io/uninitialized", None, "NoSchedule")],
        extra_toleration: None,
        placed: [true, false],
    },
    Bootstrap {
        name: "a-rule-of-readiness",
        control_plane: false,
        taints: &[("readiness.k8s.io/network", None, "NoSchedule")],
        extra_toleration: Some("readiness.k8s.io/network"),
        placed: [true, false],
    },
    Bootstrap {
        name: "a-rule-that-the-values-do-not-name",
        control_plane: true,
        taints: &[("readiness.k8s.io/network", None, "NoSchedule")],
        extra_toleration: None,
        placed: [false, false],
    },
    Bootstrap {
        name: "cordoned",
        control_plane: true,
        taints: &[("node.kubernetes.io/unschedulable", None, "NoSchedule")],
        extra_toleration: None,
        placed: [false, false],
    },
];

#[tokio::test]
async fn the_scheduler_places_the_pod_on_the_first_node_of_each_distribution() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let kubeconfig = plane
        .kubeconfig("testbed-scheduler", Some(MASTERS))
        .unwrap();
    let program = workloads::find(&workloads::SCHEDULER).await.unwrap();
    let log = plane.dir().join("kube-scheduler.log");
    let args = common_args(&kubeconfig);
    let _scheduler = Process::start("kube-scheduler", &program, &args, log).unwrap();
    let client = plane.client().unwrap();
    let pods = Api::<Pod>::namespaced(client.clone(), "kube-system");
    for (before, bootstrap) in BOOTSTRAPS.iter().enumerate() {
        let mut machine = Machine::new(bootstrap.name);
        if bootstrap.control_plane {
            machine = machine.label(CONTROL_PLANE, "");
        }
        for (key, value, effect) in bootstrap.taints {
            machine = machine.taint(key, *value, effect);
        }
        nodes::register(&client, &machine).await.unwrap();
        for (manifest, expected) in [DEPLOYMENT, DAEMON_SET].into_iter().zip(bootstrap.placed) {
            let pod = pod(manifest, bootstrap);
            pods.create(&PostParams::default(), &pod).await.unwrap();
            let placed = timeout(Duration::from_mins(1), decision(&pods, before + 1)).await;
            assert_eq!(placed.unwrap(), expected, "{}", bootstrap.name);
            let now = DeleteParams::default().grace_period(0);
            pods.delete("it", &now).await.unwrap();
        }
    }
}

/// The Pod that `manifest` is the template of, without a controller above it, for the Node of `bootstrap` alone.
fn pod(manifest: &str, bootstrap: &Bootstrap) -> Pod {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).unwrap();
    let mut objects = objects.into_iter();
    let mut pod = objects.find_map(|mut object| {
        let pod = object["spec"]["template"].take();
        pod.is_object().then_some(pod)
    });
    let pod = pod.as_mut().unwrap();
    pod["metadata"]["name"] = json!("it");
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": bootstrap.name});
    if let Some(key) = bootstrap.extra_toleration {
        let tolerations = pod["spec"]["tolerations"].as_array_mut().unwrap();
        tolerations.push(json!({"key": key, "operator": "Exists"}));
    }
    serde_json::from_value(pod.take()).unwrap()
}

/// Says whether the Pod has a Node, once the scheduler has looked at all of them.
async fn decision(pods: &Api<Pod>, nodes: usize) -> bool {
    let refused = format!("0/{nodes} nodes are available");
    loop {
        let pod = pods.get("it").await.unwrap();
        if pod.spec.unwrap().node_name.is_some() {
            return true;
        }
        let conditions = pod.status.and_then(|status| status.conditions);
        let mut messages = conditions.into_iter().flatten().filter_map(|it| it.message);
        if messages.any(|message| message.starts_with(&refused)) {
            return false;
        }
        sleep(Duration::from_millis(50)).await;
    }
}
