//! Mistakes in lists of routes.

use outrigger_api::ListPage as _;
use outrigger_api::v1::{ListRoutesRequest, ListRoutesResponse};
use tonic::Code;

use crate::defects::Defect;
use crate::defects::handshake::of_the_handshake;
use crate::defects::hook::On;
use crate::exchange::Answer;
use crate::faults::BadAnswer;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new("list-of-routes-never-complete").never_complete::<ListRoutesRequest>(),
        Defect::new("lists-routes-in-one-message")
            .bad_answer::<ListRoutesRequest>(BadAnswer::OversizedReply),
        list_of_the_handshake(),
        Defect::new("hides-blackholes").listed::<ListRoutesRequest>(|routes| {
            for route in routes {
                route.blackhole = false;
            }
        }),
        Defect::new("empty-while-the-cloud-fails").answered(
            On::of::<ListRoutesRequest>(),
            |_, answer| {
                if answer.code() != Code::Unavailable {
                    return answer;
                }
                Answer::ok(&ListRoutesResponse::page(Vec::new(), true))
            },
        ),
    ]
}

fn list_of_the_handshake() -> Defect {
    let (defect, change) = of_the_handshake(Defect::new("lists-routes-of-all-clusters"));
    defect.in_context::<ListRoutesRequest>(change)
}
