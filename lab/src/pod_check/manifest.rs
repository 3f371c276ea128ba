//! The shipped manifests, fitted to a control plane of the testbed.

use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{GroupVersionKind, TypeMeta},
    discovery,
};
use serde_json::{Value, json};

use super::cloud::MOUNTED_AT;
use outrigger_testbed::{Error, Result};

/// The field manager of what the check applies.
const MANAGER: &str = "outrigger-testbed";

/// `deploy/kustomize/overlays/deployment`. No network here enforces its `NetworkPolicy`.
const SHIPPED: [&str; 3] = [
    include_str!("../../../deploy/kustomize/base/rights.yaml"),
    include_str!("../../../deploy/kustomize/base/service.yaml"),
    include_str!("../../../deploy/kustomize/overlays/deployment/deployment.yaml"),
];

/// The containers of the Pod.
pub(super) const CONTROLLER: &str = "controller";
pub(super) const PROVIDER: &str = "provider";

/// The images that the two containers have at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Images {
    pub(super) controller: String,
    pub(super) provider: String,
}

/// Objects to apply, in their order, and what they are fitted to.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    objects: Vec<Value>,
    tests: Vec<Value>,
    /// The port of the API server.
    pub(super) port: String,
    /// The directory of the cloud.
    pub(super) cloud: PathBuf,
    /// The names of the images, by version.
    pub(super) controller: Vec<String>,
    pub(super) provider: Vec<String>,
    pub(super) provider_args: Vec<String>,
}

impl Manifest {
    /// The objects of a file, or the shipped ones.
    pub(super) fn read(path: Option<&Path>) -> Result<Self> {
        let name = path.map_or("that is shipped".to_owned(), |path| {
            path.display().to_string()
        });
        let failed = || Error::io(format!("read the manifest {name}"));
        let text = match path {
            Some(path) => fs::read_to_string(path).map_err(failed())?,
            None => SHIPPED.join("\n---\n"),
        };
        let objects = serde_saphyr::from_multiple::<Value>(&text);
        let objects = objects.map_err(|error| failed()(io::Error::other(error.to_string())))?;
        let hook = |object: &Value| object["metadata"]["annotations"]["helm.sh/hook"].clone();
        let (objects, hooks): (Vec<_>, Vec<_>) = objects
            .into_iter()
            .filter(Value::is_object)
            .partition(|object| hook(object).is_null());
        let hooks = hooks.into_iter();
        Ok(Self {
            objects,
            tests: hooks.filter(|object| hook(object) == "test").collect(),
            ..Self::default()
        })
    }

    /// Namespace and name of the Deployment.
    pub(super) fn deployment(&self) -> Option<(String, String)> {
        let mut objects = self.objects.iter();
        let metadata = &objects.find(|object| object["kind"] == "Deployment")?["metadata"];
        let text = |field: &str| metadata[field].as_str().map(ToOwned::to_owned);
        Some((text("namespace")?, text("name")?))
    }

    /// True if the controller of the Deployment runs the loop that approves serving certificates of kubelets.
    pub(super) fn approves_serving_certificates(&self) -> bool {
        let containers = self.objects.iter().flat_map(|object| {
            let containers = object["spec"]["template"]["spec"]["containers"].as_array();
            containers.into_iter().flatten()
        });
        let mut arguments = containers.flat_map(|it| it["args"].as_array().into_iter().flatten());
        arguments.any(|argument| {
            let argument = argument.as_str().unwrap_or_default();
            argument.contains("kubelet-serving-approving")
        })
    }

    /// The names of a version; the last one if there are fewer.
    pub(super) fn images(&self, version: usize) -> Images {
        let of = |names: &[String]| {
            let last = names.len().saturating_sub(1);
            names.get(version.min(last)).cloned().unwrap_or_default()
        };
        Images {
            controller: of(&self.controller),
            provider: of(&self.provider),
        }
    }

    /// Applies all objects. Without `sidecar` the provider is a container after the controller.
    pub(super) async fn apply(
        &self,
        client: &Client,
        images: &Images,
        sidecar: bool,
    ) -> Result<()> {
        for object in &self.objects {
            let mut object = object.clone();
            if object["kind"] == "Deployment" {
                self.fit(&mut object["spec"], images);
                if !sidecar {
                    move_provider(&mut object["spec"]["template"]["spec"]);
                }
            }
            apply(client, object).await?;
        }
        Ok(())
    }

    /// The Pods of `helm test` with `image`, on the node's network, where nothing else resolves the names of Services.
    pub(super) fn tests(&self, image: &str, address: IpAddr) -> Vec<Value> {
        let services = self.objects.iter().filter(|it| it["kind"] == "Service");
        let names: Vec<_> = services
            .map(|service| {
                let [name, namespace] = ["name", "namespace"].map(|of| &service["metadata"][of]);
                format!(
                    "{}.{}.svc",
                    name.as_str().unwrap_or_default(),
                    namespace.as_str().unwrap_or_default()
                )
            })
            .collect();
        let mut tests = self.tests.clone();
        for spec in tests.iter_mut().map(|test| &mut test["spec"]) {
            spec["hostNetwork"] = json!(true);
            spec["hostAliases"] = json!([{"ip": address, "hostnames": names}]);
            for container in spec["containers"].as_array_mut().into_iter().flatten() {
                container["image"] = json!(image);
                container["imagePullPolicy"] = json!("Never");
            }
        }
        tests
    }

