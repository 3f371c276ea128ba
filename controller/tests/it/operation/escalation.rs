//! Ways from the rights of `docs/rbac.md` to more rights: the API server refuses each.

use http::Request;
use kube::Client;
use outrigger_testbed::nodes::Machine;
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    rights::{ALWAYS, PROVIDER, Rights, SERVING, VOLUMES},
};

const USER: &str = "intruder";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const ACCOUNTS_PATH: &str = "/api/v1/namespaces/kube-system/serviceaccounts";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// The HTTP status of one request.
async fn code(client: &Client, method: &str, path: &str, body: &Value) -> u16 {
    let media = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(serde_json::to_vec(body).unwrap())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn token_of(account: &str) -> Value {
    json!({
        "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token",
    })
}

fn cluster_admin() -> Value {
    json!({
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    })
}

/// Requests that are granted, so that a refusal beside them is not for another reason.
fn granted() -> Vec<(&'static str, String, Value)> {
    let event = json!({
        "metadata": {"name": "intruder"}, "involvedObject": {"namespace": "default"},
    });
    vec![
        ("POST", LEASES.into(), named("cloud-controller-manager")),
        (
            "GET",
            format!("{LEASES}/cloud-controller-manager"),
            Value::Null,
        ),
        ("GET", "/api/v1/persistentvolumes".into(), Value::Null),
        ("GET", "/api/v1/services".into(), Value::Null),
        ("GET", CSRS.into(), Value::Null),
        (
            "PATCH",
            "/api/v1/nodes/victim".into(),
            json!({"metadata": {"labels": {"a": "b"}}}),
        ),
        ("POST", "/api/v1/namespaces/default/events".into(), event),
    ]
}

/// Requests beyond each right, and towards others.
fn refused() -> Vec<(&'static str, String, Value)> {
    let kube_system = "/api/v1/namespaces/kube-system";
    let default = "/api/v1/namespaces/default";
    let review = json!({"spec": {}});
    let pod = json!({
        "metadata": {"name": USER},
        "spec": {"serviceAccountName": "foreign", "containers": [{"name": "a", "image": "a"}]},
    });
    let config_map = format!("{kube_system}/configmaps/extension-apiserver-authentication");
    let account = |name: &str| format!("{ACCOUNTS_PATH}/{name}");
    let lease = |name: &str| format!("{LEASES}/{name}");
    vec![
        // Accounts, and their tokens.
        ("POST", ACCOUNTS_PATH.into(), named("node-controller")),
        ("POST", account("foreign/token"), review.clone()),
        (
            "POST",
            account("cloud-controller-manager/token"),
            review.clone(),
        ),
        (
            "POST",
            format!("{default}/serviceaccounts/node-controller/token"),
            review.clone(),
        ),
        ("GET", account("foreign"), Value::Null),
        ("PATCH", account("foreign"), named("foreign")),
        ("DELETE", account("foreign"), Value::Null),
        ("GET", ACCOUNTS_PATH.into(), Value::Null),
        ("POST", format!("{default}/serviceaccounts"), named(USER)),
        // A Secret that the API server would fill with a token, and Secrets of others.
        ("POST", SECRETS.into(), token_of("foreign")),
        ("POST", SECRETS.into(), named("other")),
        ("POST", format!("{default}/secrets"), token_of("default")),
        ("GET", format!("{SECRETS}/other"), Value::Null),
        ("GET", SECRETS.into(), Value::Null),
        ("GET", "/api/v1/secrets".into(), Value::Null),
        // Rights.
        (
            "POST",
            format!("{RBAC}/clusterrolebindings"),
            cluster_admin(),
        ),
        (
            "POST",
            format!("{RBAC}/namespaces/kube-system/rolebindings"),
            cluster_admin(),
        ),
        (
            "PATCH",
            format!("{RBAC}/clusterroles/{USER}:cloud-controller-manager"),
            json!({"rules": []}),
        ),
        ("GET", format!("{RBAC}/clusterroles"), Value::Null),
        // Requests for certificates, and the signature.
        ("POST", CSRS.into(), named(USER)),
        ("DELETE", format!("{CSRS}/a"), Value::Null),
        ("PATCH", format!("{CSRS}/a"), named("a")),
        ("PATCH", format!("{CSRS}/a/status"), named("a")),
        ("PUT", format!("{CSRS}/a/status"), named("a")),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews".into(),
            review,
        ),
        // Leases of others, and more than the election does with its own.
        ("GET", lease("kube-scheduler"), Value::Null),
        ("PUT", lease("kube-scheduler"), named("kube-scheduler")),
        ("DELETE", lease("cloud-controller-manager"), Value::Null),
        ("GET", LEASES.into(), Value::Null),
        (
            "POST",
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases".into(),
            named("victim"),
        ),
        // Nodes and Services, whole.
        ("POST", "/api/v1/nodes".into(), named(USER)),
        ("PUT", "/api/v1/nodes/victim".into(), named("victim")),
        ("PUT", "/api/v1/nodes/victim/status".into(), named("victim")),
        ("DELETE", "/api/v1/nodes".into(), Value::Null),
        ("GET", "/api/v1/nodes/victim/proxy/pods".into(), Value::Null),
        ("POST", format!("{default}/services"), named(USER)),
        (
            "PUT",
            format!("{default}/services/kubernetes"),
            named("kubernetes"),
        ),
        (
            "PATCH",
            format!("{default}/services/kubernetes"),
            named("kubernetes"),
        ),
        (
            "DELETE",
            format!("{default}/services/kubernetes"),
            Value::Null,
        ),
        (
            "GET",
            format!("{default}/services/kubernetes/proxy/"),
            Value::Null,
        ),
        // Workloads, configuration, namespaces.
        ("GET", "/api/v1/pods".into(), Value::Null),
        ("POST", format!("{kube_system}/pods"), pod),
        (
            "POST",
            format!("{kube_system}/pods/a/exec?command=sh"),
            Value::Null,
        ),
        ("GET", format!("{kube_system}/configmaps"), Value::Null),
        ("PATCH", config_map, json!({"data": {}})),
        ("GET", "/api/v1/namespaces".into(), Value::Null),
        ("GET", default.into(), Value::Null),
        ("PATCH", kube_system.into(), named("kube-system")),
        ("GET", "/api/v1/events".into(), Value::Null),
        ("DELETE", format!("{default}/events/intruder"), Value::Null),
        // Webhooks, and volumes.
        ("GET", format!("{WEBHOOKS}/other"), Value::Null),
        ("PATCH", format!("{WEBHOOKS}/other"), named("other")),
        ("GET", WEBHOOKS.into(), Value::Null),
        ("POST", WEBHOOKS.into(), named("other")),
        (
            "POST",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations".into(),
            named(USER),
        ),
        ("POST", "/api/v1/persistentvolumes".into(), named(USER)),
        ("DELETE", "/api/v1/persistentvolumes/a".into(), Value::Null),
    ]
}

