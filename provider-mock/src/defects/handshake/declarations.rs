//! Declarations beyond their limits, and those that are not kept.

use outrigger_api::v1::{
    CallClass, DependencyStatus, EffectsCapability, GetStatusRequest, HandshakeRequest,
    HandshakeResponse, QuotaStatus, RateLimit, Readiness,
};
use tonic::Status;

use crate::defects::Defect;
use crate::defects::hook::On;

pub(super) fn defects() -> Vec<Defect> {
    let handshake = |name, change: fn(&mut HandshakeResponse)| {
        let change = move |_: &HandshakeRequest, answer: &mut _| change(answer);
        Defect::new(name).answer(change)
    };
    vec![
        handshake("many-prefixes", |answer| {
            let prefixes = (0..65).map(|number| format!("mock-{number}.example/"));
            answer.service_annotation_prefixes = prefixes.collect();
        }),
        Defect::new("selector-as-label-key").declares(|declared| {
            let load_balancers = declared.load_balancers.get_or_insert_default();
            load_balancers.target_label_keys = vec!["topology.kubernetes.io/zone=a".to_owned()];
        }),
        handshake("tiny-messages", |answer| {
            answer.max_receive_message_bytes = 65_535;
        })
        .refuses_call(On::Every, |call| {
            let text = "received message larger than max";
            (call.largest() > 65_535).then(|| Status::resource_exhausted(text))
        }),
        Defect::new("long-visibility-delay").declares(|declared| {
            let instances = declared.instances.get_or_insert_default();
            instances.visibility_delay = Some(prost_types::Duration {
                seconds: 25 * 3600,
                nanos: 0,
            });
        }),
        Defect::new("long-revision").declares(|declared| {
            let load_balancers = declared.load_balancers.get_or_insert_default();
            load_balancers.configuration_revision = "flavor=small,".repeat(6);
        }),
        Defect::new("effects-of-kubernetes").declares(|declared| {
            let effects: &mut EffectsCapability = declared.effects.get_or_insert_default();
            let prefixes = &mut effects.node_annotation_prefixes;
            prefixes.push("node.kubernetes.io/".to_owned());
        }),
        handshake("two-rate-limits", |answer| {
            let limit = |qps| RateLimit {
                call_class: CallClass::Instances.into(),
                qps,
                burst: 10,
            };
            answer.rate_limits = vec![limit(10.0), limit(100.0)];
        }),
        Defect::new("many-quotas").answer::<GetStatusRequest>(|_, answer| {
            let quota = |number| QuotaStatus {
                name: format!("quota-{number}"),
                ..QuotaStatus::default()
            };
            answer.quotas = (0..33).map(quota).collect();
        }),
        Defect::new("times-in-milliseconds").answer::<GetStatusRequest>(|_, answer| {
            answer.dependencies.push(DependencyStatus {
                name: "cloud-api".to_owned(),
                readiness: Readiness::Ready.into(),
                last_success: Some(prost_types::Timestamp {
                    seconds: 1_790_000_000_000,
                    nanos: 2_000_000_000,
                }),
                ..DependencyStatus::default()
            });
        }),
        Defect::new("undeclared-volumes").declares(|declared| {
            declared.volumes = None;
        }),
    ]
}
