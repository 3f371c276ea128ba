//! Admission policies of a cluster that refuse or change writes of the controller.

use std::time::Duration;

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Event, Node},
};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use outrigger_testbed::faults::Recorded;
use serde_json::{Value, json};

use super::{balancers::is_of, rule::SLACK, scene::Scene};
use crate::{
    plane::USER,
    replica::LEASE,
    stage::Stage,
    wait::{holds, until, until_within},
};

/// An object that cannot be written has an event after this time, which quotes the policy.
pub(super) const TOLD: Duration = Duration::from_secs(40);

/// Writes of one object that is refused, in all: back-off begins below a second, and doubles.
const REFUSED: usize = 40;

const NODE: &str = "refused";
const SERVICE: &str = "web-5";
const MESSAGE: &str = "the drill does not like it";
const PROBED: &str = "drill.example/probed";
const LEASES: &str = "drill-leases";
const WRITES: &str = "drill-writes";

/// Refuses writes of the controller to an object of this name, and to those that have the probe's annotation.
pub(super) async fn refuse_node(scene: &Scene) {
    refuse(scene, NODE, &["nodes", "nodes/status"]).await;
    scene.record.concern(None, |_, name| name == NODE);
    scene.register([NODE.to_owned()]).await;
}

pub(super) async fn refuse_service(scene: &Scene) {
    refuse(scene, SERVICE, &["services", "services/status", "nodes"]).await;
    scene.record.concern(None, is_of(SERVICE));
    scene.edit_service(SERVICE).await;
}

/// Drops all annotations of Leases.
pub(super) async fn strip_leases(scene: &Scene) {
    let spec = json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["coordination.k8s.io"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["leases"],
        }]},
        "matchConditions": [{"name": "annotated", "expression": "has(object.metadata.annotations)"}],
        "mutations": [{
            "patchType": "JSONPatch",
            "jsonPatch": {"expression": "[JSONPatch{op: \"remove\", path: \"/metadata/annotations\"}]"},
        }],
    });
    apply(&scene.client, "MutatingAdmissionPolicy", LEASES, spec).await;
    let spec = json!({"policyName": LEASES});
    apply(
        &scene.client,
        "MutatingAdmissionPolicyBinding",
        LEASES,
        spec,
    )
    .await;
    let leases: Api<Lease> = Api::namespaced(scene.client.clone(), "kube-system");
    let (parameters, change) = probe();
    until("the policy drops annotations", async || {
        let probed = leases.patch(LEASE, &parameters, &change).await;
        let probed = probed.map_err(|error| error.to_string())?;
        let left = probed.metadata.annotations.unwrap_or_default();
        holds(!left.contains_key(PROBED), || format!("{left:?}"))
    })
    .await;
    // Load balancers get other targets, which the Lease notes first.
    scene.register(["joins-unnoted".to_owned()]).await;
    scene.create_service("unnoted").await;
    scene.edit_service("web-0").await;
}

/// A request without effect that shows whether a policy is at work.
fn probe() -> (PatchParams, Patch<Value>) {
    let parameters = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let change = json!({"metadata": {"annotations": {PROBED: ""}}});
    (parameters, Patch::Merge(change))
}

pub(super) async fn keep_leases(scene: &Scene) {
    delete(&scene.client, "MutatingAdmissionPolicyBinding", LEASES).await;
    delete(&scene.client, "MutatingAdmissionPolicy", LEASES).await;
}

pub(super) async fn allow_node(stage: &Stage, scene: &Scene) {
    let node = scene.nodes.get(NODE).await.unwrap();
    quotes_the_policy(scene, node.metadata.uid.as_deref().unwrap()).await;
    let path = format!("/nodes/{NODE}");
    allow(stage, scene, |request| request.path.contains(&path)).await;
}

pub(super) async fn allow_service(stage: &Stage, scene: &Scene) {
    let service = scene.services.get(SERVICE).await.unwrap();
    quotes_the_policy(scene, service.metadata.uid.as_deref().unwrap()).await;
    let path = format!("/services/{SERVICE}");
    allow(stage, scene, |request| request.path.contains(&path)).await;
}

async fn refuse(scene: &Scene, name: &str, resources: &[&str]) {
    let expression = format!(
        "request.userInfo.username != '{USER}' || (object.metadata.name != '{name}' && !(has(object.metadata.annotations) \
         && '{PROBED}' in object.metadata.annotations))"
    );
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": resources,
        }]},
        "validations": [{"expression": expression, "message": MESSAGE}],
    });
    apply(&scene.client, "ValidatingAdmissionPolicy", WRITES, spec).await;
    let spec = json!({"policyName": WRITES, "validationActions": ["Deny"]});
    apply(
        &scene.client,
        "ValidatingAdmissionPolicyBinding",
        WRITES,
        spec,
    )
    .await;
    let nodes: Api<Node> = Api::all(scene.as_controller.clone());
    let (parameters, change) = probe();
    until("the policy refuses", async || {
        let probed = nodes.patch("base-00000", &parameters, &change).await;
        holds(probed.is_err(), || "it does not".to_owned())
    })
    .await;
}

/// A Warning about this very object quotes the policy.
async fn quotes_the_policy(scene: &Scene, uid: &str) {
    let events: Api<Event> = Api::all(scene.client.clone());
    let event_quotes = async || {
        let listed = events.list(&ListParams::default()).await;
        let listed = listed.map_err(|error| error.to_string())?;
        let its = listed.items.iter();
        let its = its.filter(|event| event.involved_object.uid.as_deref() == Some(uid));
        let texts: Vec<_> = its.filter_map(|event| event.message.as_deref()).collect();
        holds(texts.iter().any(|text| text.contains(MESSAGE)), || {
            format!("its events are {texts:?}")
        })
    };
    until_within("an event quotes the policy", SLACK, event_quotes).await;
}

async fn allow(stage: &Stage, scene: &Scene, is_its: impl Fn(&Recorded) -> bool) {
    let requests = stage.proxy.requests();
    let its = requests.iter().filter(|one| one.is_write() && is_its(one));
    let refused = its.filter(|one| crate::look::answered(one, 422)).count();
    assert!(refused > 0, "no write was refused: the policy does nothing");
    assert!(
        refused <= REFUSED,
        "{refused} writes of one object were refused, more than {REFUSED}"
    );
    delete(&scene.client, "ValidatingAdmissionPolicyBinding", WRITES).await;
    delete(&scene.client, "ValidatingAdmissionPolicy", WRITES).await;
}

fn policies(client: &Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    let mut resource = ApiResource::from_gvk(&kind);
    resource.plural = resource.plural.replace("policys", "policies");
    Api::all_with(client.clone(), &resource)
}

async fn apply(client: &Client, kind: &str, name: &str, spec: Value) {
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    });
    let object = serde_json::from_value(object).unwrap();
    let made = policies(client, kind)
        .create(&PostParams::default(), &object)
        .await;
    made.unwrap();
}

async fn delete(client: &Client, kind: &str, name: &str) {
    let deleted = policies(client, kind)
        .delete(name, &DeleteParams::default())
        .await;
    deleted.unwrap();
}
