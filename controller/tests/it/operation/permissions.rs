//! The rights that `docs/rbac.md` lists are enough, and one that is missing is named.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::{Event, Service, ServiceAccount};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use outrigger_testbed::faults::Outcome;
use serde_json::json;

use crate::{
    cluster::{Cluster, SYSTEM},
    look::{answered, reason},
    replica::Replica,
    rights::{ACCOUNTS, ALWAYS, Rights},
    stage::Setup,
    wait::{holds, until},
};

/// Waits until the Lease has this event about a leader of that name.
pub(super) async fn elected(cluster: &Cluster, identity: &str) {
    let events: Api<Event> = Api::namespaced(cluster.admin(), SYSTEM);
    let message = format!("{identity} became leader");
    until("the event of the election", async || {
        let events = events.list(&ListParams::default()).await.unwrap().items;
        let mut events = events.iter();
        let has_event = events.any(|event| {
            reason(event) == "LeaderElection" && event.message.as_deref() == Some(&*message)
        });
        holds(has_event, || "none".to_owned())
    })
    .await;
}

fn services(cluster: &Cluster) -> Api<Service> {
    Api::namespaced(cluster.admin(), "default")
}

/// Makes a Service that wants a load balancer.
async fn ask_for_load_balancer(cluster: &Cluster, name: &str) {
    let service = json!({
        "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    let service = serde_json::from_value(service).unwrap();
    let services = services(cluster);
    let made = services.create(&PostParams::default(), &service).await;
    made.unwrap();
}

async fn delete_service(cluster: &Cluster, name: &str) {
    let services = services(cluster);
    let deleted = services.delete(name, &DeleteParams::default()).await;
    deleted.unwrap();
    until(&format!("{name} is gone"), async || {
        let left = services.get_opt(name).await.unwrap();
        holds(left.is_none(), || format!("{left:?}"))
    })
    .await;
}

/// Has a load balancer made and deleted.
pub(super) async fn serve_a_service(cluster: &Cluster, name: &str) {
    ask_for_load_balancer(cluster, name).await;
    let services = services(cluster);
    until(&format!("the address of {name}"), async || {
        let service = services.get(name).await.unwrap();
        let status = service
            .status
            .clone()
            .and_then(|status| status.load_balancer);
        let ingress = status.and_then(|status| status.ingress);
        holds(ingress.is_some(), || format!("{service:?}"))
    })
    .await;
    delete_service(cluster, name).await;
}

/// True if the replica made such a request and the answer was no error.
fn did(replica: &Replica, method: &Method, path: &str) -> bool {
    replica.proxy.requests().iter().any(|request| {
        request.method == *method
            && request.path.ends_with(path)
            && matches!(request.outcome, Outcome::Answered(code) if code.is_success())
    })
}

/// B-10.
#[tokio::test]
async fn the_documented_rights_are_enough() {
    let cluster = Setup::without_provider().prepare().await;
    let mut replica = cluster.replica("only").await;
    replica.leads().await;
    replica.own_node(&cluster, "allowed").await;
    cluster.synced("allowed").await;
    serve_a_service(&cluster, "allowed").await;
    elected(&cluster, &replica.identity().await).await;
    let stranger = replica.port.with_token(&cluster.account("stranger").await);
    stranger.gets("/metrics", 403).await;
    replica.controller.terminate().await;

    for (method, path) in [
        (Method::GET, "/namespaces/kube-system"),
        (Method::GET, "/api/v1/nodes"),
        (Method::PATCH, "/nodes/allowed"),
        (Method::PATCH, "/nodes/allowed/status"),
        (Method::GET, "/api/v1/services"),
        (Method::PATCH, "/services/allowed/status"),
        (Method::POST, "/namespaces/default/events"),
        (Method::POST, "/namespaces/kube-system/events"),
        (Method::POST, "/leases"),
        (Method::PUT, "/leases/cloud-controller-manager"),
        (Method::GET, "/leases"),
        (
            Method::GET,
            "/configmaps/extension-apiserver-authentication",
        ),
        (Method::POST, "/tokenreviews"),
        (Method::POST, "/subjectaccessreviews"),
    ] {
        assert!(did(&replica, &method, path), "{method} {path}");
    }
    replica.was_allowed_everything();
}

/// PROC-40 … PROC-42.
#[tokio::test]
async fn the_documented_rights_of_the_controllers_accounts_are_enough() {
    let cluster = Setup::without_provider()
        .flag("--use-service-account-credentials")
        .prepare()
        .await;
    let mut without = cluster.replica("without").await;
    let status = without.controller.ended().await;
    assert_ne!(status.code(), Some(0));
    let log = without.controller.log();
    let sentence = "no token for the service account kube-system/node-controller";
    let mut lines = log.lines();
    let line = lines.rfind(|line| line.contains(sentence));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("docs/rbac.md"), "{line}");
    assert!(line.contains("\"serviceaccounts/token\""), "{line}");

    // Instead of the others: the process needs none of the accounts' rights.
    let user = "manager-of-accounts";
    let accounts = Rights::documented(ACCOUNTS).of(user);
    accounts.grant(&cluster.plane).await;
    let mut replica = cluster.part("with").user(user).start().await;
    replica.leads().await;
    replica.own_node(&cluster, "allowed").await;
    cluster.synced("allowed").await;
    serve_a_service(&cluster, "allowed").await;
    elected(&cluster, &replica.identity().await).await;
    replica.was_allowed_everything();
    let service_accounts: Api<ServiceAccount> = Api::namespaced(cluster.admin(), SYSTEM);
    for account in ["node-controller", "service-controller"] {
        service_accounts.get(account).await.unwrap();
    }
    // Requests with an account's token: those about nodes and Services, neither the stores nor the
    // election.
    let requests = replica.proxy.requests();
    for (path, as_account) in [
        ("/nodes/allowed", true),
        ("/nodes/allowed/status", true),
        ("/namespaces/default/events", true),
        ("/namespaces/kube-system/events", false),
        ("/leases", false),
        ("/api/v1/nodes", false),
        ("/services/allowed/status", true),
        ("/api/v1/services", false),
    ] {
        let mut requests = requests.iter();
        let request = requests.find(|request| request.path.ends_with(path));
        let shows_token = request.unwrap().headers.contains_key("authorization");
        assert_eq!(shows_token, as_account, "{path}");
    }
    replica.controller.terminate().await;
    accounts.revoke(&cluster.plane).await;
}

#[tokio::test]
async fn a_missing_right_is_named_with_its_subject() {
    let cluster = Setup::without_provider().prepare().await;
    for (resource, verb) in [
        ("namespaces", "get"),
        ("nodes/status", "patch"),
        ("services", "watch"),
        ("services/status", "patch"),
        ("events", "create"),
        ("leases", "get"),
        ("configmaps", "get"),
        ("tokenreviews", "create"),
        ("subjectaccessreviews", "create"),
    ] {
        let user = format!("without-{}", resource.replace('/', "-"));
        let rights = Rights::documented(ALWAYS).of(&user).without(resource);
        rights.grant(&cluster.plane).await;
        let elects = format!("--leader-elect={}", resource == "leases");
        let replica = cluster.part(&user).user(&user).flag("-v=2").flag(&elects);
        let mut replica = replica.start().await;
        match resource {
            "nodes/status" | "events" => replica.own_node(&cluster, &user).await,
            "services/status" => ask_for_load_balancer(&cluster, &user).await,
            "configmaps" => {
                let status = replica.controller.ended().await;
                assert_eq!(status.code(), Some(1), "{status}");
            }
            "tokenreviews" => drop(replica.port.with_token("x").gets("/healthz", 401).await),
            "subjectaccessreviews" => drop(replica.port.anonymous().gets("/metrics", 500).await),
            _ => {}
        }
        let sentence = format!("User \"{user}\" cannot {verb} resource \"{resource}\"");
        let line = until(&format!("a line with {sentence:?}"), async || {
            let log = replica.controller.log();
            let mut lines = log.lines();
            let line = lines.find(|line| line.contains(&sentence));
            line.map(str::to_owned).ok_or(log)
        })
        .await;
        assert!(line.contains("WARN") || line.contains("ERROR"), "{line}");
        if resource == "services" {
            let ready = replica.port.anonymous().gets("/readyz?verbose", 500).await;
            let failed = "[-]watch-services failed";
            assert!(ready.body.contains(failed), "{}", ready.body);
        }
        if resource == "services/status" {
            delete_service(&cluster, &user).await;
        }
        rights.revoke(&cluster.plane).await;
    }
}

/// 200 nodes would say so 200 times, and again with each try.
#[tokio::test]
async fn a_right_that_all_nodes_need_is_missed_in_one_line() {
    const NODES: usize = 30;
    let cluster = Setup::without_provider().prepare().await;
    let rights = Rights::documented(ALWAYS)
        .of("silent")
        .without("nodes/status");
    rights.grant(&cluster.plane).await;
    let replica = cluster
        .part("silent")
        .user("silent")
        .flag("--leader-elect=false");
    let replica = replica.start().await;
    for number in 0..NODES {
        replica
            .own_node(&cluster, &format!("silent-{number}"))
            .await;
    }
    let refused = |count: usize| {
        let requests = replica.proxy.requests();
        let requests = requests.iter().filter(|request| answered(request, 403));
        let refusals = requests.count();
        holds(refusals >= count, || format!("{refusals} refusals"))
    };
    until("each node is refused", async || refused(NODES)).await;
    // The second try of each comes no sooner than five seconds later.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(refused(NODES + NODES / 2).is_err());
    let missing = "cannot patch resource \"nodes/status\"";
    let log = replica.controller.log();
    let lines = log.lines().filter(|line| line.contains("WARN"));
    let lines: Vec<_> = lines.filter(|line| line.contains(missing)).collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    rights.revoke(&cluster.plane).await;
}
