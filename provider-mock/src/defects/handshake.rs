//! Mistakes of the handshake and of the heartbeat.

mod declarations;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outrigger_api::v1::{
    BatchGetInstancesRequest, CallContext, ErrorReason, GetStatusRequest, HandshakeRequest, Node,
    Readiness, UpdateLoadBalancerNodesRequest,
};
use outrigger_api::{MINOR, MethodRequest};
use parking_lot::Mutex;
use tokio::time::sleep;
use tonic::Status;

use super::hook::On;
use super::{Defect, kept, refusal};
use crate::exchange::{Answer, Call};

pub(super) fn defects() -> Vec<Defect> {
    let mut defects = vec![
        Defect::new("own-minor").answer::<HandshakeRequest>(|_, answer| {
            answer.minor = 1_000_000;
        }),
        Defect::new("any-minor").request(|request: &mut HandshakeRequest| {
            if request.min_minor > MINOR {
                request.min_minor = MINOR;
            }
        }),
        Defect::new("no-range").request(|request: &mut HandshakeRequest| {
            if request.max_minor == 0 {
                (request.min_minor, request.max_minor) = (1, MINOR);
            }
        }),
        Defect::new("name-for-people").answer::<HandshakeRequest>(|_, answer| {
            let prefix = format!("{}://", answer.provider_name);
            "Mock Cloud".clone_into(&mut answer.provider_name);
            let declared = answer.capabilities.get_or_insert_default();
            let instances = declared.instances.get_or_insert_default();
            instances.provider_id_prefixes = vec![prefix];
        }),
        Defect::new("long-boot-id")
            .answer::<HandshakeRequest>(|_, answer| {
                answer.boot_id.push_str(&"x".repeat(64));
            })
            .answer::<GetStatusRequest>(|_, answer| {
                answer.boot_id.push_str(&"x".repeat(64));
            }),
        Defect::new("boot-id-of-status").answer::<GetStatusRequest>(|_, answer| {
            answer.boot_id.push_str("-status");
        }),
        boot_id_of_each_handshake(),
        needs_handshake::<GetStatusRequest>("status-after-handshake"),
        Defect::new("handshake-needs-uid").refuses(|request: &HandshakeRequest| {
            let uid = request.cluster.as_ref().map(|cluster| &cluster.uid);
            let text = "cluster.uid is required";
            let unknown = uid.is_none_or(String::is_empty);
            unknown.then(|| refusal(ErrorReason::InvalidRequest, text))
        }),
        Defect::new("slow-status").call::<GetStatusRequest, _>(|call, next| async move {
            sleep(Duration::from_millis(150)).await;
            next.serve(call).await
        }),
        status_of_the_cloud(),
        Defect::new("broken-for-good")
            .answer::<GetStatusRequest>(|_, answer| {
                answer.set_readiness(Readiness::Broken);
            })
            .answered(On::Health, not_serving),
        Defect::new("no-health").refuses_call(On::Health, |_| Some(Status::unimplemented(""))),
        Defect::new("health-of-its-own").answered(On::Health, not_serving),
        Defect::new("update-is-missing")
            .refuses(|_: &UpdateLoadBalancerNodesRequest| Some(Status::unimplemented(""))),
        needs_handshake::<BatchGetInstancesRequest>("session-of-each-connection"),
    ];
    defects.extend(declarations::defects());
    defects
}

fn not_serving(_: &Call, mut answer: Answer) -> Answer {
    answer.each(|message: &mut HealthCheck| message.status = NOT_SERVING);
    answer
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheck {
    #[prost(int32, tag = "1")]
    status: i32,
}

const NOT_SERVING: i32 = 2;

fn boot_id_of_each_handshake() -> Defect {
    let latest = kept(AtomicU64::new(0));
    let boot_id = |number| format!("boot-of-handshake-{number}");
    Defect::new("boot-id-of-each-handshake")
        .answer::<HandshakeRequest>(move |_, answer| {
            answer.boot_id = boot_id(latest.fetch_add(1, Ordering::Relaxed) + 1);
        })
        .answer::<GetStatusRequest>(move |_, answer| {
            answer.boot_id = boot_id(latest.load(Ordering::Relaxed));
        })
}

/// A method is refused on each connection without a handshake.
fn needs_handshake<Q: MethodRequest>(name: &'static str) -> Defect {
    let shaken: &Mutex<BTreeSet<u64>> = kept(Mutex::default());
    Defect::new(name)
        .call::<HandshakeRequest, _>(move |call, next| {
            shaken.lock().insert(call.connection());
            next.serve(call)
        })
        .refuses_call(On::of::<Q>(), move |call| {
            let is_shaken = shaken.lock().contains(&call.connection());
            let text = "no handshake on this connection";
            (!is_shaken).then(|| refusal(ErrorReason::NotHandshaked, text))
        })
}

/// Remembers the cluster of the last handshake with a UID, as the context of calls of the defect's own.
fn remembering(defect: Defect) -> (Defect, &'static Mutex<CallContext>) {
    let cluster: &Mutex<CallContext> = kept(Mutex::default());
    let defect = defect.request(move |shaken: &mut HandshakeRequest| {
        if let Some(named) = shaken.cluster.as_ref().filter(|one| !one.uid.is_empty()) {
            *cluster.lock() = CallContext {
                request_id: "of-the-handshake".to_owned(),
                cluster_name: named.name.clone(),
                cluster_uid: named.uid.clone(),
            };
        }
    });
    (defect, cluster)
}

/// A defect that takes the cluster of the handshake for that of a call, and the change of a context that does so.
pub(super) fn of_the_handshake(
    defect: Defect,
) -> (
    Defect,
    impl Fn(&mut CallContext) + Clone + Send + Sync + 'static,
) {
    let (defect, handshake) = remembering(defect);
    let change = move |context: &mut CallContext| {
        context
            .cluster_uid
            .clone_from(&handshake.lock().cluster_uid);
    };
    (defect, change)
}

/// A lookup as a check of the cloud.
fn status_of_the_cloud() -> Defect {
    let (defect, handshake) = remembering(Defect::new("status-of-the-cloud"));
    defect.call::<GetStatusRequest, _>(move |call, next| {
        let check = BatchGetInstancesRequest {
            context: Some(handshake.lock().clone()),
            items: vec![Node {
                name: "status".to_owned(),
                uid: "status".to_owned(),
                ..Node::default()
            }],
            ..BatchGetInstancesRequest::default()
        };
        async move {
            let checked = next.correct(call.other(&check)).await;
            // Before the first handshake the cloud is not asked.
            if checked.code() == tonic::Code::Unavailable {
                return checked;
            }
            next.serve(call).await
        }
    })
}