    /// One Pod on the network of the one node, where the API server is on loopback: nothing forwards its Service there.
    fn fit(&self, deployment: &mut Value, images: &Images) {
        deployment["replicas"] = json!(1);
        deployment["strategy"] = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
        let spec = &mut deployment["template"]["spec"];
        spec["hostNetwork"] = json!(true);
        push(
            &mut spec["volumes"],
            json!({"name": "cloud", "hostPath": {"path": self.cloud, "type": "Directory"}}),
        );
        for list in ["initContainers", "containers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                container["imagePullPolicy"] = json!("Never");
                if container["name"] == CONTROLLER {
                    container["image"] = json!(images.controller);
                    container["env"] = json!([
                        {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
                        {"name": "KUBERNETES_SERVICE_PORT", "value": self.port},
                    ]);
                } else if container["name"] == PROVIDER {
                    container["image"] = json!(images.provider);
                    container["args"] = json!(self.provider_args);
                    push(
                        &mut container["volumeMounts"],
                        json!({"name": "cloud", "mountPath": MOUNTED_AT}),
                    );
                }
            }
        }
    }
}

/// Adds to a list that may be absent.
fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        absent => *absent = json!([item]),
    }
}

/// From a native sidecar, which starts first, to the last container.
fn move_provider(spec: &mut Value) {
    let Some(Value::Array(sidecars)) = spec
        .as_object_mut()
        .and_then(|spec| spec.remove("initContainers"))
    else {
        return;
    };
    if let Some(containers) = spec["containers"].as_array_mut() {
        for mut sidecar in sidecars {
            if let Some(sidecar) = sidecar.as_object_mut() {
                sidecar.remove("restartPolicy");
            }
            containers.push(sidecar);
        }
    }
}

pub(super) async fn apply(client: &Client, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)
        .map_err(|error| Error::io("read an object of the manifest")(error.into()))?;
    let types = object.types.clone().unwrap_or_default();
    let name = object.metadata.name.clone().unwrap_or_default();
    let failed = || Error::kube(format!("cannot apply {} {name}", types.kind));
    let kind = kind(&types).ok_or_else(|| {
        let reason = format!("{} is no apiVersion", types.api_version);
        Error::io(format!("apply {} {name}", types.kind))(io::Error::other(reason))
    })?;
    let (resource, _) = discovery::pinned_kind(client, &kind)
        .await
        .map_err(failed())?;
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let parameters = PatchParams::apply(MANAGER).force();
    let applied = api.patch(&name, &parameters, &Patch::Apply(&object)).await;
    applied.map(drop).map_err(failed())
}

fn kind(types: &TypeMeta) -> Option<GroupVersionKind> {
    GroupVersionKind::try_from(types).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_of_the_chart_asks_the_node() {
        let chart = r#"
            {"kind": "Service", "metadata": {"name": "ccm", "namespace": "kube-system"}}
            ---
            {"kind": "Pod", "metadata": {"name": "t", "annotations": {"helm.sh/hook": "test"}}, "spec": {"containers": [{}]}}
            ---
            {"kind": "Job", "metadata": {"name": "j", "annotations": {"helm.sh/hook": "pre-install"}}}"#;
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), chart.replace("            ", "")).unwrap();
        let manifest = Manifest::read(Some(file.path())).unwrap();
        assert_eq!(manifest.objects.len(), 1);
        let [test] = &manifest.tests("curl:1", IpAddr::from([10, 0, 0, 1]))[..] else {
            panic!("one test")
        };
        let alias = json!([{"ip": "10.0.0.1", "hostnames": ["ccm.kube-system.svc"]}]);
        assert_eq!(test["spec"]["hostAliases"], alias);
        assert_eq!(test["spec"]["containers"][0]["image"], "curl:1");
    }

    #[test]
    fn serving_certificates_are_approved_by_a_controller_with_that_loop() {
        let mut manifest = Manifest::read(None).unwrap();
        assert!(!manifest.approves_serving_certificates());
        let mut objects = manifest.objects.iter_mut();
        let deployment = objects.find(|object| object["kind"] == "Deployment");
        let spec = &mut deployment.unwrap()["spec"]["template"]["spec"];
        let loops = json!("--controllers=*,kubelet-serving-approving-controller");
        push(&mut spec["containers"][0]["args"], loops);
        assert!(manifest.approves_serving_certificates());
    }

    #[test]
    fn the_shipped_pod_gets_its_images_and_the_address_of_the_api_server() {
        let manifest = Manifest {
            port: "1234".to_owned(),
            controller: vec!["c:1".to_owned(), "c:2".to_owned()],
            provider: vec!["p:1".to_owned()],
            provider_args: vec!["serve".to_owned()],
            ..Manifest::read(None).unwrap()
        };
        assert_eq!(
            manifest.deployment().unwrap(),
            (
                "kube-system".to_owned(),
                "cloud-controller-manager".to_owned()
            )
        );
        let mut objects = manifest.objects.iter();
        let deployment = objects.find(|object| object["kind"] == "Deployment");
        let mut spec = deployment.unwrap()["spec"].clone();
        manifest.fit(&mut spec, &manifest.images(usize::MAX));
        let pod = &mut spec["template"]["spec"];
        assert_eq!(pod["initContainers"][0]["image"], "p:1");
        let mounts = pod["initContainers"][0]["volumeMounts"].as_array();
        assert!(mounts.unwrap().iter().any(|it| it["name"] == "cloud"));
        assert_eq!(pod["containers"][0]["image"], "c:2");
        assert_eq!(pod["containers"][0]["env"][1]["value"], "1234");
        move_provider(pod);
        assert_eq!(pod["containers"][1]["args"], json!(["serve"]));
        assert_eq!(pod.get("initContainers"), None);
        assert_eq!(pod["containers"][1].get("restartPolicy"), None);
    }
}
