//! Mistakes in lists of routes.

use outrigger_api::ListPage as _;
use outrigger_api::v1::{ListRoutesRequest, ListRoutesResponse};
use tonic::Code;

use crate::defects::Defect;
use crate::defects::handshake::of_the_handshake;
use crate::defects::hook::On;
use crate::exchange::Answer;
use crate::faults::BadAnswer;

/// Without a list that can be read no case about routes passes.
const EACH: &[&str] = &[
    "RTE-01", "RTE-02", "RTE-03", "RTE-04", "RTE-05", "RTE-06", "RTE-07", "RTE-08", "RTE-09",
    "RTE-10", "RTE-11", "RTE-13", "RTE-14", "RTE-15", "RTE-17", "RTE-18", "TRN-14",
];
const EACH_BY_SIZE: &[&str] = &[
    "RTE-01", "RTE-02", "RTE-03", "RTE-04", "RTE-05", "RTE-06", "RTE-07", "RTE-08", "RTE-09",
    "RTE-10", "RTE-11", "RTE-12", "RTE-13", "RTE-14", "RTE-15", "RTE-17", "RTE-18", "TRN-14",
];

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new(
            "list-of-routes-never-complete",
            "A list of routes ends without complete.",
            EACH,
        )
        .never_complete::<ListRoutesRequest>(),
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
        .listed::<ListRoutesRequest>(|routes| {
            for route in routes {
                route.blackhole = false;
            }
        }),
        Defect::new(
            "empty-while-the-cloud-fails",
            "A list of routes that fails in the cloud is complete, and empty.",
            &["RTE-13"],
        )
        .answered(On::of::<ListRoutesRequest>(), |_, answer| {
            if answer.code() != Code::Unavailable {
                return answer;
            }
            Answer::ok(&ListRoutesResponse::page(Vec::new(), true))
        }),
    ]
}

fn list_of_the_handshake() -> Defect {
    let (defect, change) = of_the_handshake(Defect::new(
        "lists-routes-of-all-clusters",
        "A list of routes is about the cluster of the handshake, whichever it names.",
        &["RTE-03"],
    ));
    defect.in_context::<ListRoutesRequest>(change)
}
