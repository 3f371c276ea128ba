//! Mistakes of the handshake and of the heartbeat.

mod declarations;

use std::collections::BTreeSet;
use std::sync::Arc;
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
use super::{Defect, refusal};
use crate::exchange::{Answer, Call};

pub(super) fn defects() -> Vec<Defect> {
    let mut defects = vec![
        Defect::new(
            "own-minor",
            "The provider answers the minor that it was built with, whatever the controller speaks.",
            &["IDN-01"],
        )
        .answer::<HandshakeRequest>(|_, answer| {
            answer.minor = 1_000_000;
        }),
        Defect::new(
            "any-minor",
            "The provider shakes hands for every range of minors.",
            &["IDN-02"],
        )
        .request(|request: &mut HandshakeRequest| {
            if request.min_minor > MINOR {
                request.min_minor = MINOR;
            }
        }),
        Defect::new(
            "no-range",
            "The provider takes a range of minors from 0 to 0 for one without limits.",
            &["IDN-14"],
        )
        .request(|request: &mut HandshakeRequest| {
            if request.max_minor == 0 {
                (request.min_minor, request.max_minor) = (1, MINOR);
            }
        }),
        Defect::new(
            "name-for-people",
            "The provider's name is one for people, with capitals and a space.",
            &["IDN-03"],
        )
        .answer::<HandshakeRequest>(|_, answer| {
            let prefix = format!("{}://", answer.provider_name);
            "Mock Cloud".clone_into(&mut answer.provider_name);
            let declared = answer.capabilities.get_or_insert_default();
            let instances = declared.instances.get_or_insert_default();
            instances.provider_id_prefixes = vec![prefix];
        }),
        Defect::new(
            "long-boot-id",
            "The provider's boot_id is longer than 64 bytes.",
            &["IDN-04"],
        )
        .answer::<HandshakeRequest>(|_, answer| {
            answer.boot_id.push_str(&"x".repeat(64));
        })
        .answer::<GetStatusRequest>(|_, answer| {
            answer.boot_id.push_str(&"x".repeat(64));
        }),
        Defect::new(
            "boot-id-of-status",
            "The provider makes a boot_id of its own for GetStatus.",
            &["IDN-05"],
        )
        .answer::<GetStatusRequest>(|_, answer| {
            answer.boot_id.push_str("-status");
        }),
        boot_id_of_each_handshake(),
        needs_handshake::<GetStatusRequest>(
            "status-after-handshake",
            "The provider refuses GetStatus on a connection before the handshake.",
            // The calls to other authorities are such.
            &["IDN-07", "TRN-02"],
        ),
        Defect::new(
            "handshake-needs-uid",
            "The provider refuses a handshake as long as the cluster's UID is not known.",
            &["IDN-08"],
        )
        .refuses(|request: &HandshakeRequest| {
            let uid = request.cluster.as_ref().map(|cluster| &cluster.uid);
            let text = "cluster.uid is required";
            let unknown = uid.is_none_or(String::is_empty);
            unknown.then(|| refusal(ErrorReason::InvalidRequest, text))
        }),
        Defect::new(
            "slow-status",
            "GetStatus takes 150 ms, since it asks the cloud.",
            &["IDN-09", "IDN-10"],
        )
        .call::<GetStatusRequest, _>(|call, next| async move {
            sleep(Duration::from_millis(150)).await;
            next.serve(call).await
        }),
        status_of_the_cloud(),
        Defect::new(
            "broken-for-good",
            "The provider says BROKEN though a restart would not help it.",
            &["IDN-11", "IDN-15", "INS-34"],
        )
        .answer::<GetStatusRequest>(|_, answer| {
            answer.set_readiness(Readiness::Broken);
        })
        .answered(On::Health, not_serving),
        Defect::new(
            "no-health",
            "The provider does not serve grpc.health.v1.",
            &["IDN-12"],
        )
        .around(On::Health, |_, _| async {
            Answer::failed(Status::unimplemented(""))
        }),
        Defect::new(
            "health-of-its-own",
            "grpc.health.v1 stays NOT_SERVING, since the library begins so.",
            &["IDN-13"],
        )
        .answered(On::Health, not_serving),
        Defect::new(
            "update-is-missing",
            "The provider declares load balancers, and has no UpdateLoadBalancerNodes.",
            &["IDN-30", "LBS-15", "LBS-16", "LBS-17", "LBS-34", "LBS-46"],
        )
        .call::<UpdateLoadBalancerNodesRequest, _>(|_, _| async {
            Answer::failed(Status::unimplemented(""))
        }),
        needs_handshake::<BatchGetInstancesRequest>(
            "session-of-each-connection",
            "The provider keeps the handshake with the connection, and serves no other one.",
            &["IDN-32"],
        ),
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
    let latest = Arc::new(AtomicU64::new(0));
    let known = Arc::clone(&latest);
    let boot_id = |number| format!("boot-of-handshake-{number}");
    Defect::new(
        "boot-id-of-each-handshake",
        "The provider makes a boot_id for each handshake.",
        &["IDN-06", "RES-22"],
    )
    .answer::<HandshakeRequest>(move |_, answer| {
        answer.boot_id = boot_id(latest.fetch_add(1, Ordering::Relaxed) + 1);
    })
    .answer::<GetStatusRequest>(move |_, answer| {
        answer.boot_id = boot_id(known.load(Ordering::Relaxed));
    })
}

/// The numbers of connections with a handshake.
type Shaken = Arc<Mutex<BTreeSet<u64>>>;

/// A method is refused on each connection without a handshake.
fn needs_handshake<Q: MethodRequest>(
    name: &'static str,
    sentence: &'static str,
    cases: &'static [&'static str],
) -> Defect {
    let shaken = Shaken::default();
    let known = Arc::clone(&shaken);
    Defect::new(name, sentence, cases)
        .call::<HandshakeRequest, _>(move |call, next| {
            shaken.lock().insert(call.connection());
            next.serve(call)
        })
        .call::<Q, _>(move |call, next| {
            let is_shaken = known.lock().contains(&call.connection());
            async move {
                if is_shaken {
                    return next.serve(call).await;
                }
                let text = "no handshake on this connection";
                Answer::failed(refusal(ErrorReason::NotHandshaked, text))
            }
        })
}

