//! Mistakes in lists of routes.

use std::sync::Arc;

use outrigger_api::v1::{HandshakeRequest, ListRoutesRequest, ListRoutesResponse};
use parking_lot::Mutex;

use crate::defects::Defect;
use crate::faults::BadAnswer;
use crate::wire::Answer;

/// Without a list that can be read no case about routes passes.
const EACH: &[&str] = &[
    "RTE-01", "RTE-02", "RTE-03", "RTE-04", "RTE-05", "RTE-06", "RTE-07", "RTE-08", "RTE-09",
    "RTE-10", "RTE-11", "RTE-13", "RTE-14", "RTE-15", "RTE-16", "RTE-17", "TRN-14",
];
const EACH_BY_SIZE: &[&str] = &[
    "RTE-01", "RTE-02", "RTE-03", "RTE-04", "RTE-05", "RTE-06", "RTE-07", "RTE-08", "RTE-09",
    "RTE-10", "RTE-11", "RTE-12", "RTE-13", "RTE-14", "RTE-15", "RTE-16", "RTE-17", "TRN-14",
];

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new(
            "list-of-routes-never-complete",
            "A list of routes ends without complete.",
            EACH,
        )
        .answer::<ListRoutesRequest>(|_, answer| {
            answer.complete = false;
        }),
        Defect::new(
            "lists-routes-in-one-message",
            "A list of routes is one message, larger than the controller accepts.",
            EACH_BY_SIZE,
        )
        .bad_answer::<ListRoutesRequest>(BadAnswer::OversizedReply),
        list_of_the_handshake(),
        Defect::new(
            "hides-blackholes",
            "A route that leads nowhere is listed as any other.",
            &["RTE-17"],
        )
        .answer::<ListRoutesRequest>(|_, answer| {
            for route in &mut answer.items {
                route.blackhole = false;
            }
        }),
        Defect::new(
            "empty-while-the-cloud-fails",
            "A list of routes that fails in the cloud is complete, and empty.",
            &["RTE-13"],
        )
        .call::<ListRoutesRequest, _>(|call, next| async move {
            let answer = next.serve(call).await;
            let error = answer.error();
            if error.is_some_and(|error| error.code() == tonic::Code::Unavailable) {
                return Answer::ok(&ListRoutesResponse {
                    routes: Vec::new(),
                    complete: true,
                });
            }
            answer
        }),
    ]
}

/// Remembers the UID of the cluster of the handshake.
pub(super) fn cluster_of_the_handshake(defect: Defect) -> (Defect, Arc<Mutex<String>>) {
    let cluster: Arc<Mutex<String>> = Arc::default();
    let known = Arc::clone(&cluster);
    let defect = defect.request(move |request: &mut HandshakeRequest| {
        if let Some(shaken) = request.cluster.as_ref().filter(|one| !one.uid.is_empty()) {
            cluster.lock().clone_from(&shaken.uid);
        }
    });
    (defect, known)
}

fn list_of_the_handshake() -> Defect {
    let (defect, cluster) = cluster_of_the_handshake(Defect::new(
        "lists-routes-of-all-clusters",
        "A list of routes is about the cluster of the handshake, whichever it names.",
        &["RTE-03"],
    ));
    defect.request(move |request: &mut ListRoutesRequest| {
        let context = request.context.iter_mut();
        context.for_each(|context| context.cluster_uid.clone_from(&cluster.lock()));
    })
}
