//! The rights that `deploy/` grants and docs/rbac.md explains, bound to a test's subject: the files are the input, so
//! that nothing can be missing in them.

use std::{fs, path::Path};

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use outrigger_testbed::ControlPlane;
use serde_json::{Value, json};

use crate::{
    replica::LEASE,
    wait::{holds, until},
};

/// Files of `deploy/rights`.
pub(crate) const ALWAYS: &str = "always";
pub(crate) const VOLUMES: &str = "volumes";
pub(crate) const SERVING: &str = "serving-certificates";
pub(crate) const PROVIDER: &str = "provider";

/// Objects as one would apply them with kubectl.
pub(crate) struct Rights(Vec<Value>);

impl Rights {
    /// The objects of one file.
    pub(crate) fn documented(part: &str) -> Self {
        Self(objects(&read(&format!("deploy/rights/{part}.yaml"))))
    }

    /// The rules that always hold, of these parts; a comment of the file names the part.
    pub(crate) fn of_parts(parts: &[&str]) -> Self {
        let mut is_included = true;
        let file = read("deploy/rights/always.yaml");
        let rules = file.lines().filter(|line| {
            if let Some(part) = line.strip_prefix("  # ") {
                is_included = parts.contains(&part);
            } else if !line.starts_with("  ") {
                is_included = true;
            }
            is_included
        });
        Self(objects(&rules.collect::<Vec<_>>().join("\n")))
    }

    /// The rights that `deploy/kustomize` grants for [`shipped_flags`].
    pub(crate) fn shipped() -> Self {
        Self(objects(&read("deploy/kustomize/base/rights.yaml")))
    }

    /// The same for another subject than the process's account, with roles of other names.
    pub(crate) fn of(mut self, user: &str) -> Self {
        let is_role = |object: &Value| object["apiVersion"] == "rbac.authorization.k8s.io/v1";
        self.0.retain(|object| object["kind"] != "ServiceAccount");
        for object in self.0.iter_mut().filter(|object| is_role(object)) {
            object["metadata"]["name"] = format!("{user}:{}", name(object)).into();
            if let Some(role) = object["roleRef"]["name"].as_str() {
                object["roleRef"]["name"] = format!("{user}:{role}").into();
            }
            let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
            for subject in subjects.into_iter().flatten() {
                if subject["name"] == LEASE {
                    *subject = json!(
                        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}
                    );
                }
            }
        }
        self
    }

    /// Without what is said about a resource.
    pub(crate) fn without(mut self, resource: &str) -> Self {
        let mut dropped = 0;
        for object in &mut self.0 {
            if let Some(rules) = object.get_mut("rules").and_then(Value::as_array_mut) {
                let before = rules.len();
                rules.retain(|rule| rule["resources"] != json!([resource]));
                dropped += before - rules.len();
            }
        }
        assert!(dropped > 0, "nothing is said about {resource}");
        self
    }

    /// Returns when the API server knows of them.
    pub(crate) async fn grant(&self, plane: &ControlPlane) {
        let client = plane.client().unwrap();
        let parameters = PatchParams::apply("tests").force();
        for object in &self.0 {
            let patch = Patch::Apply(object);
            let api = api(&client, object);
            let applied = api.patch(name(object), &parameters, &patch);
            applied.await.unwrap();
        }
        for (user, attributes) in self.allowed() {
            until("rights that were granted", async || {
                let allowed = may(&client, &user, &attributes).await;
                holds(allowed, || format!("{user} may not {attributes}"))
            })
            .await;
        }
    }

    pub(crate) async fn revoke(&self, plane: &ControlPlane) {
        let client = plane.client().unwrap();
        let parameters = DeleteParams::default();
        for object in &self.0 {
            let api = api(&client, object);
            let deleted = api.delete(name(object), &parameters);
            deleted.await.unwrap();
        }
    }

    /// All grants: each right of each role that is bound here.
    fn allowed(&self) -> Vec<(String, Value)> {
        let mut allowed = Vec::new();
        for binding in self.0.iter().filter(|object| object["subjects"].is_array()) {
            let role = self.0.iter().find(|object| {
                object["kind"] == binding["roleRef"]["kind"]
                    && object["metadata"]["name"] == binding["roleRef"]["name"]
            });
            let namespace = &binding["metadata"]["namespace"];
            for subject in list(&binding["subjects"]) {
                let user = user(subject);
                for rule in role.iter().flat_map(|role| list(&role["rules"])) {
                    for attributes in attributes(rule, namespace) {
                        allowed.push((user.clone(), attributes));
                    }
                }
            }
        }
        assert!(!allowed.is_empty(), "no role has a rule");
        allowed
    }
}

/// The flags of the controller in the Deployment of `deploy/kustomize`.
pub(crate) fn shipped_flags() -> Vec<String> {
    let deployment = objects(&read(
        "deploy/kustomize/overlays/deployment/deployment.yaml",
    ));
    let containers = &deployment[0]["spec"]["template"]["spec"]["containers"];
    let flags: Vec<_> = list(&containers[0]["args"])
        .map(|flag| flag.as_str().unwrap().to_owned())
        .collect();
    assert!(!flags.is_empty(), "the controller has no flags");
    flags
}

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(path)).unwrap()
}

fn objects(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn user(subject: &Value) -> String {
    let name = subject["name"].as_str().unwrap();
    match subject["kind"].as_str() {
        Some("User") => name.to_owned(),
        Some("ServiceAccount") => {
            let namespace = subject["namespace"].as_str().unwrap();
            format!("system:serviceaccount:{namespace}:{name}")
        }
        kind => panic!("a subject of kind {kind:?}"),
    }
}

/// The attributes of a review of each right of a rule.
fn attributes(rule: &Value, namespace: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for group in list(&rule["apiGroups"]) {
        for resource in list(&rule["resources"]) {
            let resource = resource.as_str().unwrap();
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            for verb in list(&rule["verbs"]) {
                let one = json!({
                    "group": group, "resource": resource, "subresource": subresource,
                    "verb": verb, "name": rule["resourceNames"][0], "namespace": namespace,
                });
                all.push(one);
            }
        }
    }
    all
}

async fn may(client: &Client, user: &str, attributes: &Value) -> bool {
    let review = json!({
        "metadata": {}, "spec": {"user": user, "resourceAttributes": attributes},
    });
    let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    answer.unwrap().status.is_some_and(|status| status.allowed)
}

/// Makes or changes one object as it stands.
pub(crate) fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let (group, version) = match object["apiVersion"].as_str().unwrap().split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", object["apiVersion"].as_str().unwrap()),
    };
    let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let resource = ApiResource::from_gvk(&kind);
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}
