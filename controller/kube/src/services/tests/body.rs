//! Patches as the API server reads them.

use outrigger_core::{
    condition::Condition,
    service::{Ingress, PortStatus, TYPE_LOAD_BALANCER},
};

use super::super::*;

fn service(finalizers: &[&str], conditions: &[&str]) -> ServiceView {
    let conditions = conditions.iter().map(|kind| json!({"type": kind}));
    let service = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "finalizers": finalizers},
        "spec": {"type": TYPE_LOAD_BALANCER},
        "status": {"conditions": conditions.collect::<Vec<_>>()},
    });
    serde_json::from_value(service).unwrap()
}

fn nothing() -> StatusPatch {
    StatusPatch {
        uid: "u".into(),
        finalizer: None,
        annotations: Vec::new(),
        conditions: Vec::new(),
        ingress: None,
    }
}

fn set(kind: &str) -> ConditionChange {
    ConditionChange::Set(Condition {
        kind: kind.into(),
        status: "True".into(),
        reason: "Ready".into(),
        message: "".into(),
        last_transition_time: Some("2026-11-21T10:00:00Z".parse().unwrap()),
    })
}

/// The body of a patch beside the UID: over these finalizers and conditions.
fn body_over(finalizers: &[&str], conditions: &[&str], patch: &StatusPatch) -> Value {
    let newest = service(finalizers, conditions);
    let planned_on = ServiceView {
        resource_version: "7".into(),
        ..newest.clone()
    };
    let mut body = body(patch, &planned_on, &newest);
    let metadata = body["metadata"].as_object_mut().unwrap();
    assert_eq!(metadata.remove("uid"), Some(json!("u")));
    // Nothing that came between may have made it wrong.
    let takes_away = patch.finalizer == Some(FinalizerChange::Remove);
    let presumed = takes_away.then(|| json!("7"));
    assert_eq!(metadata.remove("resourceVersion"), presumed);
    body
}

#[test]
fn s_70_finalizers_are_named_one_by_one() {
    let with = |finalizer| StatusPatch {
        finalizer: Some(finalizer),
        ..nothing()
    };
    for (there, finalizer, expected) in [
        (
            &[][..],
            FinalizerChange::Add,
            json!({"finalizers": [FINALIZER]}),
        ),
        (
            &["a/b", "c/d"],
            FinalizerChange::Add,
            json!({
                "finalizers": [FINALIZER],
                "$setElementOrder/finalizers": ["a/b", "c/d", FINALIZER],
            }),
        ),
        (
            &[FINALIZER],
            FinalizerChange::Remove,
            json!({"$deleteFromPrimitiveList/finalizers": [FINALIZER]}),
        ),
        (
            &[FINALIZER, "a/b"],
            FinalizerChange::Remove,
            json!({"$deleteFromPrimitiveList/finalizers": [FINALIZER]}),
        ),
    ] {
        let body = body_over(there, &[], &with(finalizer));
        assert_eq!(body, json!({"metadata": expected}), "{there:?}");
    }
}

#[test]
fn s_71_addresses_are_replaced_or_cleared_and_come_through_untouched() {
    let with = |ingress: &[Ingress]| StatusPatch {
        ingress: Some(ingress.into()),
        ..nothing()
    };
    let ip = Ingress {
        ip: "192.0.2.7".into(),
        ..Ingress::default()
    };
    let proxy = Ingress {
        ip_mode: Some("Proxy".into()),
        ports: [
            PortStatus {
                port: 80,
                protocol: "TCP".into(),
                error: None,
            },
            PortStatus {
                port: 53,
                protocol: "UDP".into(),
                error: Some("example.com/Refused".into()),
            },
        ]
        .into(),
        ..ip.clone()
    };
    let named = Ingress {
        hostname: "web.example.com".into(),
        ..Ingress::default()
    };
    for (ingress, expected) in [
        (&[][..], Value::Null),
        (&[ip], json!([{"ip": "192.0.2.7"}])),
        (
            &[named, proxy],
            json!([
                {"hostname": "web.example.com"},
                {"ip": "192.0.2.7", "ipMode": "Proxy", "ports": [
                    {"port": 80, "protocol": "TCP"},
                    {"port": 53, "protocol": "UDP", "error": "example.com/Refused"},
                ]},
            ]),
        ),
    ] {
        assert_eq!(
            body_over(&[], &[], &with(ingress)),
            json!({"metadata": {}, "status": {"loadBalancer": {"ingress": expected}}})
        );
    }
}

#[test]
fn annotations_and_conditions_are_named_one_by_one() {
    let patch = StatusPatch {
        annotations: vec![
            ("example.com/a".into(), Some("1".into())),
            ("example.com/b".into(), None),
        ],
        conditions: vec![
            set("x/New"),
            ConditionChange::Remove("x/Old".into()),
            set("x/Both"),
        ],
        ..nothing()
    };
    let written = |kind| {
        json!({
            "type": kind, "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-11-21T10:00:00Z",
        })
    };
    assert_eq!(
        body_over(&[], &["y/Other", "x/Old", "x/Both"], &patch),
        json!({
            "metadata": {"annotations": {"example.com/a": "1", "example.com/b": null}},
            "status": {
                "conditions": [
                    {"type": "x/Old", "$patch": "delete"}, written("x/Both"), written("x/New"),
                ],
                "$setElementOrder/conditions": [
                    {"type": "y/Other"}, {"type": "x/Both"}, {"type": "x/New"},
                ],
            },
        })
    );
}
