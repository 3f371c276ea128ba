//! The HTTPS server, with authentication and authorization (HTTP-1 … HTTP-12, AUTH-1 … AUTH-7).

use kube::{Api, api::DynamicObject};
use serde_json::{Value, json};

use crate::{
    caller::{Answer, Caller},
    replica::Replica,
    rights::api,
    stage::{Backstage, Setup},
};

async fn serving(flags: &[&str]) -> (Backstage, Replica) {
    let cluster = Setup::without_provider().flags(flags).prepare().await;
    let mut replica = cluster.replica("serving").await;
    replica.leads().await;
    let loop_runs = ["controller started", "cloud-node-controller"];
    replica.controller.says(&loop_runs).await;
    // From now on it knows who may see what.
    replica.port.anonymous().gets("/metrics", 403).await;
    (cluster, replica)
}

impl Replica {
    async fn admin(&self, cluster: &Backstage) -> Caller {
        let group = Some("system:masters");
        let caller = self.port.with_certificate(&cluster.plane, "admin", group);
        caller.await
    }
}

/// The message of a `Status`.
fn refusal(answer: &Answer) -> String {
    let status: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(status["kind"], "Status", "{answer:?}");
    assert_eq!(status["code"], answer.code, "{answer:?}");
    status["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn health_is_open_to_all_and_a_provider_that_is_away_is_a_matter_of_readiness() {
    let (cluster, mut replica) = serving(&[]).await;
    let anyone = replica.port.anonymous();
    let admin = replica.admin(&cluster).await;
    for path in ["/healthz", "/livez", "/readyz"] {
        // The stores may not have been filled yet.
        let answer = anyone.gets(path, 200).await;
        assert_eq!(answer.body, "ok", "{path}");
        let verbose = anyone.get(&format!("{path}?verbose")).await.body;
        assert!(
            verbose.contains("[+]cloud-node-controller ok\n"),
            "{verbose}"
        );
        let ready = path == "/readyz";
        for check in ["provider", "watch-nodes", "watch-services"] {
            let shown = format!("[+]{check} ok\n");
            assert_eq!(verbose.contains(&shown), ready, "{verbose}");
        }
        let passed = format!("{} check passed\n", &path[1..]);
        assert!(verbose.ends_with(&passed), "{verbose}");
    }
    // HTTP-3, Q-25: one check alone is for those who may see it.
    assert_eq!(anyone.code("/healthz/cloud-node-controller").await, 403);
    assert_eq!(admin.code("/healthz/cloud-node-controller").await, 200);

    replica.mock.kill().await;
    let answer = anyone.gets("/readyz", 500).await;
    assert!(
        answer
            .body
            .contains("[-]provider failed: reason withheld\n"),
        "{answer:?}"
    );
    assert_eq!(anyone.code("/readyz?exclude=provider").await, 200);
    assert_eq!(anyone.code("/healthz").await, 200);
    assert_eq!(anyone.code("/livez").await, 200);
    let reason = admin.get("/readyz/provider").await;
    assert_eq!(reason.code, 500);
    assert!(reason.body.contains("provider.sock"), "{reason:?}");
    replica.mock.start(&[]).await;
    anyone.gets("/readyz", 200).await;
}

/// A Pod whose API server is not there is alive, and not ready.
#[tokio::test]
async fn health_is_answered_before_the_api_server_is_there() {
    let cluster = Setup::without_provider().prepare().await;
    let mut replica = cluster.part("early").without_api_server().start().await;
    let anyone = replica.port.anonymous();
    for path in ["/healthz", "/livez"] {
        let answer = anyone.get(path).await;
        assert_eq!((answer.code, &*answer.body), (200, "ok"), "{path}");
    }
    let answer = anyone.get("/readyz").await;
    assert_eq!(answer.code, 500);
    let failed = "[-]apiserver failed: reason withheld\n";
    assert!(answer.body.contains(failed), "{answer:?}");
    // Nothing else can be reviewed.
    assert_eq!(anyone.code("/metrics").await, 500);

    replica.proxy.accept_connections().await;
    replica.leads().await;
    anyone.gets("/readyz", 200).await;
    anyone.gets("/metrics", 403).await;
    replica.controller.terminate().await;
}

/// A standby is as healthy as a leader.
#[tokio::test]
async fn a_standby_is_healthy_and_shows_that_it_does_not_lead() {
    let (cluster, mut leader) = serving(&[]).await;
    let mut standby = cluster.replica("standby").await;
    standby.follows(&mut leader).await;
    let anyone = standby.port.anonymous();
    for path in ["/healthz", "/livez", "/readyz"] {
        anyone.gets(path, 200).await;
    }
    let verbose = anyone.get("/healthz?verbose").await.body;
    assert!(!verbose.contains("cloud-node-controller"), "{verbose}");
    for (replica, leads) in [(&leader, 1), (&standby, 0)] {
        let admin = replica.admin(&cluster).await;
        let metrics = admin.get("/metrics").await.body;
        let line =
            format!("leader_election_master_status{{name=\"cloud-controller-manager\"}} {leads}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[tokio::test]
async fn metrics_need_a_right() {
    let (cluster, replica) = serving(&[]).await;
    replica.own_node(&cluster, "counted").await;
    cluster.synced("counted").await;
    let port = &replica.port;

    let admin = replica.admin(&cluster).await;
    let metrics = admin.get("/metrics").await;
    assert_eq!(metrics.code, 200);
    for line in [
        "workqueue_adds_total{name=\"Nodes\"} ",
        "outrigger_provider_state",
        "rest_client_requests_total{",
    ] {
        assert!(metrics.body.contains(line), "{line}: {}", metrics.body);
    }

    // AUTH-7.
    let scraper = port.with_token(&cluster.account("scraper").await);
    let answer = scraper.get("/metrics").await;
    assert_eq!(answer.code, 403);
    let forbidden = "User \"system:serviceaccount:default:scraper\" cannot get path \"/metrics\"";
    assert!(refusal(&answer).contains(forbidden), "{answer:?}");
    for object in scraper_rights() {
        let api: Api<DynamicObject> = api(&cluster.admin(), &object);
        let object = serde_json::from_value(object).unwrap();
        api.create(&kube::api::PostParams::default(), &object)
            .await
            .unwrap();
    }
    let metrics = scraper.gets("/metrics", 200).await;
    assert!(metrics.body.contains("workqueue_adds_total"));
    assert_eq!(scraper.code("/debug/").await, 403);
}

fn scraper_rights() -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "scraper"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "scraper"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "scraper"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "scraper"}],
    });
    [role, binding]
}
