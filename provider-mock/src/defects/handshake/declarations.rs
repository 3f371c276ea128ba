//! Declarations beyond their limits, and those that are not kept.

use outrigger_api::v1::{
    CallClass, DependencyStatus, EffectsCapability, GetStatusRequest, HandshakeRequest,
    HandshakeResponse, QuotaStatus, RateLimit, Readiness,
};
use tonic::Status;

use crate::defects::Defect;
use crate::defects::hook::On;
use crate::exchange::Answer;

pub(super) fn defects() -> Vec<Defect> {
    let declares = |name, sentence, cases, change: fn(&mut HandshakeResponse)| {
        let change = move |_: &HandshakeRequest, answer: &mut _| change(answer);
        Defect::new(name, sentence, cases).answer(change)
    };
    vec![
        declares(
            "many-prefixes",
            "The provider declares 65 prefixes of annotations.",
            &["IDN-20"],
            |answer| {
                let prefixes = (0..65).map(|number| format!("mock-{number}.example/"));
                answer.service_annotation_prefixes = prefixes.collect();
            },
        ),
        declares(
            "tiny-messages",
            "The provider accepts messages of 65,535 bytes at most.",
            &["IDN-21"],
            |answer| answer.max_receive_message_bytes = 65_535,
        )
        .around(On::Every, |call, next| async move {
            if call.largest() > 65_535 {
                let text = "received message larger than max";
                return Answer::failed(Status::resource_exhausted(text));
            }
            next.serve(call).await
        }),
        declares(
            "long-visibility-delay",
            "The provider declares a visibility delay of 25 hours.",
            &["IDN-22"],
            |answer| {
                let declared = answer.capabilities.get_or_insert_default();
                let instances = declared.instances.get_or_insert_default();
                instances.visibility_delay = Some(prost_types::Duration {
                    seconds: 25 * 3600,
                    nanos: 0,
                });
            },
        ),
        declares(
            "long-revision",
            "The configuration revision is the whole configuration.",
            &["IDN-23"],
            |answer| {
                let declared = answer.capabilities.get_or_insert_default();
                let load_balancers = declared.load_balancers.get_or_insert_default();
                load_balancers.configuration_revision = "flavor=small,".repeat(6);
            },
        ),
        declares(
            "effects-of-kubernetes",
            "The provider declares that it sets annotations of kubernetes.io on Nodes.",
            &["IDN-24"],
            |answer| {
                let declared = answer.capabilities.get_or_insert_default();
                let effects: &mut EffectsCapability = declared.effects.get_or_insert_default();
                let prefixes = &mut effects.node_annotation_prefixes;
                prefixes.push("node.kubernetes.io/".to_owned());
            },
        ),
        declares(
            "two-rate-limits",
            "The provider declares two rate limits for one class of calls.",
            &["IDN-25"],
            |answer| {
                let limit = |qps| RateLimit {
                    call_class: CallClass::Instances.into(),
                    qps,
                    burst: 10,
                };
                answer.rate_limits = vec![limit(10.0), limit(100.0)];
            },
        ),
        Defect::new(
            "many-quotas",
            "GetStatus names each quota of the account.",
            &["IDN-26"],
        )
        .answer::<GetStatusRequest>(|_, answer| {
            let quota = |number| QuotaStatus {
                name: format!("quota-{number}"),
                ..QuotaStatus::default()
            };
            answer.quotas = (0..33).map(quota).collect();
        }),
        Defect::new(
            "times-in-milliseconds",
            "GetStatus has times with milliseconds where seconds belong.",
            &["IDN-33"],
        )
        .answer::<GetStatusRequest>(|_, answer| {
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
        declares(
            "undeclared-volumes",
            "The provider serves volumes, and does not declare them.",
            &["IDN-31"],
            |answer| {
                let declared = answer.capabilities.get_or_insert_default();
                declared.volumes = None;
            },
        ),
    ]
}
