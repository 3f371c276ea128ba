//! The rights that `docs/rbac.md` lists and `deploy/` grants are enough, and a right that is missing is named.

use http::Method;
use k8s_openapi::api::core::v1::Node;
use outrigger_testbed::faults::Outcome;
use rustix::process::geteuid;

use crate::{
    cluster::{Cluster, services::load_balancer},
    mock::instance,
    replica::Replica,
    rights::{ALWAYS, Rights, shipped_flags},
    routes::network,
    stage::{Backstage, Setup},
    wait::{holds, until},
};

/// Has a load balancer made and deleted.
async fn serve_a_service(cluster: &Cluster, name: &str) {
    cluster.serve(load_balancer(name)).await;
    cluster.delete_service(name).await;
    cluster.service_is_gone(name).await;
}

async fn elected(cluster: &Cluster, replica: &mut Replica) {
    let identity = replica.identity().await;
    cluster
        .lease_says(&format!("{identity} became leader"))
        .await;
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
    elected(&cluster, &mut replica).await;
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

#[tokio::test]
async fn a_missing_right_is_named_with_its_subject() {
    let cluster = Setup::without_provider().prepare().await;
    for (resource, verb) in [
        ("namespaces", "get"),
        ("nodes/status", "patch"),
        ("services", "list"),
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
        let replica = replica.start().await;
        match resource {
            "nodes/status" | "events" => replica.own_node(&cluster, &user).await,
            "services/status" => {
                cluster.create_service(load_balancer(&user)).await;
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
            cluster.delete_service(&user).await;
            cluster.service_is_gone(&user).await;
        }
        rights.revoke(&cluster.plane).await;
    }
}

/// Parts of the rules that are there whichever loops run.
const EVERY: [&str; 5] = [
    "start",
    "stores",
    "all loops",
    "leader election",
    "HTTPS server",
];

#[tokio::test]
async fn the_shipped_manifests_grant_what_their_flags_need() {
    let cluster = Setup::without_provider().prepare().await;
    let rights = Rights::shipped().of("shipped");
    rights.grant(&cluster.plane).await;
    let mut part = cluster.part("shipped").user("shipped");
    // The port is the test's, and so are the provider's user and the volume of the Pod.
    let own = [
        "--secure-port=",
        "--provider-user=",
        "--leader-elect-identity-file=",
    ];
    let flags = shipped_flags().into_iter();
    for flag in flags.filter(|flag| !own.iter().any(|own| flag.starts_with(own))) {
        part = part.flag(&flag);
    }
    part = part.flag(&format!("--provider-user={}", geteuid().as_raw()));
    let file = cluster.dir().join("identities");
    part = part.flag(&format!("--leader-elect-identity-file={}", file.display()));
    let mut replica = part.start().await;
    replica.leads().await;
    replica.own_node(&cluster, "shipped").await;
    cluster.synced("shipped").await;
    serve_a_service(&cluster, "shipped").await;
    elected(&cluster, &mut replica).await;
    replica.port.anonymous().gets("/readyz", 200).await;
    replica.controller.terminate().await;
    replica.was_allowed_everything();
    rights.revoke(&cluster.plane).await;
}

/// Starts a replica with one loop and the rights of its part, and lets it do its work.
async fn alone(
    cluster: &Backstage,
    part: &str,
    flags: &[&str],
    provider: &[&str],
    work: impl AsyncFnOnce(&Replica),
) {
    let parts = [&EVERY[..], &[part]].concat();
    let rights = Rights::of_parts(&parts).of(part);
    rights.grant(&cluster.plane).await;
    let only = format!("--controllers={part}-controller");
    let mut replica = cluster.part(part).user(part).without_provider().flag(&only);
    for flag in flags {
        replica = replica.flag(flag);
    }
    let mut replica = replica.start().await;
    let provider: Vec<_> = provider.iter().map(|&flag| flag.to_owned()).collect();
    replica.mock.start(&provider).await;
    replica.leads().await;
    work(&replica).await;
    replica.controller.terminate().await;
    replica.was_allowed_everything();
    rights.revoke(&cluster.plane).await;
}

#[tokio::test]
async fn each_loop_works_with_the_rights_of_its_part() {
    let cluster = Setup::without_provider().prepare().await;
    let comes = async |what: &str, is_there: &dyn Fn(&Node) -> bool| {
        until(what, async || {
            let node = cluster.node("parted").await;
            holds(is_there(&node), || format!("{:?}", node.status))
        })
        .await;
    };
    alone(&cluster, "cloud-node", &[], &[], async |replica| {
        replica.own_node(&cluster, "parted").await;
        cluster.synced("parted").await;
    })
    .await;
    let pods = "--cluster-cidr=10.9.0.0/16";
    let ipam = ["--allocate-node-cidrs", pods];
    alone(&cluster, "node-ipam", &ipam, &[], async |_| {
        let has_cidr = |node: &Node| {
            node.spec
                .as_ref()
                .is_some_and(|spec| spec.pod_cidr.is_some())
        };
        comes("the Pod CIDR", &has_cidr).await;
    })
    .await;
    alone(
        &cluster,
        "node-route",
        &[pods],
        &["--routes"],
        async |replica| {
            replica.mock.create(instance("parted")).await;
            let has_route = |node: &Node| network(node) == "False RouteCreated";
            comes("the condition of its route", &has_route).await;
        },
    )
    .await;
    alone(&cluster, "service-lb", &[], &[], async |_| {
        serve_a_service(&cluster, "parted").await;
    })
    .await;
}
