use super::*;

fn file(version: &str, body: &str) -> String {
    format!(
        "apiVersion: controllermanager.config.k8s.io/{version}\n\
         kind: LeaderMigrationConfiguration\n{body}"
    )
}

fn errors(text: &str) -> Vec<String> {
    Migration::parse(text).expect_err("it must be refused")
}

#[test]
fn proc_30_the_default_moves_three_controllers_and_q_24_by_any_name() {
    let migration = Migration::default();
    assert_eq!(migration.lease_name, "cloud-provider-extraction-migration");
    for (controller, lock) in [
        (Controller::CloudNode, Lock::Main),
        (Controller::CloudNodeLifecycle, Lock::Migration),
        (Controller::ServiceLb, Lock::Migration),
        (Controller::NodeRoute, Lock::Migration),
        (Controller::NodeIpam, Lock::Main),
    ] {
        assert_eq!(migration.lock(controller), lock, "{controller:?}");
    }
    for name in ["service-controller", "service", "service-lb-controller"] {
        let text = file(
            "v1",
            &format!("leaderName: x\ncontrollerLeaders: [{{name: {name}, component: '*'}}]"),
        );
        let (migration, warnings) = Migration::parse(&text).unwrap();
        assert_eq!(migration.lock(Controller::ServiceLb), Lock::Migration);
        assert_eq!(warnings, Vec::<String>::new());
    }
}

#[test]
fn proc_32_all_three_versions_are_read() {
    for (version, lock) in [
        ("v1", ""),
        ("v1beta1", "resourceLock: leases\n"),
        ("v1alpha1", "resourceLock: leases\n"),
    ] {
        let text = file(version, &format!("leaderName: x\n{lock}"));
        let (migration, _) = Migration::parse(&text).unwrap();
        assert_eq!(migration.lease_name, "x", "{version}");
    }
}

#[test]
fn proc_34_the_component_decides_the_lock() {
    let text = file(
        "v1",
        "leaderName: x\n\
         controllerLeaders:\n\
         - {name: route, component: cloud-controller-manager}\n\
         - {name: service, component: kube-controller-manager}\n\
         - {name: nodeipam, component: '*'}\n\
         - {name: garbage-collector, component: '*'}\n",
    );
    let (migration, warnings) = Migration::parse(&text).unwrap();
    assert_eq!(migration.lock(Controller::NodeRoute), Lock::Migration);
    assert_eq!(migration.lock(Controller::ServiceLb), Lock::Elsewhere);
    assert_eq!(migration.lock(Controller::NodeIpam), Lock::Migration);
    assert_eq!(migration.lock(Controller::CloudNode), Lock::Main);
    assert_eq!(
        warnings,
        [
            "controllerLeaders names \"garbage-collector\", which is no controller of this \
             program; it is left to others"
        ]
    );
}

#[test]
fn proc_33_mistakes_are_named() {
    assert_eq!(
        errors(&file(
            "v1alpha1",
            "leaderName: ''\ncontrollerLeaders: [{name: a}, {component: b}]"
        )),
        [
            "leaderName: Required value: leaderName must be set for LeaderMigrationConfiguration",
            "resourceLock: Invalid value: \"\": resource Lock must be one of 'leases' or \
             'endpoints'",
            "controllerLeaders[0].component: Required value",
            "controllerLeaders[1].name: Required value",
        ]
    );
    assert_eq!(
        errors(&file("v1", "leaderName: x\nresourceLock: leases")),
        ["unknown field \"resourceLock\": v1 has none, since the lock is always a Lease"]
    );
    assert_eq!(
        errors(&file("v1beta1", "leaderName: x\nresourceLock: endpoints")),
        [
            "resourceLock: Invalid value: \"endpoints\": Kubernetes has no such lock any more; \
             write leases"
        ]
    );
    assert_eq!(
        errors(&file("v2", "")),
        [
            "apiVersion is \"controllermanager.config.k8s.io/v2\"; it must be \
             controllermanager.config.k8s.io/v1, /v1beta1 or /v1alpha1"
        ]
    );
    assert_eq!(
        errors("apiVersion: controllermanager.config.k8s.io/v1\nkind: Foo"),
        ["kind is \"Foo\"; it must be LeaderMigrationConfiguration"]
    );
}

#[test]
fn proc_32_unknown_and_repeated_fields_are_errors() {
    let unknown = errors(&file("v1", "leaderName: x\nfoo: bar"));
    assert!(unknown[0].contains("foo"), "{unknown:?}");
    let repeated = errors(&file("v1", "leaderName: x\nleaderName: y"));
    assert!(repeated[0].contains("leaderName"), "{repeated:?}");
    assert_eq!(errors("[").len(), 1);
}
