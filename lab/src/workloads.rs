//! The programs that run Pods, most of them from the module of kube-apiserver.

use std::{
    env,
    path::{Path, PathBuf},
};

use outrigger_testbed::{Result, binaries::Program};

const GO_MOD: &str = include_str!("../../testbed/control-plane/kubernetes/go.mod");
const GO_SUM: &str = include_str!("../../testbed/control-plane/kubernetes/go.sum");
const READY_MADE: &str = ", or put it into the directory that KUBEBUILDER_ASSETS names";

const fn kubernetes(name: &'static str, package: &'static str) -> Program {
    Program {
        name,
        package,
        main_go: None,
        module: "k8s.io/kubernetes",
        go_mod: GO_MOD,
        go_sum: GO_SUM,
        version_package: Some("k8s.io/component-base/version"),
        without_go: READY_MADE,
    }
}

pub(crate) static CONTROLLER_MANAGER: Program = kubernetes(
    "kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
);
pub(crate) static SCHEDULER: Program =
    kubernetes("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler");
pub(crate) static KUBELET: Program = kubernetes("kubelet", "k8s.io/kubernetes/cmd/kubelet");
pub(crate) static KUBE_PROXY: Program =
    kubernetes("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy");

/// The process that holds the namespaces of a Pod.
pub(crate) static PAUSE: Program = Program {
    name: "pause",
    package: ".",
    main_go: Some(include_str!("../control-plane/pause/main.go")),
    module: "",
    go_mod: include_str!("../control-plane/pause/go.mod"),
    go_sum: "",
    version_package: None,
    without_go: "",
};

/// The DNS server of a cluster.
pub(crate) static COREDNS: Program = Program {
    name: "coredns",
    package: ".",
    main_go: Some(include_str!("../control-plane/coredns/main.go")),
    module: "github.com/coredns/coredns",
    go_mod: include_str!("../control-plane/coredns/go.mod"),
    go_sum: include_str!("../control-plane/coredns/go.sum"),
    version_package: None,
    without_go: READY_MADE,
};

/// A program of `KUBEBUILDER_ASSETS`, if it is there: archives for envtest have none of these. Otherwise it is built.
pub(crate) async fn find(program: &'static Program) -> Result<PathBuf> {
    let assets = env::var_os("KUBEBUILDER_ASSETS").unwrap_or_default();
    let ready = Path::new(&assets).join(program.name);
    if !assets.is_empty() && ready.is_file() {
        return Ok(ready);
    }
    program.find().await
}