/// With every right at once that the documentation has for any option.
#[tokio::test]
async fn no_right_leads_to_another() {
    let cluster = Cluster::take().await;
    // Two sections have roles of the same names: the wider ones come last.
    for part in [VOLUMES, SERVING, PROVIDER, ALWAYS] {
        Rights::documented(part)
            .of(USER)
            .grant(&cluster.plane)
            .await;
    }
    cluster.register(&Machine::new("victim")).await;
    let admin = cluster.admin();
    code(&admin, "POST", ACCOUNTS_PATH, &named("foreign")).await;
    let intruder = cluster.plane.client_of(USER, None).unwrap();

    for (method, path, body) in granted() {
        let code = code(&intruder, method, &path, &body).await;
        assert!(code < 300, "{method} {path}: {code}");
    }
    let mut allowed = Vec::new();
    for (method, path, body) in refused() {
        let code = code(&intruder, method, &path, &body).await;
        if code != 403 {
            allowed.push(format!("{method} {path}: {code}"));
        }
    }
    assert!(allowed.is_empty(), "{allowed:#?}");
    let impersonating = Request::get("/api/v1/secrets")
        .header("impersonate-user", "admin")
        .header("impersonate-group", "system:masters")
        .body(Vec::new());
    let answer = intruder.request::<Value>(impersonating.unwrap()).await;
    let Err(kube::Error::Api(status)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(status.code, 403, "{status:?}");
}
