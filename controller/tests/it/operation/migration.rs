//! Two Leases in one process (PROC-30 … PROC-36).

use std::{fs, time::Duration};

use outrigger_testbed::nodes::Machine;

use crate::{
    mock::instance,
    replica::{LEASE, Replica},
    rights::{MIGRATION, Rights},
    stage::{Backstage, Setup},
    wait::{holds, until},
};

const MIGRATION_LEASE: &str = "cloud-provider-extraction-migration";

/// A replica that knows of the migration of cloud-node, by this component.
async fn migrating(component: &str) -> (Backstage, Replica) {
    let cluster = Setup::without_provider().prepare().await;
    Rights::documented(MIGRATION).grant(&cluster.plane).await;
    let config = cluster.dir().join("migration.yaml");
    let text = format!(
        "apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: {MIGRATION_LEASE}
controllerLeaders:
- name: cloud-node-controller
  component: {component}
"
    );
    fs::write(&config, text).unwrap();
    let cluster = cluster
        .flag("--enable-leader-migration")
        .flag(&format!("--leader-migration-config={}", config.display()));
    let mut replica = cluster.replica("migrating").await;
    replica.leads().await;
    (cluster, replica)
}

async fn is_held(cluster: &Backstage, lease: &str, identity: &str) {
    until(&format!("{lease} is held"), async || {
        let object = cluster.leases().get_opt(lease).await.unwrap();
        let holder = object.and_then(|lease| lease.spec?.holder_identity);
        holds(holder.as_deref() == Some(identity), || {
            format!("{holder:?}")
        })
    })
    .await;
}

#[tokio::test]
async fn proc_35_a_loop_that_moves_runs_under_the_second_lease() {
    let (cluster, mut replica) = migrating("cloud-controller-manager").await;
    let identity = replica.identity().await;
    is_held(&cluster, LEASE, &identity).await;
    is_held(&cluster, MIGRATION_LEASE, &identity).await;
    replica.own_node(&cluster, "moved").await;
    cluster.initialized("moved").await;
    replica.was_allowed_everything();
    // The order is upstream's.
    let first = |lease| replica.claims(lease)[0].started;
    assert!(first(LEASE) < first(MIGRATION_LEASE));

    // PROC-13.
    cluster
        .take_lease(MIGRATION_LEASE, "kube-controller-manager")
        .await;
    let status = replica.controller.ended().await;
    assert_eq!(status.code(), Some(1), "{status}");
    let log = replica.controller.log();
    let sentence = r#""command failed" err="migration leaderelection lost""#;
    assert!(log.contains(sentence), "{log}");
    let lease = cluster.lease(MIGRATION_LEASE).await;
    assert_eq!(
        lease.holder_identity.as_deref(),
        Some("kube-controller-manager")
    );
    Rights::documented(MIGRATION).revoke(&cluster.plane).await;
}

#[tokio::test]
async fn proc_34_a_loop_of_another_component_does_not_run_here() {
    let (cluster, mut replica) = migrating("kube-controller-manager").await;
    let identity = replica.identity().await;
    is_held(&cluster, LEASE, &identity).await;
    is_held(&cluster, MIGRATION_LEASE, &identity).await;
    replica.mock.create(instance("elsewhere")).await;
    cluster.register(&Machine::new("elsewhere")).await;
    cluster
        .stays_tainted("elsewhere", Duration::from_millis(1_500))
        .await;
    assert!(replica.writes_of("elsewhere").is_empty());
    let log = replica.controller.log();
    for event in ["started", "is disabled"] {
        let line = format!("\"controller {event}\" controller=\"cloud-node-controller\"");
        assert!(!log.contains(&line), "{log}");
    }
    replica.controller.terminate().await;
    Rights::documented(MIGRATION).revoke(&cluster.plane).await;
}