/// Remembers the cluster of the last handshake with a UID, as the context of calls of the defect's own.
fn remembering(defect: Defect) -> (Defect, Arc<Mutex<CallContext>>) {
    let cluster: Arc<Mutex<CallContext>> = Arc::default();
    let known = Arc::clone(&cluster);
    let defect = defect.request(move |shaken: &mut HandshakeRequest| {
        if let Some(named) = shaken.cluster.as_ref().filter(|one| !one.uid.is_empty()) {
            *cluster.lock() = CallContext {
                request_id: "of-the-handshake".to_owned(),
                cluster_name: named.name.clone(),
                cluster_uid: named.uid.clone(),
            };
        }
    });
    (defect, known)
}

/// A defect that takes the cluster of the handshake for that of a call, and the change of a context that does so.
pub(super) fn of_the_handshake(
    defect: Defect,
) -> (
    Defect,
    impl Fn(&mut CallContext) + Clone + Send + Sync + 'static,
) {
    let (defect, known) = remembering(defect);
    let change = move |context: &mut CallContext| {
        context.cluster_uid.clone_from(&known.lock().cluster_uid);
    };
    (defect, change)
}

/// A lookup as a check of the cloud.
fn status_of_the_cloud() -> Defect {
    let (defect, known) = remembering(Defect::new(
        "status-of-the-cloud",
        "GetStatus fails while the cloud does.",
        &["IDN-10", "RES-25", "RES-26"],
    ));
    defect.call::<GetStatusRequest, _>(move |call, next| {
        let check = BatchGetInstancesRequest {
            context: Some(known.lock().clone()),
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
